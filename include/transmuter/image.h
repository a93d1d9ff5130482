// Pictures for models: files to pixels, pixels to files, sizes changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transmuter/tensor.h"

namespace transmuter {

// u8 [height, width, 3], red, green, blue, of a file in a format that ImageDecoder knows (BMP and PNM always; JPEG,
// PNG, TIFF, WebP, JPEG 2000 where the build has their libraries). Alpha is dropped. Throws Error: not_found or io for
// the file, invalid_input for bytes that are no picture or a damaged one, unsupported for a format that the build
// lacks, limit.
Tensor read_image(const std::string& path);
Tensor decode_image(std::span<const std::byte> file);

// u8 [height, width, channels] at another size as Pillow's bilinear filter does it: shrinking takes the mean of what
// falls on a pixel. Throws Error(invalid_input) for another dtype or rank, or a size that isn't positive.
Tensor resize_image(const Tensor& image, int64_t height, int64_t width);

// A PNG file of u8 [height, width, 1 (grey), 3 or 4 (with alpha)]. Throws Error: invalid_input, io, unsupported in a
// build without libpng.
void write_png(const std::string& path, const Tensor& image);

}  // namespace transmuter
