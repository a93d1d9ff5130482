#include "text/generation/guesses.h"

#include <algorithm>

#include "text/generation/scores.h"
#include "transmuter/error.h"

namespace transmuter::generation {

std::vector<int64_t> LookupGuesser::guess(const std::vector<int64_t>& ids, int64_t count) {
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t n = std::min(longest_, size - 1); n > 0; --n) {
    const auto tail = ids.end() - n;
    for (int64_t at = size - n - 1; at >= 0; --at) {
      if (!std::equal(tail, ids.end(), ids.begin() + at)) continue;
      const int64_t first = at + n;
      return {ids.begin() + first, ids.begin() + std::min(first + count, size)};
    }
  }
  return {};
}

std::vector<int64_t> ModelGuesser::guess(const std::vector<int64_t>& ids, int64_t count) {
  if (!run_.can_rewind())
    throw Error(ErrorCode::unsupported,
                "the assistant's state can't be taken back (a recurrent or a split model): take "
                "a decoder with caches");
  // All but the last token, whose scores are wanted, may be known already.
  size_t known = 0;
  while (known + 1 < ids.size() && known < seen_.size() && ids[known] == seen_[known]) ++known;
  run_.rewind(static_cast<int64_t>(known));
  seen_.assign(ids.begin(), ids.begin() + static_cast<int64_t>(known));
  std::vector<int64_t> next(ids.begin() + static_cast<int64_t>(known), ids.end()), guessed;
  while (static_cast<int64_t>(guessed.size()) < count) {
    const Tensor scores = run_.step({next, {}, 1, static_cast<int64_t>(next.size())}, options_);
    seen_.insert(seen_.end(), next.begin(), next.end());
    const std::span<const float> x(scores.data<float>(), static_cast<size_t>(scores.size()));
    const int64_t best = best_of(x);
    if (!(softmax(x)[static_cast<size_t>(best)] >= sure_)) break;
    guessed.push_back(best);
    next = {best};
    if (std::find(ends_.begin(), ends_.end(), best) != ends_.end()) break;
  }
  return guessed;
}

// More at a time while all are right, fewer once they aren't.
void ModelGuesser::learn(int64_t right, int64_t asked) {
  if (asked == 0) return;
  count_ = right == asked ? std::min(count_ + 2, most_) : std::max<int64_t>(count_ - 1, 1);
}

}  // namespace transmuter::generation
