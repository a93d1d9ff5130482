// Code points in UTF-8, and their simple case.
#pragma once

#include <string>
#include <string_view>

namespace transmuter {

// Bytes that are no UTF-8 become U+FFFD, one each.
std::u32string from_utf8(std::string_view text);
std::string to_utf8(std::u32string_view text);

// One code point for one: Latin, Greek, Cyrillic, Armenian and full-width letters; others stay.
char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);
// Each code point changed by one of the two.
std::string with_case(std::string_view text, char32_t (*change)(char32_t));

}  // namespace transmuter
