#include <algorithm>

#include "text/generation/scores.h"

namespace transmuter::generation {
namespace {

// Calls `change` once for each distinct id that is in the vocabulary.
template <class Change>
void for_each_distinct(Scores x, Ids ids, const Change& change) {
  std::vector<bool> seen(x.size());
  for (const int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(x.size()) || seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    change(x[static_cast<size_t>(id)]);
  }
}

bool ends_with(Ids ids, Ids tail) {
  return ids.size() >= tail.size() &&
         std::equal(tail.begin(), tail.end(), ids.end() - static_cast<int64_t>(tail.size()));
}

}  // namespace

void penalize_repetition(Scores x, Ids ids, double penalty) {
  const float p = static_cast<float>(penalty);
  for_each_distinct(x, ids, [p](float& value) { value = value < 0 ? value * p : value / p; });
}

void favour_encoder_ids(Scores x, Ids encoder_ids, double penalty) { penalize_repetition(x, encoder_ids, 1 / penalty); }

void ban_repeated_ngrams(Scores x, Ids ids, Ids seen, int64_t n) {
  const size_t length = static_cast<size_t>(n);
  if (n < 1 || ids.size() + 1 < length || seen.size() < length) return;
  const Ids tail = ids.subspan(ids.size() - (length - 1));
  for (size_t i = 0; i + length <= seen.size(); ++i) {
    const int64_t last = seen[i + length - 1];
    if (last >= 0 && last < static_cast<int64_t>(x.size()) &&
        std::equal(tail.begin(), tail.end(), seen.begin() + static_cast<int64_t>(i)))
      x[static_cast<size_t>(last)] = kNever;
  }
}

void bias_sequence(Scores x, Ids ids, Ids sequence, float bias) {
  if (sequence.empty() || sequence.back() < 0 || sequence.back() >= static_cast<int64_t>(x.size())) return;
  if (ends_with(ids, sequence.first(sequence.size() - 1))) x[static_cast<size_t>(sequence.back())] += bias;
}

}  // namespace transmuter::generation
