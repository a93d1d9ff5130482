// Stands in for tiff.cc in a build without libtiff.
#include "image/formats.h"

namespace transmuter::image {

std::optional<Image> decode_tiff(Bytes) { refuse_format("TIFF", "libtiff 4.5"); }

}  // namespace transmuter::image
