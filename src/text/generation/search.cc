#include "text/generation/search.h"

#include <algorithm>
#include <cmath>

#include "runtime/decoder_rows.h"
#include "text/generation/draws.h"
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

// One answer as it is written.
struct Row {
  GeneratedTokens answer;
  const Start* start = nullptr;
  size_t place = 0;          // of the answer in the call
  size_t stream = 0;         // of draws
  std::vector<int64_t> ids;  // prompt and answer
  bool done = false;
};

Tokens next_tokens(const std::vector<int64_t>& ids) { return {ids, {}, static_cast<int64_t>(ids.size()), 1}; }

std::span<const float> row_of(const Tensor& scores, size_t row) {
  const size_t width = static_cast<size_t>(scores.dim(1));
  return {scores.data<float>() + row * width, width};
}

class Writer {
 public:
  explicit Writer(const Search& search)
      : search_(search), processors_(search.config, search.call, search.prompt, search.max_length) {
    const size_t copies = static_cast<size_t>(search.config.num_return_sequences);
    for (const Start& start : search.starts) {
      for (size_t i = 0; i < copies; ++i)
        rows_.push_back({search.answer_to(start), &start, start.place * copies + i,
                         start.seed ? i : start.place * copies + i, start.ids, false});
    }
  }

  // The next token of each row; of those that are done the padding.
  std::vector<int64_t> choose(const Tensor& scores, const Tensor& without) {
    std::vector<int64_t> next(rows_.size(), search_.pad);
    for (size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      if (row.done) continue;
      const std::span<const float> given = row_of(scores, r);
      std::vector<float> x(given.begin(), given.end());
      processors_.apply(
          x, {row.place, row.ids, row.start->read, length_, without ? row_of(without, r) : std::span<const float>()});
      next[r] =
          search_.config.do_sample
              ? draw(x, uniform(row.start->seed.value_or(search_.config.seed), row.stream, row.answer.ids.size(), 0))
              : best_of(x);
    }
    ++length_;
    return next;
  }

  // False when all are done.
  bool take(const std::vector<int64_t>& next) {
    bool going = false;
    const bool late = search_.out_of_time();
    for (size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      if (row.done) continue;
      row.ids.push_back(next[r]);
      row.answer.ids.push_back(next[r]);
      const auto end = [&row](StopReason reason) {
        if (!row.done) row.answer.reason = reason;
        row.done = true;
      };
      if (search_.is_eos(next[r])) end(StopReason::eos);
      if (search_.call.stop && search_.call.stop(row.place, row.answer.ids)) end(StopReason::stop);
      if (search_.call.on_token && !search_.call.on_token(row.place, next[r])) end(StopReason::caller);
      if (length_ >= search_.max_length) end(StopReason::length);
      if (late) end(StopReason::time);
      going = going || !row.done;
    }
    return going;
  }

  std::vector<GeneratedTokens> answers() {
    std::vector<GeneratedTokens> all;
    for (Row& row : rows_) all.push_back(std::move(row.answer));
    return all;
  }

 private:
  const Search& search_;
  Processors processors_;
  std::vector<Row> rows_;
  int64_t length_ = search_.prompt;
};

}  // namespace

std::vector<GeneratedTokens> write_tokens(const Search& search, std::optional<TokenRun>* cached, int64_t reused,
                                          std::vector<int64_t>* cached_ids) {
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
