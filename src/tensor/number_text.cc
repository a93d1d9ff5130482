// Numbers to and from strings, independent of the locale.
#include <charconv>
#include <cstdio>

#include "tensor/cast.h"

namespace transmuter {
namespace {

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

[[noreturn]] void refuse(std::string_view text, const char* why) {
  throw Error(ErrorCode::invalid_input, str("the string \"", text, "\" ", why));
}

// Takes a sign off the front; true for '-'.
bool take_sign(std::string_view& text) {
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return false;
  const bool negative = text.front() == '-';
  text.remove_prefix(1);
  return negative;
}

template <class F>
F parse(std::string_view whole) {
  std::string_view text = trimmed(whole);
  const bool negative = take_sign(text);
  auto format = std::chars_format::general;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    text.remove_prefix(2);
    format = std::chars_format::hex;
  }
  F value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (fault == std::errc::invalid_argument || end != text.data() + text.size() || text.front() == '-')
    refuse(whole, "is not a number");
  if (fault == std::errc::result_out_of_range) {
    // from_chars does not say which way.
    const size_t e = text.find_first_of(format == std::chars_format::hex ? "pP" : "eE");
    const bool tiny = e == std::string_view::npos ? text.front() == '0' : text[e + 1] == '-';
    value = tiny ? F{0} : std::numeric_limits<F>::infinity();
  }
  return negative ? -value : value;
}

// Magnitude and sign; false where the text is not a plain integer that fits.
bool parse_plain(std::string_view text, bool& negative, uint64_t& magnitude) {
  text = trimmed(text);
  negative = take_sign(text);
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), magnitude);
  return fault == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string float_to_string(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, 8);
  return std::string(buffer, result.ptr);
}

double parse_double(std::string_view text) { return parse<double>(text); }
float parse_float(std::string_view text) { return parse<float>(text); }

int64_t parse_int64(std::string_view text) {
  bool negative = false;
  uint64_t magnitude = 0;
  if (parse_plain(text, negative, magnitude)) {
    if (magnitude <= static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0))
      return static_cast<int64_t>(negative ? uint64_t{0} - magnitude : magnitude);
  } else {
    const double value = parse_double(text);
    if (value >= -0x1p63 && value < 0x1p63) return static_cast<int64_t>(value);
  }
  refuse(text, "does not fit a 64-bit integer");
}

uint64_t parse_uint64(std::string_view text) {
  bool negative = false;
  uint64_t magnitude = 0;
  if (parse_plain(text, negative, magnitude)) return negative ? uint64_t{0} - magnitude : magnitude;
  const double value = parse_double(text);
  if (value > -0x1p63 && value < 0) return static_cast<uint64_t>(static_cast<int64_t>(value));
  if (value >= 0 && value < 0x1p64) return static_cast<uint64_t>(value);
  refuse(text, "does not fit an unsigned 64-bit integer");
}

}  // namespace transmuter
