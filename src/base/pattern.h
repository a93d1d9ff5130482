// Regular expressions by RE2 (github.com/google/re2/wiki/Syntax), in time linear in the text; patterns and texts are
// UTF-8. A build without RE2 has pattern_absent.cc, where every pattern is an error that names the package.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace transmuter {

class Pattern {
 public:
  // Error(invalid_model) with RE2's reason where the pattern is none, or is too large to compile.
  explicit Pattern(std::string_view expression);

  // The whole text; bytes that are no UTF-8 match nothing.
  bool matches(std::string_view text) const;
  // Where it is found, from left to right, the longest match at each place: begin and end of those that are not empty.
  std::vector<std::pair<size_t, size_t>> places(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;  // shared_ptr: copies are cheap, and the type stays in pattern.cc
};

}  // namespace transmuter
