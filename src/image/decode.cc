#include "image/decode.h"

#include <string_view>

#include "base/strings.h"
#include "image/formats.h"
#include "transmuter/error.h"

namespace transmuter::image {
namespace {

using Decode = std::optional<Image> (*)(Bytes);

struct Format {
  const char* name;
  std::string_view magic;  // a ? is any byte
  Decode decode;           // null: the build lacks its library
  const char* library;
};

#ifdef TRANSMUTER_HAS_JPEG
constexpr Decode kJpeg = decode_jpeg;
#else
constexpr Decode kJpeg = nullptr;
#endif
#ifdef TRANSMUTER_HAS_PNG
constexpr Decode kPng = decode_png;
#else
constexpr Decode kPng = nullptr;
#endif
#ifdef TRANSMUTER_HAS_TIFF
constexpr Decode kTiff = decode_tiff;
#else
constexpr Decode kTiff = nullptr;
#endif
#ifdef TRANSMUTER_HAS_WEBP
constexpr Decode kWebp = decode_webp;
#else
constexpr Decode kWebp = nullptr;
#endif
#ifdef TRANSMUTER_HAS_JPEG2000
constexpr Decode kJpeg2000 = decode_jpeg2000;
#else
constexpr Decode kJpeg2000 = nullptr;
#endif

using namespace std::string_view_literals;

constexpr Format kFormats[] = {
    {"BMP", "BM"sv, decode_bmp, ""},
    {"PNM", "P1"sv, decode_pnm, ""},
    {"PNM", "P2"sv, decode_pnm, ""},
    {"PNM", "P3"sv, decode_pnm, ""},
    {"PNM", "P4"sv, decode_pnm, ""},
    {"PNM", "P5"sv, decode_pnm, ""},
    {"PNM", "P6"sv, decode_pnm, ""},
    {"JPEG", "\xff\xd8\xff"sv, kJpeg, "libjpeg"},
    {"PNG", "\x89PNG\r\n\x1a\n"sv, kPng, "libpng"},
    {"TIFF", "II*\0"sv, kTiff, "libtiff 4.5"},
    {"TIFF", "MM\0*"sv, kTiff, "libtiff 4.5"},
    {"TIFF", "II+\0"sv, kTiff, "libtiff 4.5"},
    {"TIFF", "MM\0+"sv, kTiff, "libtiff 4.5"},
    {"WebP", "RIFF????WEBP"sv, kWebp, "libwebp"},
    {"JPEG 2000", "\0\0\0\x0cjP  \r\n\x87\n"sv, kJpeg2000, "libopenjp2"},
    {"JPEG 2000", "\xff\x4f\xff\x51"sv, kJpeg2000, "libopenjp2"},
};

bool starts_with(Bytes file, std::string_view magic) {
  if (file.size() < magic.size()) return false;
  for (size_t i = 0; i < magic.size(); ++i)
    if (magic[i] != '?' && file[i] != static_cast<uint8_t>(magic[i])) return false;
  return true;
}

}  // namespace

std::optional<Image> start_image(int64_t height, int64_t width, int64_t channels) {
  if (height < 1 || width < 1) return {};
  if (height > kMostPixels || width > kMostPixels || height * width > kMostPixels)
    throw Error(ErrorCode::limit,
                str("a picture of ", height, " by ", width, " pixels; more than ", kMostPixels, " are not decoded"));
  return Image{height, width, channels, std::vector<uint8_t>(static_cast<size_t>(height * width * channels))};
}

std::optional<Image> decode(Bytes file) {
  for (const Format& format : kFormats) {
    if (!starts_with(file, format.magic)) continue;
    if (!format.decode)
      throw Error(ErrorCode::unsupported,
                  str("this build cannot decode ", format.name, " pictures: it was made without ", format.library,
                      " (see cmake/image_formats.cmake)"));
    return format.decode(file);
  }
  return {};
}

}  // namespace transmuter::image
