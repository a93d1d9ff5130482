// Texts at which an answer ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transmuter/tokenizer.h"

namespace transmuter::generation {

class StopStrings {
 public:
  StopStrings(const Tokenizer& tokenizer, std::vector<std::string> strings);

  bool empty() const { return strings_.empty(); }
  // A string ends in the text of the last of these tokens.
  bool end_in(std::span<const int64_t> ids) const;
  // Bytes of `text` up to the end of the first string that ends behind its first `before` bytes; all of it if none
  // does.
  size_t end_of(std::string_view text, size_t before) const;

 private:
  Tokenizer tokenizer_;
  std::vector<std::string> strings_;
  size_t looks_back_ = 0;  // tokens that surely hold the longest string
};

}  // namespace transmuter::generation
