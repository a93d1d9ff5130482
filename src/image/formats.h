// The decoders behind decode(), a file a format: what is no good picture gives nothing. Each asks start_image() for its
// pixels before it allocates anything by what the file claims.
#pragma once

#include <string>

#include "image/decode.h"

namespace transmuter::image {

using Bytes = std::span<const uint8_t>;

// Zeroed pixels; nothing where an extent is not positive, Error(limit) past kMostPixels.
std::optional<Image> start_image(int64_t height, int64_t width, int64_t channels);

// Error(unsupported) of a build without the format's library.
[[noreturn]] void refuse_format(const char* name, const char* library);

std::optional<Image> decode_bmp(Bytes file);
std::optional<Image> decode_pnm(Bytes file);
std::optional<Image> decode_jpeg(Bytes file);
std::optional<Image> decode_png(Bytes file);
std::optional<Image> decode_tiff(Bytes file);
std::optional<Image> decode_webp(Bytes file);
std::optional<Image> decode_jpeg2000(Bytes file);

// A PNG file of [height, width, channels] pixels, 1, 3 or 4 channels. Throws Error: invalid_input, out_of_memory.
std::string encode_png(int64_t height, int64_t width, int64_t channels, const uint8_t* pixels);

}  // namespace transmuter::image
