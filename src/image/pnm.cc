// The portable formats P1 to P6: bitmaps, grey maps and pixel maps, as text and binary. Source: Netpbm's format pages.
#include <algorithm>

#include "image/formats.h"

namespace transmuter::image {
namespace {

constexpr bool is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Reader {
 public:
  explicit Reader(Bytes file) : file_(file), at_(2) {}

  // The next number of the header or of a text body, behind blanks and comments; -1 where there is none.
  int64_t number() {
    skip_blanks();
    int64_t value = -1;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9'; ++at_) {
      value = (value < 0 ? 0 : value) * 10 + (file_[at_] - '0');
      if (value > kMostPixels) return value;
    }
    return value;
  }

  // Digits of a text bitmap need no blanks between them.
  int64_t bit() {
    skip_blanks();
    if (at_ >= file_.size() || (file_[at_] != '0' && file_[at_] != '1')) return -1;
    return file_[at_++] - '0';
  }

  // What follows the one blank behind the header.
  Bytes body() const { return at_ < file_.size() && is_blank(file_[at_]) ? file_.subspan(at_ + 1) : Bytes{}; }

 private:
  void skip_blanks() {
    for (; at_ < file_.size(); ++at_) {
      if (file_[at_] == '#') {
        while (at_ < file_.size() && file_[at_] != '\n' && file_[at_] != '\r') ++at_;
        if (at_ == file_.size()) return;
      } else if (!is_blank(file_[at_])) {
        return;
      }
    }
  }

  Bytes file_;
  size_t at_;
};

uint8_t to_eight_bits(int64_t sample, int64_t most) {
  return static_cast<uint8_t>((std::min(sample, most) * 255 + most / 2) / most);
}

}  // namespace

std::optional<Image> decode_pnm(Bytes file) {
  const int kind = file[1] - '0';
  Reader reader(file);
  const int64_t width = reader.number(), height = reader.number();
  const bool bits = kind == 1 || kind == 4, text = kind <= 3;
  const int64_t most = bits ? 1 : reader.number();
  if (width < 1 || height < 1 || most < 1 || most > 65535) return {};
  const int64_t channels = kind == 3 || kind == 6 ? 3 : 1;
  // Before any memory: a body has at least a bit, or in text a character, for each sample.
  const Bytes body = text ? file : reader.body();
  if (width <= kMostPixels && height <= kMostPixels &&
      height * width * channels > static_cast<int64_t>(body.size()) * (text ? 1 : 8))
    return {};
  std::optional<Image> image = start_image(height, width, channels);
  std::vector<uint8_t>& pixels = image->pixels;
  if (text) {
    for (uint8_t& pixel : pixels) {
      const int64_t sample = bits ? reader.bit() : reader.number();
      if (sample < 0) return {};
      pixel = bits ? (sample ? 0 : 255) : to_eight_bits(sample, most);
    }
    return image;
  }
  if (bits) {
    const size_t row_bytes = (static_cast<size_t>(width) + 7) / 8;
    if (body.size() < row_bytes * static_cast<size_t>(height)) return {};
    for (size_t i = 0; i < pixels.size(); ++i) {
      const size_t row = i / static_cast<size_t>(width), column = i % static_cast<size_t>(width);
      pixels[i] = (body[row * row_bytes + column / 8] >> (7 - column % 8)) & 1 ? 0 : 255;
    }
    return image;
  }
  const size_t sample_bytes = most > 255 ? 2 : 1;
  if (body.size() < pixels.size() * sample_bytes) return {};
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = to_eight_bits(sample_bytes == 2 ? body[2 * i] * 256 + body[2 * i + 1] : body[i], most);
  return image;
}

}  // namespace transmuter::image
