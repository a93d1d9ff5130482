// BMP: OS/2 and Windows headers, 1, 4, 8, 16, 24 and 32 bits a pixel, palettes, bit fields, run lengths of 4 and 8
// bits, rows from below or above. Source: Microsoft's pages on bitmap storage.
#include <algorithm>
#include <array>
#include <bit>

#include "image/formats.h"

namespace transmuter::image {
namespace {

enum Compression : uint32_t { kNone = 0, kRuns8 = 1, kRuns4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

uint32_t u16_at(Bytes file, size_t at) { return file[at] | uint32_t{file[at + 1]} << 8; }
uint32_t u32_at(Bytes file, size_t at) { return u16_at(file, at) | u16_at(file, at + 2) << 16; }

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};

struct Header {
  size_t size = 0;  // of the header behind the 14 bytes of the file's
  int64_t width = 0, height = 0;
  bool from_above = false;
  uint32_t bits = 0;
  uint32_t compression = kNone;
  std::array<uint32_t, 3> masks = {};
  std::vector<Colour> palette;
  Bytes body;
};

std::optional<Header> read_header(Bytes file) {
  if (file.size() < 26) return {};
  Header h;
  h.size = u32_at(file, 14);
  const bool old = h.size == 12;
  if (!old && (h.size < 40 || h.size > 124)) return {};
  if (file.size() < 14 + h.size) return {};
  h.width = old ? static_cast<int64_t>(u16_at(file, 18)) : static_cast<int32_t>(u32_at(file, 18));
  h.height = old ? static_cast<int64_t>(u16_at(file, 20)) : static_cast<int32_t>(u32_at(file, 22));
  h.from_above = h.height < 0;
  h.height = std::abs(h.height);
  h.bits = u16_at(file, old ? 24 : 28);
  if (!old) h.compression = u32_at(file, 30);
  size_t at = 14 + h.size;
  if (h.bits == 16) h.masks = {0x7c00, 0x03e0, 0x001f};
  if (h.bits == 24 || h.bits == 32) h.masks = {0xff0000, 0x00ff00, 0x0000ff};
  const bool fields = h.compression == kBitFields || h.compression == kAlphaBitFields;
  if (fields) {
    if ((h.bits != 16 && h.bits != 32) || file.size() < 66) return {};
    h.masks = {u32_at(file, 54), u32_at(file, 58),
               u32_at(file, 62)};  // behind a header of 40 bytes, inside longer ones
    if (h.size == 40) at += h.compression == kAlphaBitFields ? 16 : 12;
  } else if (h.compression == kRuns8 ? h.bits != 8 : h.compression == kRuns4 ? h.bits != 4 : h.compression != kNone) {
    return {};
  }
  if (h.bits == 1 || h.bits == 4 || h.bits == 8) {
    const size_t most = size_t{1} << h.bits, given = old ? 0 : u32_at(file, 46), entry = old ? 3 : 4;
    h.palette.resize(most);
    for (size_t i = 0; i < (given == 0 ? most : std::min(given, most)) && at + entry <= file.size(); ++i, at += entry)
      h.palette[i] = {file[at + 2], file[at + 1], file[at]};
  } else if (h.bits != 16 && h.bits != 24 && h.bits != 32) {
    return {};
  }
  const size_t start = u32_at(file, 10);
  if (start < 14 + h.size || start > file.size()) return {};
  h.body = file.subspan(start);
  return h;
}

// A sample under a mask, stretched to eight bits.
uint8_t sample(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const uint32_t most = mask >> std::countr_zero(mask), value = (pixel & mask) >> std::countr_zero(mask);
  return static_cast<uint8_t>((uint64_t{value} * 255 + most / 2) / most);
}

// Places of the palette, rows from below; what no run reaches stays 0. False where the runs leave the picture or the
// file.
bool expand_runs(const Header& h, std::vector<uint8_t>& places) {
  const Bytes body = h.body;
  const bool four = h.bits == 4;
  int64_t x = 0, y = 0;
  const auto put = [&](uint32_t place) {
    if (x >= h.width || y >= h.height) return false;
    places[static_cast<size_t>(y * h.width + x++)] = static_cast<uint8_t>(place);
    return true;
  };
  for (size_t at = 0; at + 1 < body.size();) {
    const uint32_t count = body[at], what = body[at + 1];
    at += 2;
    if (count > 0) {
      for (uint32_t i = 0; i < count; ++i)
        if (!put(!four ? what : i % 2 ? what & 15 : what >> 4)) return false;
    } else if (what == 0) {
      x = 0;
      ++y;
    } else if (what == 1) {
      return true;
    } else if (what == 2) {
      if (at + 2 > body.size()) return false;
      x += body[at];
      y += body[at + 1];
      at += 2;
    } else {
      const size_t bytes = four ? (what + 1) / 2 : what;
      if (at + bytes > body.size()) return false;
      for (uint32_t i = 0; i < what; ++i)
        if (!put(!four ? body[at + i] : i % 2 ? body[at + i / 2] & 15 : body[at + i / 2] >> 4)) return false;
      at += bytes + bytes % 2;
    }
  }
  return y >= h.height;  // no end mark: only when all rows are there
}

}  // namespace

std::optional<Image> decode_bmp(Bytes file) {
  const std::optional<Header> header = read_header(file);
  if (!header) return {};
  const Header& h = *header;
  const bool runs = h.compression == kRuns8 || h.compression == kRuns4;
  const int64_t row_bytes = (h.width * h.bits + 31) / 32 * 4;
  if (h.width < 1 || h.height < 1) return {};
  // Before any memory: rows that are not in the file.
  if (!runs && static_cast<int64_t>(h.body.size()) / row_bytes < h.height) return {};
  const bool grey = !h.palette.empty() && std::all_of(h.palette.begin(), h.palette.end(), [](const Colour& c) {
    return c.red == c.green && c.green == c.blue;
  });
  std::optional<Image> image = start_image(h.height, h.width, grey ? 1 : 3);
  std::vector<uint8_t> places;
  if (runs) {
    places.resize(static_cast<size_t>(h.height * h.width));
    if (!expand_runs(h, places)) return {};
  }
  uint8_t* out = image->pixels.data();
  for (int64_t y = 0; y < h.height; ++y) {
    const int64_t stored = h.from_above ? y : h.height - 1 - y;
    const Bytes row = runs ? Bytes(places).subspan(static_cast<size_t>(stored * h.width), static_cast<size_t>(h.width))
                           : h.body.subspan(static_cast<size_t>(stored * row_bytes), static_cast<size_t>(row_bytes));
    for (size_t x = 0; x < static_cast<size_t>(h.width); ++x) {
      Colour colour;
      if (!h.palette.empty()) {
        const size_t bit = runs ? 8 * x : x * h.bits;
        colour = h.palette[runs ? row[x] : row[bit / 8] >> (8 - h.bits - bit % 8) & ((1u << h.bits) - 1)];
      } else if (h.bits == 24) {
        colour = {row[3 * x + 2], row[3 * x + 1], row[3 * x]};
      } else {
        const uint32_t pixel = h.bits == 16 ? u16_at(row, 2 * x) : u32_at(row, 4 * x);
        colour = {sample(pixel, h.masks[0]), sample(pixel, h.masks[1]), sample(pixel, h.masks[2])};
      }
      *out++ = colour.red;
      if (grey) continue;
      *out++ = colour.green;
      *out++ = colour.blue;
    }
  }
  return image;
}

}  // namespace transmuter::image
