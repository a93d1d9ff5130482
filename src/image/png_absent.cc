// Stands in for png.cc in a build without libpng.
#include "image/formats.h"

namespace transmuter::image {

std::optional<Image> decode_png(Bytes) { refuse_format("PNG", "libpng"); }
std::string encode_png(int64_t, int64_t, int64_t, const uint8_t*) { refuse_format("PNG", "libpng"); }

}  // namespace transmuter::image
