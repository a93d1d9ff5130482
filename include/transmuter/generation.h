// Generation: tokens and texts written by language models, decoders alone or behind an encoder. What is meant by each
// setting, and the order in which they act, is that of Hugging Face `transformers`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transmuter/decoder.h"
#include "transmuter/model.h"

namespace transmuter {

// How scores are changed by a watermark that can be found again with the key.
struct Watermark {
  double greenlist_ratio = 0.25;
  double bias = 2;
  uint64_t hashing_key = 15485863;
  bool selfhash = false;  // else "lefthash"
  int64_t context_width = 1;
};

// Settings, by the names of generation_config.json. Lengths count tokens; ids outside the vocabulary are ignored.
struct GenerationConfig {
  // Lengths. `max_new_tokens` wins over `max_length`, which counts the prompt too; without either 20 are written.
  std::optional<int64_t> max_new_tokens, max_length;
  int64_t min_length = 0, min_new_tokens = 0;
  std::optional<double> max_time;  // seconds; asked after each token

  // Strategy: the best token each time; a draw each time; the best of `num_beams` texts; draws within beams.
  bool do_sample = false;
  int64_t num_beams = 1;
  int64_t num_return_sequences = 1;  // with sampling or beams
  uint64_t seed = 0;                 // of the draws
  double length_penalty = 1;         // beams: the score is divided by length to this power
  enum class EarlyStopping : uint8_t { no, yes, never };
  EarlyStopping early_stopping = EarlyStopping::no;

  // Any strategy, in the order in which they act.
  double guidance_scale = 1;
  std::vector<std::pair<std::vector<int64_t>, double>> sequence_bias;
  double encoder_repetition_penalty = 1, repetition_penalty = 1;
  int64_t no_repeat_ngram_size = 0, encoder_no_repeat_ngram_size = 0;
  std::vector<std::vector<int64_t>> bad_words_ids;
  std::optional<int64_t> forced_bos_token_id;
  std::vector<int64_t> forced_eos_token_id;
  bool remove_invalid_values = false;
  std::optional<std::pair<int64_t, double>> exponential_decay_length_penalty;
  std::vector<int64_t> suppress_tokens, begin_suppress_tokens;

  // Sampling alone, in the order in which they act. 0 (top_p, typical_p: 1) is off.
  double temperature = 1;
  double top_h = 0;
  int64_t top_k = 50;
  double top_p = 1;
  double min_p = 0;
  double typical_p = 1;
  double epsilon_cutoff = 0, eta_cutoff = 0;

  std::optional<Watermark> watermark;
  bool renormalize_logits = false;

  // Guesses, which several tokens of an answer may be checked with in one step: the answer stays the same. From what
  // the text itself goes on with behind the same few tokens (at most max_matching_ngram_size), or from a smaller model
  // (GenerationCall::assistant), which stops guessing where it is less sure than the threshold.
  int64_t prompt_lookup_num_tokens = 0;  // at a time; 0: no guesses from the text
  int64_t max_matching_ngram_size = 2;
  int64_t num_assistant_tokens = 20;
  double assistant_confidence_threshold = 0.4;

  std::vector<int64_t> eos_token_id;
  std::optional<int64_t> pad_token_id;  // none: the first EOS
  std::optional<int64_t> bos_token_id, decoder_start_token_id;
  std::vector<std::string> stop_strings;  // texts alone: TextGenerator

  // Of the folder's generation_config.json, else genai_config.json, else of the same names in its config.json (and that
  // file's decoder, generator and text_config parts). Throws Error(invalid_model) naming file and field.
  static GenerationConfig load(const std::string& folder);
  // `otherwise`: fields that no file sets.
  static GenerationConfig load(const std::string& folder, GenerationConfig otherwise);
  // Fields of `json` on top of what is set already. `file` is named in errors.
  void update(const std::string& json, const std::string& file);
  // Whether `update` reads this field of a generation_config.json; it passes over any other.
  static bool has_field(std::string_view name);
};

// What a language model consists of. Which form it has follows from names and shapes of inputs and outputs.
struct GenerationModels {
  std::optional<Model> decoder;    // with caches, or merged; of a split export the one that begins; or without caches
  std::optional<Model> with_past;  // of a split export the one that goes on
  std::optional<Model> encoder;
  std::optional<Model> embed_tokens;  // input_ids -> inputs_embeds, where the decoder takes these
  CompileOptions compile;
  DecoderOptions caches;
  int64_t max_positions = 0;  // tokens that the model was made for; 0: unknown

  // Files of a folder or of its onnx/ by the names that Optimum, transformers.js and the genai builder give them.
  // `dtype`: "q4" chooses decoder_model_merged_q4.onnx and so on. Throws Error(not_found) saying what is missing.
  static GenerationModels load(const std::string& folder, const CompileOptions& compile = {},
                               const std::string& dtype = "");
};

// What an answer starts from. With an encoder `ids` is what it reads, and `decoder_ids` what the answer begins with
// (empty: decoder_start_token_id, else bos_token_id).
struct GenerationPrompt {
  std::vector<int64_t> ids;
  std::vector<int64_t> decoder_ids;
  std::vector<int64_t> negative_ids;  // guidance: the text to lead away from; empty: the prompt's last token
  std::optional<uint64_t> seed;       // of this prompt's draws, wherever it stands in a call; else the settings' seed
  // What the encoder takes instead, by its inputs' names, one row (a sound's features); `ids` may be empty then.
  TensorMap encoder_inputs = {};
};

enum class StopReason : uint8_t { length, eos, stop, time, caller };
const char* name(StopReason reason);

struct GeneratedTokens {
  std::vector<int64_t> ids;  // new ones only, EOS included; no padding
  StopReason reason = StopReason::length;
  double score = 0;           // beams: log probability over length to the penalty
  int64_t prompt_tokens = 0;  // of the decoder
  int64_t padding = 0;        // tokens of padding before the prompt (the encoder's: behind it)
  int64_t reused = 0;         // tokens of the prompt that a PromptCache held
  int64_t guessed = 0;        // tokens of the answer that were guessed right
};

// The state behind a text, for the next call that begins like it (a conversation grows at its end). Copies share it;
// one call at a time may use it.
class PromptCache {
 public:
  PromptCache();
  void clear();
  int64_t tokens() const;
  struct Impl;

 private:
  friend class TokenGenerator;
  std::shared_ptr<Impl> impl_;
};

class TokenGenerator;

// What one call may say beside its settings. `row` is the place of the answer in the result.
struct GenerationCall {
  // Told of each token as it is chosen; false ends that answer. Not with beams, where texts change until the end.
  std::function<bool(size_t row, int64_t id)> on_token;
  // Ids that may come next, given all tokens so far (prompt included); empty: any.
  std::function<std::vector<int64_t>(size_t row, std::span<const int64_t> ids)> allowed_tokens;
  // Change scores after the settings' own changes and before those of sampling.
  std::vector<std::function<void(std::span<const int64_t> ids, std::span<float> scores)>> processors;
  // Asked after each token; true ends that answer. With beams asked of candidates too, by the prompt's first row.
  std::function<bool(size_t row, std::span<const int64_t> new_ids)> stop;
  const CancelToken* cancel = nullptr;  // ends the call with Error(cancelled)
  PromptCache* cache = nullptr;         // one prompt, one answer, no beams, no encoder
  // A smaller model of the same vocabulary that guesses; no beams, no guidance, and its prompts run one by one.
  const TokenGenerator* assistant = nullptr;
};

// How calls of several threads run as one batch (TokenGenerator::batched).
struct GenerationBatching {
  // Of all texts that run together, each as long as the longest of them may become; a longer one runs alone.
  int64_t tokens = 16384;
  double delay_ms = 0;  // how long the first call of a quiet moment waits for company
};

// Prompts of tokens in, tokens out. Prompts of a call run together: padded on the left where the model has a mask for
// it, else those of one length. Cheap to copy; may be called from several threads.
class TokenGenerator {
 public:
  // Throws Error(invalid_model) when the models' inputs and outputs are none of the known forms.
  explicit TokenGenerator(GenerationModels models, GenerationConfig config = {});
  static TokenGenerator load(const std::string& folder, const CompileOptions& compile = {},
                             const std::string& dtype = "");

  // The settings that the folder says; a call starts from a copy.
  const GenerationConfig& config() const;
  bool has_encoder() const;

  // The same generator, whose copies share one batch: a call of one thread joins those of others at their next token
  // and leaves where it ends, and what it is told of it may be told by another call's thread. Tokens are those that the
  // call gets alone. Calls with beams, guidance, guesses or a PromptCache run by themselves, as do all where rows can't
  // join a batch: encoders, recurrent states, caches written in place, no attention_mask or no position_ids.
  TokenGenerator batched(GenerationBatching batching = {}) const;

  // num_return_sequences answers a prompt, in order of the prompts. Throws Error(invalid_input) for settings that
  // contradict each other, empty prompts and prompts as long as max_length.
  std::vector<GeneratedTokens> operator()(std::span<const GenerationPrompt> prompts, const GenerationConfig& config,
                                          const GenerationCall& call = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace transmuter
