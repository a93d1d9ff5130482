// A language model whatever its form: tokens in, scores of the next token out. The forms, told apart by names and
// shapes of inputs and outputs alone:
//   caches      past -> present (also recurrent states), merged decoders included
//   split       one model that begins, one that goes on with what the first made
//   plain       no caches: all tokens so far in each step
// each behind an encoder or without, by tokens or by their embeddings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transmuter/decoder.h"
#include "transmuter/generation.h"

namespace transmuter::generation {

// Tokens of a batch, rows of one length; `mask` has a 0 where there is padding, or is empty: no padding.
struct Tokens {
  std::vector<int64_t> ids, mask;
  int64_t rows = 0, length = 0;
  Tensor ids_as(DType dtype) const;
  Tensor mask_as(DType dtype) const;  // ones where there is no mask
};

class TokenModel {
 public:
  // Throws Error(invalid_model) saying what is missing.
  explicit TokenModel(GenerationModels models);

  bool has_encoder() const { return encoder_.has_value(); }
  // Rows of different length may run together, shorter ones padded on the left.
  bool pads_left() const { return pads_left_; }
  // Rows of any length may come to a batch that is under way.
  bool joins() const { return pads_left_ && !encoder_ && !begin_ && decoder_ && decoder_->can_append(); }
  // Rows of what the encoder reads may run together, too, padded on the right.
  bool masks_encoder() const { return masks_encoder_; }
  // What the encoder makes of its tokens, or of its inputs by name, by name of the decoder's inputs.
  TensorMap encode(const Tokens& tokens, const RunOptions& options) const;
  TensorMap encode(const TensorMap& inputs, const RunOptions& options) const;

 private:
  friend class TokenRun;
  TensorMap token_inputs(const CompiledModel& model, const Tokens& now, int64_t before, int64_t wanted,
                         const RunOptions& options) const;

  std::optional<CompiledModel> begin_;  // split and plain forms
  std::optional<CompiledModel> encoder_, embed_;
  std::optional<Decoder> decoder_;         // empty, to fork from
  std::vector<Decoder::Cache> handed_on_;  // split: what the first gives, and where the second takes it
  CompiledModel model_;                    // that `decoder_` runs
  std::string scores_, begin_scores_;      // names of outputs
  bool pads_left_ = false, masks_encoder_ = false;
};

// One text of each row, as far as it has come.
class TokenRun {
 public:
  // `encoded`: encode()'s, a row each.
  explicit TokenRun(std::shared_ptr<const TokenModel> model, TensorMap encoded = {});

  // Goes on by `now`. Gives the scores of the next token, [rows, vocabulary] f32.
  Tensor step(const Tokens& now, const RunOptions& options);
  // The same of one row, and the scores behind each of its tokens: [now.length, vocabulary] f32; no tensor where the
  // model gives those of the last token alone.
  Tensor step_all(const Tokens& now, const RunOptions& options);
  // Row i goes on from what row rows[i] was.
  void select(const std::vector<int64_t>& rows);
  bool rewind(int64_t length);
  bool can_rewind() const;
  // The rows of `other` behind this one's (Decoder::append). Throws Error(internal) where they can't be.
  void append(const TokenRun& other);
  int64_t length() const { return length_; }

 private:
  Tensor logits_of(const Tokens& now, const RunOptions& options, int64_t wanted);
  TensorMap begin(const Tokens& now, const RunOptions& options, int64_t wanted);

  std::shared_ptr<const TokenModel> model_;
  std::optional<Decoder> decoder_;
  TensorMap encoded_;
  Tokens all_;  // without caches; and before the first step of a split model
  int64_t length_ = 0;
};

}  // namespace transmuter::generation
