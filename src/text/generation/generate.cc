#include <algorithm>
#include <map>

#include "base/strings.h"
#include "text/generation/check.h"
#include "text/generation/search.h"
#include "text/generation/shared_batch.h"
#include "text/generation/token_model.h"
#include "transmuter/error.h"
#include "transmuter/generation.h"

namespace transmuter {

using generation::check_prompt;
using generation::check_settings;
using generation::Guesser;
using generation::LookupGuesser;
using generation::ModelGuesser;
using generation::Search;
using generation::Start;
using generation::TokenModel;
using generation::TokenRun;

struct TokenGenerator::Impl {
  std::shared_ptr<const TokenModel> model;
  GenerationConfig config;
  int64_t max_positions = 0;
  std::shared_ptr<generation::SharedBatch> batch;  // null: each call by itself
};

struct PromptCache::Impl {
  std::shared_ptr<const TokenModel> model;
  std::optional<TokenRun> run;
  std::vector<int64_t> ids;  // what `run` has been through
};

PromptCache::PromptCache() : impl_(std::make_shared<Impl>()) {}
void PromptCache::clear() { *impl_ = {}; }
int64_t PromptCache::tokens() const { return static_cast<int64_t>(impl_->ids.size()); }

const char* name(StopReason reason) {
  switch (reason) {
    case StopReason::length:
      return "length";
    case StopReason::eos:
      return "eos";
    case StopReason::stop:
      return "stop";
    case StopReason::time:
      return "time";
    case StopReason::caller:
      return "caller";
  }
  return "";
}

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_input, sentence); }

Start start_of(const GenerationPrompt& prompt, size_t place, const GenerationConfig& config, bool has_encoder) {
  check_prompt(prompt, place, has_encoder);
  Start start{place, prompt.ids, {}, prompt.negative_ids, prompt.seed, prompt.encoder_inputs};
  if (has_encoder) {
    start.read = prompt.ids;
    start.ids = prompt.decoder_ids;
    if (start.ids.empty()) {
      const std::optional<int64_t> first =
          config.decoder_start_token_id ? config.decoder_start_token_id : config.bos_token_id;
      if (!first)
        refuse("nothing says what an answer begins with: set decoder_start_token_id (generation_config.json)");
      start.ids = {*first};
    }
  }
  if (start.avoid.empty()) start.avoid = {start.ids.back()};
  return start;
}

// Those that may run together. `each`: rows that a prompt takes; a batch is no larger than does any good, since its
// caches lie in memory all at once.
std::vector<std::vector<Start>> groups_of(std::vector<Start> starts, const TokenModel& model, bool alone, size_t each) {
  constexpr size_t kMostRows = 64;
  const size_t most = std::max<size_t>(1, kMostRows / each);
  std::map<std::vector<size_t>, std::vector<Start>> groups;
  for (Start& start : starts) {
    std::vector<size_t> key;
    if (alone || !start.encoder_inputs.empty()) key.push_back(start.place);
    if (!model.pads_left() || model.has_encoder()) key.push_back(start.ids.size());
    if (model.has_encoder() && !model.masks_encoder()) key.push_back(start.read.size());
    groups[key].push_back(std::move(start));
  }
  std::vector<std::vector<Start>> list;
  for (auto& [key, group] : groups) {
    for (size_t i = 0; i < group.size(); ++i) {
      if (i % most == 0) list.emplace_back();
      list.back().push_back(std::move(group[i]));
    }
  }
  return list;
}

void limit(Search& search, int64_t max_positions) {
  for (const Start& start : search.starts)
    search.prompt = std::max(search.prompt, static_cast<int64_t>(start.ids.size()));
  constexpr int64_t kOtherwise = 20;
  const GenerationConfig& c = search.config;
  if (c.max_new_tokens) {
    search.max_length = search.prompt + *c.max_new_tokens;
  } else if (c.max_length) {
    search.max_length = *c.max_length;
  } else {
    search.max_length = search.prompt + kOtherwise;
    if (max_positions > 0) search.max_length = std::min(search.max_length, max_positions);
  }
  if (search.prompt >= search.max_length)
    refuse(str("the prompt has ", search.prompt, " tokens, and max_length is ", search.max_length,
               ": set max_new_tokens, or a larger max_length"));
}

std::vector<GeneratedTokens> write_cached(const Search& search, PromptCache::Impl& cache, Guesser* guesser) {
  const std::vector<int64_t>& ids = search.starts[0].ids;
  // The last token is gone through in any case, since its scores are wanted.
  int64_t reused = 0;
  while (reused + 1 < static_cast<int64_t>(ids.size()) && reused < static_cast<int64_t>(cache.ids.size()) &&
         ids[static_cast<size_t>(reused)] == cache.ids[static_cast<size_t>(reused)])
    ++reused;
  if (cache.model != search.model || !cache.run || reused == 0 || !cache.run->rewind(reused)) {
    cache = {search.model, std::nullopt, {}};
    reused = 0;
  }
  cache.ids.resize(static_cast<size_t>(reused));
  std::vector<GeneratedTokens> answers = generation::write_tokens(search, &cache.run, reused, &cache.ids, guesser);
  answers[0].reused = reused;
  return answers;
}

}  // namespace

TokenGenerator::TokenGenerator(GenerationModels models, GenerationConfig config) {
  const int64_t max_positions = models.max_positions;
  impl_ = std::make_shared<Impl>(
      Impl{std::make_shared<const TokenModel>(std::move(models)), std::move(config), max_positions, nullptr});
}

TokenGenerator TokenGenerator::load(const std::string& folder, const CompileOptions& compile,
                                    const std::string& dtype) {
  return TokenGenerator(GenerationModels::load(folder, compile, dtype), GenerationConfig::load(folder));
}

const GenerationConfig& TokenGenerator::config() const { return impl_->config; }
bool TokenGenerator::has_encoder() const { return impl_->model->has_encoder(); }

TokenGenerator TokenGenerator::batched(GenerationBatching batching) const {
  if (batching.tokens < 1 || !(batching.delay_ms >= 0))
    refuse("GenerationBatching: tokens is at least 1, and delay_ms not negative");
  auto impl = std::make_shared<Impl>(*impl_);
  impl->batch = impl_->model->joins() ? std::make_shared<generation::SharedBatch>(impl_->model, batching) : nullptr;
  TokenGenerator copy = *this;
  copy.impl_ = std::move(impl);
  return copy;
}

std::vector<GeneratedTokens> TokenGenerator::operator()(std::span<const GenerationPrompt> prompts,
                                                        const GenerationConfig& config,
                                                        const GenerationCall& call) const {
  const generation::Clock::time_point began = generation::Clock::now();
  const TokenModel& model = *impl_->model;
  check_settings(config, call, prompts.size(), model.has_encoder());
  std::vector<Start> starts;
  for (size_t i = 0; i < prompts.size(); ++i) starts.push_back(start_of(prompts[i], i, config, model.has_encoder()));
  const size_t copies = static_cast<size_t>(config.num_return_sequences);
  std::vector<GeneratedTokens> answers(prompts.size() * copies);
  for (std::vector<Start>& group :
       groups_of(std::move(starts), model, config.guidance_scale != 1 || call.assistant,
                 static_cast<size_t>(std::max(config.num_beams, config.num_return_sequences)))) {
    Search search{impl_->model, config, call, RunOptions{call.cancel}, began, std::move(group)};
    search.pad = config.pad_token_id           ? *config.pad_token_id
                 : config.eos_token_id.empty() ? 0
                                               : config.eos_token_id.front();
    limit(search, impl_->max_positions);
    std::unique_ptr<Guesser> guesser;
    if (call.assistant) {
      guesser = std::make_unique<ModelGuesser>(call.assistant->impl_->model, config.num_assistant_tokens,
                                               config.assistant_confidence_threshold, config.eos_token_id,
                                               search.run_options);
    } else if (config.prompt_lookup_num_tokens > 0) {
      guesser = std::make_unique<LookupGuesser>(config.prompt_lookup_num_tokens, config.max_matching_ngram_size);
    }
    const bool shared = impl_->batch && config.num_beams == 1 && config.guidance_scale == 1 && !guesser && !call.cache;
    std::vector<GeneratedTokens> written = shared                 ? impl_->batch->write(search)
                                           : config.num_beams > 1 ? generation::search_beams(search)
                                           : call.cache ? write_cached(search, *call.cache->impl_, guesser.get())
                                                        : write_tokens(search, nullptr, 0, nullptr, guesser.get());
    for (size_t i = 0; i < search.starts.size(); ++i) {
      for (size_t c = 0; c < copies; ++c)
        answers[search.starts[i].place * copies + c] = std::move(written[i * copies + c]);
    }
  }
  return answers;
}

}  // namespace transmuter
