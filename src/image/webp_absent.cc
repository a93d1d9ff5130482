// Stands in for webp.cc in a build without libwebp.
#include "image/formats.h"

namespace transmuter::image {

std::optional<Image> decode_webp(Bytes) { refuse_format("WebP", "libwebp"); }

}  // namespace transmuter::image
