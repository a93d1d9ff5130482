// Watermarks in texts: a part of the vocabulary that depends on the tokens before it and on a key is preferred.
#pragma once

#include <cstdint>
#include <vector>

#include "text/generation/scores.h"
#include "transmuter/generation.h"

namespace transmuter::generation {

class Watermarker {
 public:
  explicit Watermarker(const Watermark& settings);
  // Adds the bias to the scores of the ids that are green after `ids`; nothing where there is too little context.
  void apply(Scores x, Ids ids) const;

 private:
  std::vector<int64_t> green_after(Ids ids, size_t vocabulary) const;

  Watermark settings_;
  std::vector<int64_t> table_;  // selfhash: a fixed permutation that ids are hashed by
};

}  // namespace transmuter::generation
