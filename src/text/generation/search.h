// Prompts that run together, from their first step to their answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "text/generation/guesses.h"
#include "text/generation/process.h"
#include "text/generation/token_model.h"
#include "transmuter/generation.h"

namespace transmuter::generation {

using Clock = std::chrono::steady_clock;

struct Start {
  size_t place = 0;            // of the prompt in the call
  std::vector<int64_t> ids;    // of the decoder
  std::vector<int64_t> read;   // of the encoder
  std::vector<int64_t> avoid;  // guidance
  std::optional<uint64_t> seed;
  TensorMap encoder_inputs;  // in place of `read`; such a prompt runs alone
};

struct Search {
  std::shared_ptr<const TokenModel> model;
  const GenerationConfig& config;
  const GenerationCall& call;
  RunOptions run_options;
  Clock::time_point began;
  std::vector<Start> starts;
  int64_t prompt = 0;      // tokens of each row, padding included
  int64_t max_length = 0;  // so too
  int64_t pad = 0;

  // What the encoder, if there is one, makes of what the prompts give it.
  TensorMap encoded() const;
  // The state after all prompts, a row each, and the scores of what comes next.
  TokenRun prefill(Tensor& scores) const;
  bool is_eos(int64_t id) const;
  bool out_of_time() const;
  // An answer without its tokens.
  GeneratedTokens answer_to(const Start& start) const;
};

// `texts` as rows of the length of the longest; `on_left`: where the padding goes.
Tokens padded(const std::vector<std::span<const int64_t>>& texts, int64_t pad, bool on_left);

// The best token each time, or a draw. `cached`: a state that the first `reused` tokens of the only prompt have been
// through, or null; it is left with what the answer went through. `guesser` (or null): asked where there is one row,
// and the model's state can be taken back.
std::vector<GeneratedTokens> write_tokens(const Search& search, std::optional<TokenRun>* cached, int64_t reused,
                                          std::vector<int64_t>* cached_ids, Guesser* guesser);
std::vector<GeneratedTokens> search_beams(const Search& search);

}  // namespace transmuter::generation
