#include "text/generation/search.h"

#include <algorithm>
#include <cmath>

#include "runtime/decoder_rows.h"
#include "text/generation/writer.h"
#include "transmuter/error.h"

namespace transmuter::generation {

Tokens padded(const std::vector<std::span<const int64_t>>& texts, int64_t pad, bool on_left) {
  Tokens tokens;
  tokens.rows = static_cast<int64_t>(texts.size());
  for (const auto& text : texts) tokens.length = std::max(tokens.length, static_cast<int64_t>(text.size()));
  bool any = false;
  for (const auto& text : texts) {
    const size_t missing = static_cast<size_t>(tokens.length) - text.size();
    any = any || missing > 0;
    if (on_left) tokens.ids.insert(tokens.ids.end(), missing, pad);
    if (on_left) tokens.mask.insert(tokens.mask.end(), missing, 0);
    tokens.ids.insert(tokens.ids.end(), text.begin(), text.end());
    tokens.mask.insert(tokens.mask.end(), text.size(), 1);
    if (!on_left) tokens.ids.insert(tokens.ids.end(), missing, pad);
    if (!on_left) tokens.mask.insert(tokens.mask.end(), missing, 0);
  }
  if (!any) tokens.mask.clear();
  return tokens;
}

TensorMap Search::encoded() const {
  if (!model->has_encoder()) return {};
  if (!starts[0].encoder_inputs.empty()) return model->encode(starts[0].encoder_inputs, run_options);
  std::vector<std::span<const int64_t>> read;
  for (const Start& start : starts) read.emplace_back(start.read);
  return model->encode(padded(read, pad, false), run_options);
}

TokenRun Search::prefill(Tensor& scores) const {
  std::vector<std::span<const int64_t>> texts;
  for (const Start& start : starts) texts.emplace_back(start.ids);
  TokenRun run(model, encoded());
  scores = run.step(padded(texts, pad, true), run_options);
  return run;
}

bool Search::is_eos(int64_t id) const {
  return std::find(config.eos_token_id.begin(), config.eos_token_id.end(), id) != config.eos_token_id.end();
}

bool Search::out_of_time() const {
  return config.max_time && std::chrono::duration<double>(Clock::now() - began).count() > *config.max_time;
}

GeneratedTokens Search::answer_to(const Start& start) const {
  GeneratedTokens answer;
  answer.prompt_tokens = static_cast<int64_t>(start.ids.size());
  answer.padding = prompt - answer.prompt_tokens;
  if (!model->has_encoder()) return answer;
  size_t longest = 0;
  for (const Start& other : starts) longest = std::max(longest, other.read.size());
  answer.padding = static_cast<int64_t>(longest - start.read.size());
  return answer;
}

namespace {

Tokens next_tokens(const std::vector<int64_t>& ids) { return {ids, {}, static_cast<int64_t>(ids.size()), 1}; }

// One row, from the scores behind its prompt on. Each step goes through the token chosen last and guesses behind it;
// where one differs from what is chosen there, the state goes back to before it. So each token is chosen from the
// scores that it would be chosen from without guesses.
template <class Remember>
void write_guessing(const Search& search, Writer& writer, TokenRun& run, Tensor scores, Guesser& guesser,
                    const Remember& remember) {
  std::vector<int64_t> chosen = writer.choose(scores, {});
  bool can_check = true;
  while (writer.take(chosen)) {
    std::vector<int64_t> guesses;
    // The last token that there is room for needs no guess.
    if (can_check) guesses = guesser.guess(writer.ids(), std::min(guesser.count(), writer.left() - 1));
    std::vector<int64_t> all = {chosen[0]};
    all.insert(all.end(), guesses.begin(), guesses.end());
    const int64_t before = run.length(), width = static_cast<int64_t>(all.size());
    scores = run.step_all({all, {}, 1, width}, search.run_options);
    if (!scores) {  // of one token alone
      can_check = false;
      guesses.clear();
      all.resize(1);
      run.rewind(before);
      scores = run.step({all, {}, 1, 1}, search.run_options);
    }
    size_t right = 0;
    for (;; ++right) {
      chosen = writer.choose(runtime::rows_of(scores, 0, {static_cast<int64_t>(right)}), {});
      if (right == guesses.size() || chosen[0] != guesses[right]) break;
      writer.count_guessed();
      if (!writer.take(chosen)) break;
    }
    const size_t kept = std::min(right, guesses.size()) + 1;
    run.rewind(before + static_cast<int64_t>(kept));
    remember(std::span(all).first(kept));
    guesser.learn(static_cast<int64_t>(right), static_cast<int64_t>(guesses.size()));
    if (right < guesses.size() && chosen[0] == guesses[right]) return;  // it ended with a guess
  }
}

}  // namespace

std::vector<GeneratedTokens> write_tokens(const Search& search, std::optional<TokenRun>* cached, int64_t reused,
                                          std::vector<int64_t>* cached_ids, Guesser* guesser) {
  Writer writer(search);
  Tensor scores, without;
  std::optional<TokenRun> own, avoiding;
  std::optional<TokenRun>& run = cached ? *cached : own;
  const auto remember = [&](std::span<const int64_t> ids) {
    if (cached_ids) cached_ids->insert(cached_ids->end(), ids.begin(), ids.end());
  };
  if (run) {
    const std::span<const int64_t> rest = std::span(search.starts[0].ids).subspan(static_cast<size_t>(reused));
    scores = run->step(padded({rest}, search.pad, true), search.run_options);
    remember(rest);
  } else {
    run.emplace(search.prefill(scores));
    if (cached_ids) *cached_ids = search.starts[0].ids;
  }
  if (search.config.guidance_scale != 1) {
    avoiding.emplace(search.model, search.encoded());
    without = avoiding->step(padded({search.starts[0].avoid}, search.pad, true), search.run_options);
  }
  if (const int64_t copies = search.config.num_return_sequences; copies > 1) {
    std::vector<int64_t> rows;
    for (int64_t r = 0; r < static_cast<int64_t>(search.starts.size()) * copies; ++r) rows.push_back(r / copies);
    run->select(rows);
    scores = runtime::rows_of(scores, 0, rows);
    if (avoiding) avoiding->select(rows);
    if (avoiding) without = runtime::rows_of(without, 0, rows);
  }
  if (guesser && scores.dim(0) == 1 && !avoiding && run->can_rewind()) {
    write_guessing(search, writer, *run, scores, *guesser, remember);
    return writer.answers();
  }
  for (;;) {
    const std::vector<int64_t> next = writer.choose(scores, without);
    if (!writer.take(next)) break;
    scores = run->step(next_tokens(next), search.run_options);
    remember(next);
    if (avoiding) without = avoiding->step(next_tokens(next), search.run_options);
  }
  return writer.answers();
}

}  // namespace transmuter::generation
