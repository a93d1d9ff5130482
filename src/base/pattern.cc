#include "base/pattern.h"

#include <re2/re2.h>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

re2::RE2::Options quiet_longest() {
  re2::RE2::Options options;
  options.set_longest_match(true);
  options.set_log_errors(false);
  return options;
}

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(std::string_view expression) : re2(piece(expression), quiet_longest()) {}
  re2::RE2 re2;
};

Pattern::Pattern(std::string_view expression) : compiled_(std::make_shared<const Compiled>(expression)) {
  if (!compiled_->re2.ok())
    throw Error(ErrorCode::invalid_model,
                str("the pattern '", expression, "' is no regular expression of RE2's: ", compiled_->re2.error()));
}

bool Pattern::matches(std::string_view text) const { return re2::RE2::FullMatch(piece(text), compiled_->re2); }

std::vector<std::pair<size_t, size_t>> Pattern::places(std::string_view text) const {
  const auto goes_on = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80; };
  std::vector<std::pair<size_t, size_t>> found;
  re2::StringPiece match;
  for (size_t at = 0; at < text.size();) {
    if (!compiled_->re2.Match(piece(text), at, text.size(), re2::RE2::UNANCHORED, &match, 1)) break;
    const size_t begin = static_cast<size_t>(match.data() - text.data()), end = begin + match.size();
    at = end;
    if (end > begin)
      found.emplace_back(begin, end);
    else
      for (++at; at < text.size() && goes_on(at);) ++at;
  }
  return found;
}

}  // namespace transmuter
