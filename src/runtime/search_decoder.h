// The decoder of a search: its graphs called token by token, with the caches that they give and take.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/graph.h"
#include "runtime/control_flow.h"
#include "runtime/search_scores.h"

namespace transmuter::runtime {

class SearchDecoder {
 public:
  // `prompts` [texts, tokens]; without search.attention_mask what is not padding counts. Throws Error(invalid_model,
  // unsupported) where the graphs' inputs and outputs are not those of a GPT-2 decoder, or a T5 encoder and decoder.
  SearchDecoder(const onnx::Node& node, const Search& search, const Bodies& bodies, const Tensor& prompts);

  // What the texts begin with, one a beam.
  const Texts& prompts() const { return prompts_; }
  // Logits [texts or beams, tokens, words] behind the prompts. Once.
  Tensor first();
  // Behind the token that each text ends with now; `origins`: whose past it goes on from, by text.
  Tensor next(const Texts& texts, const std::vector<int64_t>& origins);

 private:
  struct Place {
    const onnx::Graph* graph;
    const char* attribute;
  };
  std::vector<Value> call(const Place& place, std::vector<Value> inputs) const;
  Tensor first_of_decoder();
  Tensor first_of_encoder();
  std::vector<Value> empty_past(size_t first, size_t count) const;
  // The outputs from `first` on become the past; gives the logits.
  Tensor keep(std::vector<Value> outputs, size_t first);

  const Search& search_;
  const Bodies& bodies_;
  Place decoder_, opening_;  // opening_: what is called first
  Texts prompts_;
  Tensor ids_, mask_;               // i32 [texts, tokens]
  std::vector<Value> past_;         // grows with the text
  std::vector<Value> fixed_;        // of the encoder: mask, hidden states; then the keys and values of its tokens
  size_t before_past_ = 0;          // inputs of the decoder in front of the past
  std::vector<int32_t> positions_;  // of the next token, by text
};

}  // namespace transmuter::runtime
