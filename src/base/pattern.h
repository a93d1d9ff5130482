// Regular expressions in RE2's syntax, matched in time linear in the text: no captures, no Unicode classes (\p{...}).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transmuter {

class Pattern {
 public:
  explicit Pattern(std::string_view expression);  // Error(invalid_model) says what is wrong, or unsupported

  bool matches(std::u32string_view text) const { return longest(text, 0) == text.size(); }
  // The end of the longest match that starts at `from`.
  std::optional<size_t> longest(std::u32string_view text, size_t from) const;

 private:
  friend class PatternParser;
  enum class Kind : uint8_t { set, split, jump, begin, end, line_begin, line_end, boundary, no_boundary, match };
  struct Instruction {
    Kind kind;
    uint32_t next = 0, other = 0;  // where to go on; split: also `other`
    uint32_t set = 0;
  };
  struct Set {
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false;
    bool holds(char32_t c) const;
  };
  void follow(std::vector<uint32_t>& list, std::vector<uint32_t>& seen, uint32_t mark, uint32_t at,
              std::u32string_view text, size_t place) const;

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
};

}  // namespace transmuter
