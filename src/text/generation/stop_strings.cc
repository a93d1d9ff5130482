#include "text/generation/stop_strings.h"

#include <algorithm>

#include "base/unicode.h"
#include "transmuter/error.h"

namespace transmuter::generation {

StopStrings::StopStrings(const Tokenizer& tokenizer, std::vector<std::string> strings)
    : tokenizer_(tokenizer), strings_(std::move(strings)) {
  size_t longest = 0;
  for (const std::string& string : strings_) {
    if (string.empty()) throw Error(ErrorCode::invalid_input, "a stop string is empty");
    if (to_utf8(from_utf8(string)) != string)
      throw Error(ErrorCode::invalid_input, "a stop string is not valid UTF-8: write it in that encoding");
    longest = std::max(longest, string.size());
  }
  // A token has a byte at least, but for the few that are nothing but a part of the text before them.
  looks_back_ = 2 * longest + 8;
}

size_t StopStrings::end_of(std::string_view text, size_t before) const {
  size_t end = std::string_view::npos;
  for (const std::string& string : strings_) {
    const size_t from = before + 1 > string.size() ? before + 1 - string.size() : 0;
    const size_t at = text.find(string, from);
    if (at != std::string_view::npos) end = std::min(end, at + string.size());
  }
  return std::min(end, text.size());
}

bool StopStrings::end_in(std::span<const int64_t> ids) const {
  if (strings_.empty() || ids.empty()) return false;
  const std::span<const int64_t> tail = ids.last(std::min(ids.size(), looks_back_));
  const std::string all = tokenizer_.decode(tail, false),
                    before = tokenizer_.decode(tail.first(tail.size() - 1), false);
  return std::any_of(strings_.begin(), strings_.end(), [&](const std::string& string) {
    const size_t from = before.size() + 1 > string.size() ? before.size() + 1 - string.size() : 0;
    return all.find(string, from) != std::string::npos;
  });
}

}  // namespace transmuter::generation
