// Text in: tokenizers, and sentence embeddings by a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transmuter/model.h"
#include "transmuter/tensor.h"

namespace transmuter {

struct EncodeOptions {
  bool add_special_tokens = true;  // wrap each text as the tokenizer says ([CLS] … [SEP])
  size_t max_length = 0;           // tokens a row may have, special ones included; 0 = no limit
  bool truncate_left = false;      // drop tokens at the start instead of the end

  bool pad_to_longest = true;  // every row as long as the longest of the batch
  bool pad_left = false;       // padding before the tokens
  size_t pad_to_multiple_of = 0;
  uint32_t pad_id = 0;
  uint32_t pad_type_id = 0;
  std::string pad_token = "[PAD]";
};

// Bytes [begin, end) of the text that a token stands for; (0, 0) for special tokens and padding.
struct ByteSpan {
  size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

struct Encoding {
  std::vector<int64_t> ids, type_ids, attention_mask, special_tokens_mask;  // of one length
  std::vector<ByteSpan> offsets;
};

// A tokenizer.json of Hugging Face `tokenizers`. What the file says about padding and truncation is ignored: both are
// per call. Cheap to copy (copies share the tokenizer), safe to use from several threads. Loading is slow (up to
// seconds for large vocabularies): load once. Everything throws Error: not_found, io or invalid_model when loading,
// invalid_input after.
class Tokenizer {
 public:
  static Tokenizer load(const std::string& path);
  static Tokenizer parse(std::string_view json);

  // Text must be UTF-8.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts, const EncodeOptions& options = {}) const;
  // Row i encodes texts[i] with pairs[i]; both of one length.
  std::vector<Encoding> encode_pairs(std::span<const std::string> texts, std::span<const std::string> pairs,
                                     const EncodeOptions& options = {}) const;
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = true) const;

  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  size_t vocabulary_size() const;  // added tokens included

  struct Impl;

 private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

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
