// The best of several texts that are kept side by side.
#include <algorithm>
#include <cmath>

#include "runtime/decoder_rows.h"
#include "text/generation/draws.h"
#include "text/generation/search.h"

namespace transmuter::generation {
namespace {

constexpr double kWorst = -1e9;

struct Beam {
  std::vector<int64_t> ids;  // the answer so far
  double score = kWorst;
  StopReason reason = StopReason::length;
  int64_t row = 0;  // of the run that its state is in
  bool stops = false;
};

// The beams of one prompt.
class Group {
 public:
  Group(const Search& search, const Start& start, size_t index)
      : search_(search),
        start_(start),
        width_(static_cast<size_t>(search.config.num_beams)),
        running_(width_),
        finished_(width_) {
    settle(index);
    running_[0].score = 0;
  }

  // The run's rows are in the order of the beams again.
  void settle(size_t index) {
    for (size_t b = 0; b < width_; ++b) running_[b].row = static_cast<int64_t>(index * width_ + b);
  }
  const std::vector<Beam>& running() const { return running_; }
  bool improves() const { return improves_; }
  bool full() const { return filled_ == width_; }
  // Every candidate of the last step hit a stop.
  bool ended() const { return ended_; }

  // One token more. `scores`: of all rows; `length`: of a row so far, padding included.
  void advance(const Tensor& scores, const Processors& processors, int64_t length, bool late) {
    const std::vector<Beam> found = candidates(scores, processors, length, late);
    ended_ = std::all_of(found.begin(), found.end(), [](const Beam& beam) { return beam.stops; });
    finish(found, length);
    // Those that stopped come last, but fill the places when there is nothing else.
    std::vector<Beam> next = found;
    const auto still = [](const Beam& beam) { return beam.score + (beam.stops ? kWorst : 0); };
    std::stable_sort(next.begin(), next.end(), [&](const Beam& a, const Beam& b) { return still(a) > still(b); });
    next.resize(std::min(next.size(), width_));
    for (Beam& beam : next) beam.score = still(beam);
    while (next.size() < width_) next.push_back(next.back());
    running_ = std::move(next);
    judge(length + 1);
  }

  void answers(std::vector<GeneratedTokens>& out) const {
    for (size_t i = 0; i < static_cast<size_t>(search_.config.num_return_sequences); ++i) {
      GeneratedTokens answer = search_.answer_to(start_);
      answer.ids = finished_[i].ids;
      answer.score = finished_[i].score;
      answer.reason = finished_[i].reason;
      out.push_back(std::move(answer));
    }
  }

 private:
  size_t first_answer() const { return start_.place * static_cast<size_t>(search_.config.num_return_sequences); }

  std::vector<Beam> candidates(const Tensor& scores, const Processors& processors, int64_t length, bool late) const {
    const size_t vocabulary = static_cast<size_t>(scores.dim(1));
    std::vector<float> all;
    all.reserve(width_ * vocabulary);
    for (const Beam& beam : running_) {
      const float* given = scores.data<float>() + static_cast<size_t>(beam.row) * vocabulary;
      std::vector<float> x(given, given + vocabulary);
      log_softmax(x);
      std::vector<int64_t> ids = start_.ids;
      ids.insert(ids.end(), beam.ids.begin(), beam.ids.end());
      processors.apply(x, {first_answer(), ids, start_.read, length});
      for (const float value : x) all.push_back(value + static_cast<float>(beam.score));
    }
    const size_t wanted = std::max<size_t>(2, 1 + search_.config.eos_token_id.size()) * width_;
    std::vector<Beam> found;
    for (const size_t place : best(all, wanted, length)) {
      const Beam& from = running_[place / vocabulary];
      Beam beam{from.ids, all[place], StopReason::length, from.row, false};
      const int64_t id = static_cast<int64_t>(place % vocabulary);
      beam.ids.push_back(id);
      stop(beam, id, length, late);
      found.push_back(std::move(beam));
    }
    return found;
  }

  std::vector<size_t> best(const std::vector<float>& all, size_t count, int64_t length) const {
    if (search_.config.do_sample) {
      std::vector<size_t> drawn =
          draw_several(all, count, search_.config.seed, start_.place, static_cast<uint64_t>(length - search_.prompt));
      if (!drawn.empty()) return drawn;
    }
    std::vector<size_t> places(all.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = i;
    count = std::min(count, places.size());
    std::partial_sort(places.begin(), places.begin() + static_cast<int64_t>(count), places.end(),
                      [&](size_t a, size_t b) { return all[a] > all[b] || (all[a] == all[b] && a < b); });
    places.resize(count);
    return places;
  }

  void stop(Beam& beam, int64_t id, int64_t length, bool late) const {
    beam.stops = true;
    if (search_.is_eos(id)) {
      beam.reason = StopReason::eos;
    } else if (search_.call.stop && search_.call.stop(first_answer(), beam.ids)) {
      beam.reason = StopReason::stop;
    } else if (late) {
      beam.reason = StopReason::time;
    } else {
      beam.stops = length + 1 >= search_.max_length;
    }
  }

  void finish(const std::vector<Beam>& found, int64_t length) {
    using Early = GenerationConfig::EarlyStopping;
    if (!improves_ || (search_.config.early_stopping == Early::yes && full())) return;
    const double size = static_cast<double>(length + 1 - search_.prompt);
    for (size_t i = 0; i < std::min(width_, found.size()); ++i) {
      if (!found[i].stops) continue;
      finished_.push_back(found[i]);
      finished_.back().score /= std::pow(size, search_.config.length_penalty);
      filled_ = std::min(filled_ + 1, width_);
    }
    std::stable_sort(finished_.begin(), finished_.end(),
                     [](const Beam& a, const Beam& b) { return a.score > b.score; });
    finished_.resize(width_);
  }

  // Whether what runs may still beat what is finished. `length`: with the new token.
  void judge(int64_t length) {
    const GenerationConfig& c = search_.config;
    const bool longest = c.early_stopping == GenerationConfig::EarlyStopping::never && c.length_penalty > 0;
    const double size = static_cast<double>((longest ? search_.max_length : length) - search_.prompt);
    const double possible = running_[0].score / std::pow(size, c.length_penalty);
    const double worst = full() ? finished_.back().score : kWorst;
    improves_ = improves_ && possible > worst;
  }

  const Search& search_;
  const Start& start_;
  size_t width_;
  std::vector<Beam> running_, finished_;  // best first; finished ones divided by their length
  size_t filled_ = 0;                     // places of `finished_` that hold a text
  bool improves_ = true, ended_ = false;
};

}  // namespace

std::vector<GeneratedTokens> search_beams(const Search& search) {
  const Processors processors(search.config, search.call, search.prompt, search.max_length);
  Tensor scores;
  TokenRun run = search.prefill(scores);
  std::vector<Group> groups;
  std::vector<int64_t> rows, next;
  for (size_t i = 0; i < search.starts.size(); ++i) {
    groups.emplace_back(search, search.starts[i], i);
    rows.insert(rows.end(), static_cast<size_t>(search.config.num_beams), static_cast<int64_t>(i));
  }
  run.select(rows);
  scores = runtime::rows_of(scores, 0, rows);
  for (int64_t length = search.prompt;; ++length) {
    const bool late = search.out_of_time();
    for (Group& group : groups) group.advance(scores, processors, length, late);
    const auto all = [&](auto holds) { return std::all_of(groups.begin(), groups.end(), holds); };
    if (all([](const Group& g) { return !g.improves(); }) || all([](const Group& g) { return g.ended(); })) break;
    if (search.config.early_stopping == GenerationConfig::EarlyStopping::yes &&
        all([](const Group& g) { return g.full(); }))
      break;
    rows.clear();
    next.clear();
    for (const Group& group : groups) {
      for (const Beam& beam : group.running()) {
        rows.push_back(beam.row);
        next.push_back(beam.ids.back());
      }
    }
    run.select(rows);
    scores = run.step({next, {}, static_cast<int64_t>(next.size()), 1}, search.run_options);
    for (size_t i = 0; i < groups.size(); ++i) groups[i].settle(i);
  }
  std::vector<GeneratedTokens> answers;
  for (const Group& group : groups) group.answers(answers);
  return answers;
}

}  // namespace transmuter::generation
