#include "image/decode.h"

#include <string_view>

#include "base/strings.h"
#include "image/formats.h"
#include "transmuter/error.h"

namespace transmuter::image {
namespace {

using Decode = std::optional<Image> (*)(Bytes);

struct Format {
  std::string_view magic;  // a ? is any byte
  Decode decode;
};

using namespace std::string_view_literals;

constexpr Format kFormats[] = {
    {"BM"sv, decode_bmp},
    {"P1"sv, decode_pnm},
    {"P2"sv, decode_pnm},
    {"P3"sv, decode_pnm},
    {"P4"sv, decode_pnm},
    {"P5"sv, decode_pnm},
    {"P6"sv, decode_pnm},
    {"\xff\xd8\xff"sv, decode_jpeg},
    {"\x89PNG\r\n\x1a\n"sv, decode_png},
    {"II*\0"sv, decode_tiff},
    {"MM\0*"sv, decode_tiff},
    {"II+\0"sv, decode_tiff},
    {"MM\0+"sv, decode_tiff},
    {"RIFF????WEBP"sv, decode_webp},
    {"\0\0\0\x0cjP  \r\n\x87\n"sv, decode_jpeg2000},
    {"\xff\x4f\xff\x51"sv, decode_jpeg2000},
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

void refuse_format(const char* name, const char* library) {
  throw Error(ErrorCode::unsupported, str("this build cannot decode ", name, " pictures: it was made without ", library,
                                          " (see cmake/image_formats.cmake)"));
}

std::optional<Image> decode(Bytes file) {
  for (const Format& format : kFormats)
    if (starts_with(file, format.magic)) return format.decode(file);
  return {};
}

}  // namespace transmuter::image
