// The classes of characters that patterns name.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace transmuter {

using CharacterRanges = std::vector<std::pair<char32_t, char32_t>>;

inline bool is_word_character(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
CharacterRanges complement(CharacterRanges ranges);
CharacterRanges perl_class(char32_t letter);            // \d \s \w \D \S \W; empty for other letters
CharacterRanges posix_class(std::u32string_view name);  // of [:name:]; empty for other names

}  // namespace transmuter
