// Decoder: step-by-step use of a model that takes caches in and gives them out grown. It finds the pairs by name alone,
// feeds each step's caches back (they grow in place), and makes the inputs that follow from the length.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transmuter/model.h"

namespace transmuter {

struct DecoderOptions {
  // Tokens that the caches may hold. 0: as the model's inputs say (a fixed extent), else no limit.
  int64_t max_length = 0;
  // The caches are `max_length` long from the start and written at the current length (com.microsoft's
  // past_present_share_buffer; the model must be told its lengths by inputs).
  bool shared_buffers = false;
  // Extents of empty caches that the model declares by symbols which no other input tells ("kv_cache_dim").
  std::map<std::string, int64_t> sizes;
};

class Decoder {
 public:
  // A cache of the model: the input it is read from and the output it comes back in.
  struct Cache {
    enum class Kind : uint8_t {
      grows,   // by a row a token along `axis`
      shared,  // as long as the longest text, written in place along `axis`
      cross,   // made from the encoder's states in the first step, kept from then on
      state,   // as large at every step (convolution, recurrence)
    };
    std::string past;
    std::string present;  // empty: cross caches that the model only reads
    Kind kind = Kind::grows;
    int64_t axis = -1;
  };

  // Throws Error(invalid_model) when no output feeds an input.
  explicit Decoder(CompiledModel model, DecoderOptions options = {});

  // One step; returns the outputs that are no caches. `inputs`: input_ids or inputs_embeds, what comes from an encoder
  // (needed once), caches to start from. Made where left out: empty caches; attention_mask (of all tokens so far; one
  // for this step's tokens alone is put behind those of earlier steps), position_ids, cache_position, lengths,
  // use_cache_branch. On an error the decoder is as before the step. Throws Error(invalid_input) when the caches would
  // become longer than the limit.
  TensorMap step(TensorMap inputs) { return step(std::move(inputs), RunOptions()); }
  TensorMap step(TensorMap inputs, const RunOptions& options);
  // Another decoder that goes on from here: they share what is there until one of them grows.
  Decoder fork() const { return *this; }
  void reset();
  // Row i of the batch goes on from what row rows[i] was: a beam search's order; there may be more or fewer rows than
  // before. Costs a copy of the caches unless it's the order they are in. Throws Error(invalid_input) for a row that
  // isn't there.
  void select(const std::vector<int64_t>& rows);
  // The rows of `other`, a decoder of the same model, behind this one's, as one batch that goes on: the shorter rows
  // get padding in front, which the mask leaves out; padding that no row needs any more goes. False, and nothing has
  // happened, unless the model counts positions by position_ids and takes an attention_mask of all tokens, all caches
  // grow, and both decoders hold tokens.
  bool append(const Decoder& other);
  // Whether the model is one that append() is for.
  bool can_append() const;
  // Forgets all but the first `length` tokens. False, and nothing has happened, where that can't be told apart any more
  // (recurrent states) or fewer tokens are held.
  bool rewind(int64_t length);
  int64_t length() const { return length_; }  // tokens in the caches
  const std::vector<Cache>& caches() const;
  // The cache that the next step will read as `past`; no tensor if there is none yet.
  Tensor cache(const std::string& past) const;
  RunStats stats() const;

 private:
  struct Plan;
  struct Extent {
    int64_t batch = 1, tokens = 1;
  };
  Extent extent_of(const TensorMap& inputs) const;
  int64_t rows() const;
  int64_t padding() const;
  void add_lengths(TensorMap& inputs, int64_t batch, int64_t tokens) const;
  void add_mask(TensorMap& inputs, int64_t batch, int64_t tokens) const;
  void add_positions(TensorMap& inputs, int64_t batch, int64_t tokens) const;
  void add_caches(TensorMap& inputs, int64_t batch, bool take);
  void complete(TensorMap& inputs, bool take);
  void trace_ahead(TensorMap inputs);

  std::shared_ptr<const Plan> plan_;
  TensorMap held_;     // caches, by name of the past
  TensorMap encoder_;  // what came from an encoder
  Tensor mask_;        // of the tokens so far, [batch, length] i64; none: all ones
  int64_t length_ = 0;
  int64_t steps_ = 0;
};

}  // namespace transmuter
