#include "text/generation/writer.h"

#include "text/generation/draws.h"

namespace transmuter::generation {

namespace {

std::span<const float> row_of(const Tensor& scores, size_t row) {
  const size_t width = static_cast<size_t>(scores.dim(1));
  return {scores.data<float>() + row * width, width};
}

}  // namespace

Writer::Writer(const Search& search)
    : search_(search),
      processors_(search.config, search.call, search.prompt, search.max_length),
      length_(search.prompt) {
  const size_t copies = static_cast<size_t>(search.config.num_return_sequences);
  for (const Start& start : search.starts) {
    for (size_t i = 0; i < copies; ++i)
      rows_.push_back({search.answer_to(start), &start, start.place * copies + i,
                       start.seed ? i : start.place * copies + i, start.ids, false});
  }
}

std::vector<int64_t> Writer::choose(const Tensor& scores, const Tensor& without, size_t first) {
  std::vector<int64_t> next(rows_.size(), search_.pad);
  for (size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    if (row.done) continue;
    const std::span<const float> given = row_of(scores, first + r);
    std::vector<float> x(given.begin(), given.end());
    processors_.apply(x, {row.place, row.ids, row.start->read, length_,
                          without ? row_of(without, first + r) : std::span<const float>()});
    next[r] =
        search_.config.do_sample
            ? draw(x, uniform(row.start->seed.value_or(search_.config.seed), row.stream, row.answer.ids.size(), 0))
            : best_of(x);
  }
  ++length_;
  return next;
}

bool Writer::take(const std::vector<int64_t>& next) {
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

std::vector<GeneratedTokens> Writer::answers() {
  std::vector<GeneratedTokens> all;
  for (Row& row : rows_) all.push_back(std::move(row.answer));
  return all;
}

}  // namespace transmuter::generation
