#include "transmuter/text_generator.h"

#include <algorithm>

#include "base/strings.h"
#include "text/folder.h"
#include "text/generation/stop_strings.h"
#include "text/generation/write_texts.h"
#include "transmuter/error.h"

namespace transmuter {

using generation::StopStrings;

namespace {

// An answer's text as it comes.
class Streams {
 public:
  Streams(const Tokenizer& tokenizer, const TextCall& call, const StopStrings& stops, size_t answers)
      : call_(call), stops_(stops), told_(answers), ended_(answers) {
    for (size_t i = 0; i < answers; ++i) streams_.emplace_back(tokenizer);
  }

  bool push(size_t answer, int64_t id) { return tell(answer, streams_[answer].push(id)); }
  void finish() {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (!ended_[i]) tell(i, streams_[i].finish());
    }
  }

 private:
  bool tell(size_t answer, const std::string& piece) {
    if (piece.empty()) return true;
    std::string& told = told_[answer];
    const size_t before = told.size();
    told += piece;
    const size_t end = stops_.end_of(told, before);
    ended_[answer] = end < told.size() || ended_[answer];
    return call_.on_text(answer, std::string_view(told).substr(before, end - before)) && !ended_[answer];
  }

  const TextCall& call_;
  const StopStrings& stops_;
  std::vector<DecodeStream> streams_;
  std::vector<std::string> told_;
  std::vector<bool> ended_;
};

std::string text_of(const Tokenizer& tokenizer, const GeneratedTokens& answer, const StopStrings& stops) {
  std::string text = tokenizer.decode(answer.ids);
  if (stops.empty() || answer.reason != StopReason::stop) return text;
  const std::string before = tokenizer.decode(std::span(answer.ids).first(answer.ids.size() - 1));
  text.resize(stops.end_of(text, std::min(before.size(), text.size())));
  return text;
}

// How many tokens a text gets when nothing says so: as many as `transformers`' pipelines write, while there are places.
int64_t new_tokens(const std::vector<GenerationPrompt>& prompts, int64_t max_positions) {
  constexpr int64_t kOtherwise = 256;
  if (max_positions == 0) return kOtherwise;
  size_t longest = 0;
  for (const GenerationPrompt& prompt : prompts) longest = std::max(longest, prompt.ids.size());
  return std::clamp(max_positions - static_cast<int64_t>(longest), int64_t{1}, kOtherwise);
}

}  // namespace

std::vector<GeneratedText> TextGenerator::Impl::write(const std::vector<GenerationPrompt>& prompts,
                                                      const GenerationConfig& given, const TextCall& call) const {
  GenerationConfig settings = given;
  if (!settings.max_new_tokens && !settings.max_length) settings.max_new_tokens = new_tokens(prompts, max_positions);
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].ids.empty() && prompts[i].encoder_inputs.empty())
      throw Error(
          ErrorCode::invalid_input,
          str("text ", i, " gives no tokens: tokenizer.json adds none, and no file names a bos_token to begin with"));
  }
  const StopStrings stops(tokenizer, settings.stop_strings);
  const size_t count = prompts.size() * static_cast<size_t>(std::max<int64_t>(1, settings.num_return_sequences));
  std::optional<Streams> streams;
  GenerationCall hooks = call;
  if (!stops.empty()) {
    hooks.stop = [&](size_t row, std::span<const int64_t> ids) {
      return stops.end_in(ids) || (call.stop && call.stop(row, ids));
    };
  }
  if (call.on_text) {
    streams.emplace(tokenizer, call, stops, count);
    hooks.on_token = [&](size_t row, int64_t id) {
      const bool goes_on = !call.on_token || call.on_token(row, id);
      return streams->push(row, id) && goes_on;
    };
  }
  const std::vector<GeneratedTokens> answers = tokens(prompts, settings, hooks);
  if (streams) streams->finish();
  std::vector<GeneratedText> texts;
  const size_t copies = prompts.empty() ? 1 : answers.size() / prompts.size();
  for (size_t i = 0; i < answers.size(); ++i) {
    const GeneratedTokens& answer = answers[i];
    const int64_t read = static_cast<int64_t>(prompts[i / copies].ids.size());
    texts.push_back({text_of(tokenizer, answer, stops),
                     {read, static_cast<int64_t>(answer.ids.size()), answer.padding},
                     answer.reason,
                     answer.score,
                     answer.ids,
                     answer.reused,
                     answer.guessed});
  }
  return texts;
}

TextGenerator::TextGenerator(TokenGenerator tokens, Tokenizer tokenizer, std::optional<ChatTemplate> chat) {
  const GenerationConfig config = tokens.config();
  impl_ = std::make_shared<Impl>(Impl{std::move(tokens), std::move(tokenizer), std::move(chat), config, 0});
}

TextGenerator TextGenerator::load(const std::string& folder, const CompileOptions& compile, const std::string& dtype) {
  const Tokenizer tokenizer = load_tokenizer(folder);
  const TokenizerConfig said = read_tokenizer_config(folder);
  GenerationConfig config = GenerationConfig::load(folder);
  // What the settings don't say, the tokenizer's files may.
  const auto id_of = [&](const char* name) { return said.special_id(name, tokenizer); };
  if (config.eos_token_id.empty()) {
    if (const auto end = id_of("eos_token")) config.eos_token_id = {*end};
  }
  if (!config.pad_token_id) config.pad_token_id = id_of("pad_token");
  if (!config.bos_token_id) config.bos_token_id = id_of("bos_token");
  std::optional<ChatTemplate> chat;
  try {
    chat = ChatTemplate::load(folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;  // most folders have none
  }
  GenerationModels models = GenerationModels::load(folder, compile, dtype);
  const int64_t max_positions = models.max_positions;
  return TextGenerator(std::make_shared<Impl>(
      Impl{TokenGenerator(std::move(models), config), tokenizer, std::move(chat), config, max_positions}));
}

TextGenerator TextGenerator::batched(GenerationBatching batching) const {
  auto impl = std::make_shared<Impl>(*impl_);
  impl->tokens = impl_->tokens.batched(batching);
  return TextGenerator(std::shared_ptr<const Impl>(std::move(impl)));
}

const GenerationConfig& TextGenerator::config() const { return impl_->config; }
bool TextGenerator::has_encoder() const { return impl_->tokens.has_encoder(); }
bool TextGenerator::has_chat() const { return impl_->chat.has_value(); }
const Tokenizer& TextGenerator::tokenizer() const { return impl_->tokenizer; }

std::string TextGenerator::prompt_of(const GenerationRequest& request) const {
  if (request.messages.empty()) return request.text;
  if (!impl_->chat) {
    throw Error(ErrorCode::invalid_input,
                "the folder has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): "
                "give a text instead of messages");
  }
  return impl_->chat->render(request.messages, request.chat);
}

std::vector<GeneratedText> TextGenerator::operator()(std::span<const GenerationRequest> requests,
                                                     const GenerationConfig& config, const TextCall& call) const {
  const Impl& impl = *impl_;
  std::vector<GenerationPrompt> prompts;
  const auto ids_of = [&](const std::string& text, bool special) {
    EncodeOptions options;
    options.add_special_tokens = special;
    return impl.tokenizer.encode_batch(std::span(&text, 1), options)[0].ids;
  };
  for (const GenerationRequest& request : requests) {
    GenerationPrompt prompt;
    // A conversation's text has its special tokens already.
    prompt.ids = ids_of(prompt_of(request), request.messages.empty());
    if (prompt.ids.empty() && config.bos_token_id) prompt.ids = {*config.bos_token_id};
    if (!request.negative_text.empty()) prompt.negative_ids = ids_of(request.negative_text, request.messages.empty());
    prompt.seed = request.seed;
    prompts.push_back(std::move(prompt));
  }
  return impl.write(prompts, config, call);
}

GeneratedText TextGenerator::operator()(const GenerationRequest& request, const GenerationConfig& config,
                                        const TextCall& call) const {
  return (*this)(std::span(&request, 1), config, call).front();
}

}  // namespace transmuter
