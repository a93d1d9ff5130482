// Texts written by language models: prompts and conversations in, answers out; summaries and translations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transmuter/chat_template.h"
#include "transmuter/generation.h"
#include "transmuter/tokenizer.h"

namespace transmuter {

// What to answer: a text as it is, or a conversation. `transformers` and Bumblebee users know the fields.
struct GenerationRequest {
  std::string text = {};      // the model goes on from here; with an encoder what it reads
  std::string messages = {};  // else a JSON list of {"role", "content"}, by the folder's chat template
  // Of conversations: tools, documents, further variables, an open last message.
  ChatOptions chat = {.add_generation_prompt = true};
  std::string negative_text = {};     // guidance: what to lead away from
  std::optional<uint64_t> seed = {};  // of this request's draws
};

struct TokenSummary {
  int64_t input = 0;    // tokens of the prompt (with an encoder of what it read)
  int64_t output = 0;   // tokens written, the end included
  int64_t padding = 0;  // between the prompt and the longest one that ran beside it
};

struct GeneratedText {
  std::string text;  // new text alone, special tokens left out; up to and with the stop string that ended it
  TokenSummary token_summary;
  StopReason reason = StopReason::length;
  double score = 0;  // beams
  std::vector<int64_t> ids;
  int64_t reused = 0;   // tokens of the prompt that a PromptCache held
  int64_t guessed = 0;  // tokens of the answer that were guessed right
};

// What one call may say beside its settings.
struct TextCall : GenerationCall {
  // Told of each answer's text as it is written, whole characters at a time; false ends that answer. Not with beams.
  std::function<bool(size_t answer, std::string_view text)> on_text;
};

// A folder with a model, tokenizer.json, and if it has them generation_config.json, tokenizer_config.json and a chat
// template. Cheap to copy; may be called from several threads.
class TextGenerator {
 public:
  // Throws Error: not_found, io, invalid_model, saying which file.
  static TextGenerator load(const std::string& folder, const CompileOptions& compile = {},
                            const std::string& dtype = "");
  TextGenerator(TokenGenerator tokens, Tokenizer tokenizer, std::optional<ChatTemplate> chat = std::nullopt);

  // The same generator, whose calls from several threads run together (TokenGenerator::batched).
  TextGenerator batched(GenerationBatching batching = {}) const;

  // What the folder's files say; a call starts from a copy. Without a length 256 tokens are written.
  const GenerationConfig& config() const;
  bool has_encoder() const;
  bool has_chat() const;
  const Tokenizer& tokenizer() const;
  // A request as the model will see it. Throws Error(invalid_input) for a conversation without a chat template, and
  // what the template refuses.
  std::string prompt_of(const GenerationRequest& request) const;

  // num_return_sequences answers a request, in order.
  std::vector<GeneratedText> operator()(std::span<const GenerationRequest> requests, const GenerationConfig& config,
                                        const TextCall& call = {}) const;
  GeneratedText operator()(const GenerationRequest& request, const GenerationConfig& config,
                           const TextCall& call = {}) const;
  GeneratedText operator()(const GenerationRequest& request) const { return (*this)(request, config()); }

  struct Impl;

 private:
  friend class TextRewriter;
  explicit TextGenerator(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// What an encoder-decoder was trained to write. Its folder may say by "task_specific_params" of config.json what to put
// in front of texts ("summarize: ") and with which settings.
class TextRewriter {
 public:
  // `task`: "summarization", "translation" or "translation_XX_to_YY". Languages by the tokens or codes that the
  // tokenizer has for them ("de", "__de__", "deu_Latn", ">>de<<"); needed by models of several languages alone. Throws
  // Error(invalid_input) for a model without an encoder, or a language that the tokenizer doesn't know.
  static TextRewriter load(const std::string& folder, const std::string& task, const CompileOptions& compile = {},
                           const std::string& dtype = "", const std::string& from = "", const std::string& to = "");

  // What the folder's files say, four beams where they don't.
  const GenerationConfig& config() const;
  // One for each text, in order; texts longer than the model's are cut at their end.
  std::vector<GeneratedText> operator()(std::span<const std::string> texts, const GenerationConfig& config,
                                        const TextCall& call = {}) const;

  struct Impl;

 private:
  explicit TextRewriter(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace transmuter
