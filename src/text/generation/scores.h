// Changes to the scores of the next token: pure functions, one rule each. `x` has a score for each id of the
// vocabulary, -inf for what cannot come; `ids` are the tokens so far, prompt included, padding not. Ids outside the
// vocabulary are ignored.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "text/probabilities.h"

namespace transmuter::generation {

using Ids = std::span<const int64_t>;
using Scores = std::span<float>;

inline constexpr float kNever = -std::numeric_limits<float>::infinity();

// ---- scores.cc
// x - log(sum(exp(x))), in place.
void log_softmax(Scores x);
// The lowest id of the best score; NaN never wins.
int64_t best_of(std::span<const float> x);
// Everything but `ids` becomes -inf.
void keep_only(Scores x, Ids ids);
void suppress(Scores x, Ids ids);
// Everything -inf, `ids` 0.
void force(Scores x, Ids ids);
// NaN -> 0, infinities -> the largest finite numbers.
void remove_invalid(Scores x);
// Both as log probabilities: without + scale * (with - without).
void guide(Scores with, std::span<const float> without, double scale);
// Once `length` is over `start` the scores of the EOS ids grow by |x| * (factor^(length - start) - 1).
void decay_length(Scores x, Ids eos, int64_t length, int64_t start, double factor);

// ---- repetition.cc
// Each distinct id of `ids`: x < 0 ? x * penalty : x / penalty.
void penalize_repetition(Scores x, Ids ids, double penalty);
// Each distinct id that the encoder reads: x < 0 ? x / penalty : x * penalty.
void favour_encoder_ids(Scores x, Ids encoder_ids, double penalty);
// What would complete a run of n tokens that is in `seen` already becomes -inf.
void ban_repeated_ngrams(Scores x, Ids ids, Ids seen, int64_t n);
// The last id of `sequence` gets `bias` if the tokens end with what comes before it.
void bias_sequence(Scores x, Ids ids, Ids sequence, float bias);

// ---- filters.cc: of sampling. At least `keep` of the best stay.
void keep_top_k(Scores x, int64_t k, int64_t keep);
void keep_top_p(Scores x, double p, int64_t keep);
void keep_top_h(Scores x, double h);
void keep_min_p(Scores x, double p, int64_t keep);
void keep_typical(Scores x, double mass, int64_t keep);
void cut_epsilon(Scores x, double epsilon, int64_t keep);
void cut_eta(Scores x, double epsilon, int64_t keep);

}  // namespace transmuter::generation
