// What happens to a decoder's logits before a token is chosen from them: GreedySearch, Sampling, BeamSearch. ONNX
// Runtime's order and arithmetic, f32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/graph.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// A search as its node and inputs describe it.
struct Search {
  enum class Kind : uint8_t { greedy, sampling, beam };
  Kind kind = Kind::greedy;
  bool has_encoder = false;  // model_type 1: an encoder and a decoder, as T5; else a decoder, as GPT-2
  int32_t end = 0, pad = 0, start = -1;
  int64_t no_repeat = 0;                 // length of the word sequences that may not come twice; 0: any may
  int64_t vocabulary = 0;                // 0: as many as the decoder scores
  int64_t least_length = 0, length = 0;  // of the texts, prompts included
  int64_t texts = 0, beams = 1, returned = 1;
  float length_penalty = 1, repetition_penalty = 1;
  bool early_stopping = false;
  Tensor vocabulary_mask, prefix_mask, attention_mask, presence_mask;  // i32; invalid: none
  // Sampling
  float temperature = 1, top_p = 0, filter_value = -1e20F, presence_penalty = 0;
  int64_t kept = 0;            // tokens that the filter leaves at least
  bool from_greatest = false;  // the filter sums probabilities from the greatest down
  std::optional<uint32_t> seed;

  // Throws Error(invalid_model, invalid_input) where a value is out of range.
  static Search read(const onnx::Node& node, const std::vector<Value>& inputs);
};

using Texts = std::vector<std::vector<int32_t>>;

// One row a text.
struct Scores {
  int64_t vocabulary = 0;
  std::vector<float> values;

  std::span<float> row(size_t i) {
    return std::span(values).subspan(i * static_cast<size_t>(vocabulary), static_cast<size_t>(vocabulary));
  }
  size_t rows() const { return values.size() / static_cast<size_t>(vocabulary); }
};

// Of the last token of each row of logits [texts or beams, tokens, words], a row a beam. Throws Error(invalid_model)
// where they have another form.
Scores last_scores(const Search& search, const Tensor& logits);
void log_softmax(Scores& scores);
// Penalties and masks; `first`: of the first token that is generated.
void process(const Search& search, const Texts& texts, bool first, Scores& scores);
// What falls outside of the most probable tokens gets search.filter_value.
void filter_top_p(const Search& search, Scores& scores);

}  // namespace transmuter::runtime
