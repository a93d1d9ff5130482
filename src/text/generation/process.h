// What happens to the scores of one row between the model and the choice: all rules that are set, in their order.
#pragma once

#include <memory>

#include "text/generation/scores.h"
#include "text/generation/watermark.h"
#include "transmuter/generation.h"

namespace transmuter::generation {

class Processors {
 public:
  // Refers to both, which must outlive it. `prompt`, `max_length`: tokens, padding included.
  Processors(const GenerationConfig& config, const GenerationCall& call, int64_t prompt, int64_t max_length);

  struct Row {
    size_t answer = 0;  // its place in the result
    Ids ids;            // so far, prompt included
    Ids encoder_ids;
    int64_t length = 0;                   // of the row, padding included
    std::span<const float> without = {};  // guidance: scores of the text to lead away from
  };
  // Throws Error(invalid_input) when the caller's allowed_tokens gives an empty list.
  void apply(Scores x, const Row& row) const;

 private:
  void constrain(Scores x, const Row& row) const;
  void filter(Scores x) const;

  const GenerationConfig& config_;
  const GenerationCall& call_;
  int64_t prompt_, max_length_, keep_;
  std::shared_ptr<const Watermarker> watermark_;
};

}  // namespace transmuter::generation
