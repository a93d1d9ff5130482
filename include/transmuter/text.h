// Text in: tokenizers, and sentence embeddings by a model.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transmuter/chat_template.h"
#include "transmuter/model.h"
#include "transmuter/tensor.h"
#include "transmuter/tokenizer.h"

namespace transmuter {

struct EmbedOptions {
  CompileOptions compile;
  size_t max_length = 0;   // tokens a text may have; 0 = what the folder's sentence_bert_config.json says, else 512
  size_t batch_size = 32;  // texts run through the model at once
};

// Sentence embeddings by an encoder: mean over the tokens' last hidden states, then unit length.
//
// The model takes input_ids, attention_mask and, if it likes, token_type_ids and position_ids, and gives [batch,
// tokens, width] as last_hidden_state or as its first output. May be called from several threads at once.
class TextEmbedder {
 public:
  // A folder with tokenizer.json and model.onnx (or onnx/model.onnx).
  static TextEmbedder load(const std::string& folder, const EmbedOptions& options = {});

  // f32 [texts, width], one unit vector a text, in order. Text must be UTF-8.
  Tensor operator()(std::span<const std::string> texts) const;

  struct Impl;

 private:
  explicit TextEmbedder(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// rows: f32 [count, width]. Gives f32 [count, count]: the cosine of the angle between each two rows.
Tensor cosine_similarities(const Tensor& rows);

}  // namespace transmuter
