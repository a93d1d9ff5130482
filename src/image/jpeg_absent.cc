// Stands in for jpeg.cc in a build without libjpeg.
#include "image/formats.h"

namespace transmuter::image {

std::optional<Image> decode_jpeg(Bytes) { refuse_format("JPEG", "libjpeg"); }

}  // namespace transmuter::image
