// transmuter/image.h: pictures as tensors.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/mapped_file.h"
#include "base/strings.h"
#include "image/decode.h"
#include "image/formats.h"
#include "transmuter/error.h"
#include "transmuter/image.h"

namespace transmuter {
namespace {

// An axis: which pixels each new one is made of, and their weights in 1/2^22, as Pillow has them.
constexpr int kBits = 22;
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> taps(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(to));
  for (size_t i = 0; i < all.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(middle - reach + 0.5)));
    const auto last = std::min(from, static_cast<int64_t>(std::floor(middle + reach + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      weights.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(x) - middle + 0.5) / reach)));
      sum += weights.back();
    }
    all[i].first = first;
    for (const double weight : weights)
      all[i].weights.push_back(static_cast<int32_t>(std::floor(0.5 + weight / sum * (1 << kBits))));
  }
  return all;
}

// Along an axis: `inner` bytes lie between two of its pixels, `outer` lines follow each other.
std::vector<uint8_t> resize_axis(const uint8_t* in, int64_t outer, int64_t from, int64_t to, int64_t inner) {
  std::vector<uint8_t> out(static_cast<size_t>(outer * to * inner));
  const std::vector<Taps> all = taps(from, to);
  std::vector<int64_t> sums(static_cast<size_t>(inner));
  uint8_t* at = out.data();
  for (int64_t line = 0; line < outer; ++line) {
    for (const Taps& pixel : all) {
      std::fill(sums.begin(), sums.end(), int64_t{1} << (kBits - 1));
      const uint8_t* source = in + (line * from + pixel.first) * inner;
      for (const int32_t weight : pixel.weights)
        for (int64_t& sum : sums) sum += int64_t{weight} * *source++;
      for (const int64_t sum : sums) *at++ = static_cast<uint8_t>(std::clamp<int64_t>(sum >> kBits, 0, 255));
    }
  }
  return out;
}

void check_picture(const Tensor& image, const char* what) {
  if (image.dtype() != DType::u8 || image.rank() != 3 || image.size() == 0)
    throw Error(ErrorCode::invalid_input,
                str(what, " takes a picture as uint8 [height, width, channels], not ", describe(image)));
}

}  // namespace

Tensor decode_image(std::span<const std::byte> file) {
  const auto image = image::decode({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  if (!image) throw Error(ErrorCode::invalid_input, "this is no picture of a known format, or a damaged one");
  if (image->channels == 3) return Tensor(image->pixels, {image->height, image->width, 3});
  Tensor colours(DType::u8, {image->height, image->width, 3});
  uint8_t* to = colours.mutable_data<uint8_t>();
  for (const uint8_t grey : image->pixels) to = std::fill_n(to, 3, grey);
  return colours;
}

Tensor read_image(const std::string& path) {
  const auto file = MappedFile::open(path, /*map=*/false);
  try {
    return decode_image({file->bytes(), file->size()});
  } catch (Error& error) {
    throw error.in("file " + path);
  }
}

Tensor resize_image(const Tensor& image, int64_t height, int64_t width) {
  check_picture(image, "resize_image");
  if (height < 1 || width < 1 || height > image::kMostPixels / width)
    throw Error(ErrorCode::invalid_input, str("a picture cannot be made ", height, " x ", width));
  const int64_t channels = image.dim(2);
  // Rows first, as Pillow: the rounding in between shows.
  const auto wide = resize_axis(image.data<uint8_t>(), image.dim(0), image.dim(1), width, channels);
  return Tensor(resize_axis(wide.data(), 1, image.dim(0), height, width * channels), {height, width, channels});
}

void write_png(const std::string& path, const Tensor& image) {
  check_picture(image, "write_png");
  if (image.dim(2) != 1 && image.dim(2) != 3 && image.dim(2) != 4)
    throw Error(ErrorCode::invalid_input, str("a PNG file has 1, 3 or 4 channels, not ", image.dim(2)));
  write_file(path, image::encode_png(image.dim(0), image.dim(1), image.dim(2), image.data<uint8_t>()));
}

}  // namespace transmuter
