// Stands in for jpeg2000.cc in a build without libopenjp2.
#include "image/formats.h"

namespace transmuter::image {

std::optional<Image> decode_jpeg2000(Bytes) { refuse_format("JPEG 2000", "libopenjp2"); }

}  // namespace transmuter::image
