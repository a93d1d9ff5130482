#include "base/unicode.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace transmuter {
namespace {

// The bytes of the sequence that starts with `lead`, 0 for none.
size_t sequence_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Lower-case letters first ... last; upper case is `distance` below, or with distance 1 every second one is a pair
// whose upper case has the parity of first - 1.
struct CaseRange {
  char32_t first, last;
  uint32_t distance;
};
constexpr std::array<CaseRange, 26> kCases{{
    {0x61, 0x7A, 0x20},       {0xE0, 0xF6, 0x20},     {0xF8, 0xFE, 0x20},   {0x101, 0x12F, 1},
    {0x133, 0x137, 1},        {0x13A, 0x148, 1},      {0x14B, 0x177, 1},    {0x17A, 0x17E, 1},
    {0x3AC, 0x3AC, 0x26},     {0x3AD, 0x3AF, 0x25},   {0x3B1, 0x3C1, 0x20}, {0x3C3, 0x3CB, 0x20},
    {0x3CC, 0x3CC, 0x40},     {0x3CD, 0x3CE, 0x3F},   {0x430, 0x44F, 0x20}, {0x450, 0x45F, 0x50},
    {0x461, 0x481, 1},        {0x48B, 0x4BF, 1},      {0x4C2, 0x4CE, 1},    {0x4D1, 0x52F, 1},
    {0x561, 0x586, 0x30},     {0x1E01, 0x1E95, 1},    {0x1EA1, 0x1EFF, 1},  {0xFF41, 0xFF5A, 0x20},
    {0x10428, 0x1044F, 0x28}, {0x24D0, 0x24E9, 0x1A},
}};

bool is_pair_member(const CaseRange& range, char32_t c) { return range.distance != 1 || ((c - range.first) & 1U) == 0; }

}  // namespace

std::u32string from_utf8(std::string_view text) {
  constexpr char32_t kBad = 0xFFFD;
  std::u32string points;
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[i + k]); };
    const size_t length = sequence_length(byte(0));
    bool good = length > 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; ++k) good = (byte(k) & 0xC0U) == 0x80;
    char32_t point = kBad;
    if (good) {
      point = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
      for (size_t k = 1; k < length; ++k) point = (point << 6) | (byte(k) & 0x3FU);
      const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
      good = !overlong && point <= 0x10FFFF && !(point >= 0xD800 && point < 0xE000);
    }
    points.push_back(good ? point : kBad);
    i += good ? length : 1;
  }
  return points;
}

std::string to_utf8(std::u32string_view text) {
  std::string bytes;
  const auto put = [&](uint32_t byte) { bytes.push_back(static_cast<char>(byte)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | (c >> 6));
      put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | (c >> 12));
      put(0x80 | ((c >> 6) & 0x3F));
      put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
      put(0x80 | ((c >> 6) & 0x3F));
      put(0x80 | (c & 0x3F));
    }
  }
  return bytes;
}

char32_t to_upper(char32_t c) {
  if (c == 0xFF) return 0x178;
  for (const CaseRange& range : kCases)
    if (c >= range.first && c <= range.last) return is_pair_member(range, c) ? c - range.distance : c;
  return c;
}

char32_t to_lower(char32_t c) {
  if (c == 0x178) return 0xFF;
  for (const CaseRange& range : kCases) {
    const char32_t lower = c + range.distance;
    if (lower >= range.first && lower <= range.last && is_pair_member(range, lower)) return lower;
  }
  return c;
}

std::string with_case(std::string_view text, char32_t (*change)(char32_t)) {
  std::u32string points = from_utf8(text);
  std::transform(points.begin(), points.end(), points.begin(), change);
  return to_utf8(points);
}

}  // namespace transmuter
