// Text in, vectors out: sentence embeddings by a model. With the other headers about text: tokenizers, chat templates,
// classes, entities, answers (text_tasks.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transmuter/chat_template.h"
#include "transmuter/tensor.h"
#include "transmuter/text_tasks.h"
#include "transmuter/tokenizer.h"

namespace transmuter {

// What a text is for; models that were trained with prompts have one for queries and one for documents.
enum class EmbedRole { text, query, document };

struct EmbedOptions {
  std::string prompt = {};           // put in front of each text as it is
  std::string prompt_name = {};      // else one of the model's prompts; an unknown name is an error
  EmbedRole role = EmbedRole::text;  // else the model's prompt for it; else its default prompt, if it has one
  bool normalize = false;            // to unit length, whatever the model's files say
  size_t truncate_dim = 0;           // keep the first so many numbers; 0 = all
};

// Sentence embeddings by an encoder, as sentence-transformers computes them from the files that it saves: modules.json
// with pooling, dense layers and normalization, sentence_bert_config.json with the longest text,
// config_sentence_transformers.json with prompts. A folder without modules.json gives the mean over the tokens'
// vectors, at unit length. A graph that has an output sentence_embedding does all of that itself.
//
// The model takes input_ids, attention_mask and, if it likes, token_type_ids and position_ids, and gives [batch,
// tokens, width] as last_hidden_state or as its first output. May be called from several threads at once, whose texts
// then run together.
class TextEmbedder {
 public:
  // A folder with tokenizer.json and model.onnx (or onnx/model.onnx), or the path of the graph.
  static TextEmbedder load(const std::string& folder, const TextTaskOptions& options = {});

  // f32 [texts, width], a vector a text, in order. Text must be UTF-8.
  Tensor operator()(std::span<const std::string> texts, const EmbedOptions& options = {}) const;
  // For each text its tokens' vectors, f32 [tokens, width], special tokens included; no prompt, no pooling.
  std::vector<Tensor> token_vectors(std::span<const std::string> texts) const;

  struct Impl;

 private:
  explicit TextEmbedder(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// rows: f32 [count, width]. Gives f32 [count, count]: the cosine of the angle between each two rows.
Tensor cosine_similarities(const Tensor& rows);

}  // namespace transmuter
