#include "runtime/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/run_control.h"
#include "base/strings.h"
#include "runtime/search_decoder.h"
#include "transmuter/error.h"

namespace transmuter::runtime {
namespace {

std::vector<int64_t> iota(size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), int64_t{0});
  return values;
}

// Texts as rows of `length`, the rest padding.
Tensor padded(const Texts& texts, const Search& search, Shape shape) {
  std::vector<int32_t> words;
  for (const std::vector<int32_t>& text : texts) {
    words.insert(words.end(), text.begin(), text.end());
    words.insert(words.end(), static_cast<size_t>(search.length) - text.size(), search.pad);
  }
  return Tensor(words, std::move(shape));
}

// Tokens by their probabilities, as std::discrete sampling over the sums of exp(score - most) does, in f64. The engine
// and how it makes a number in [0, 1) are those of ONNX Runtime on Linux, so one seed gives one text.
class Sampler {
 public:
  explicit Sampler(uint32_t seed) : engine_(seed) {}

  int32_t draw(std::span<const float> row) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const float x : row)
      if (std::isfinite(x)) most = std::max(most, static_cast<double>(x));
    std::vector<double> sums;
    for (const float x : row) {
      if (std::isfinite(x)) sum += std::exp(static_cast<double>(x) - most);
      sums.push_back(sum);
    }
    const auto found = std::upper_bound(sums.begin(), sums.end(), uniform() * sum);
    return static_cast<int32_t>(std::min<ptrdiff_t>(found - sums.begin(), static_cast<ptrdiff_t>(row.size()) - 1));
  }

 private:
  // Two draws, the second one the upper digits.
  double uniform() {
    constexpr double kRange = 2147483646.0;
    const double low = static_cast<double>(engine_() - std::minstd_rand0::min());
    const double high = static_cast<double>(engine_() - std::minstd_rand0::min());
    return std::min((low + high * kRange) / (kRange * kRange), std::nextafter(1.0, 0.0));
  }

  std::minstd_rand0 engine_;
};

int32_t greatest(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

std::vector<Value> run_greedy(const Search& search, SearchDecoder& decoder, const RunContext& context) {
  const uint64_t drawn = mixed(mixed(context.random.seed) + context.random.call);
  Sampler sampler(search.seed ? *search.seed : static_cast<uint32_t>(drawn));
  Scores scores;
  Tensor logits = decoder.first();
  Texts texts = decoder.prompts();
  std::vector<bool> ended(texts.size());
  for (int64_t step = 0;; ++step) {
    RunControl::check();
    scores = last_scores(search, logits);
    process(search, texts, step == 0, scores);
    if (search.kind == Search::Kind::sampling) filter_top_p(search, scores);
    for (size_t i = 0; i < texts.size(); ++i) {
      const int32_t word =
          search.kind == Search::Kind::sampling ? sampler.draw(scores.row(i)) : greatest(scores.row(i));
      ended[i] = ended[i] || word == search.end;
      texts[i].push_back(ended[i] ? search.pad : word);
    }
    if (static_cast<int64_t>(texts[0].size()) >= search.length) break;
    if (std::all_of(ended.begin(), ended.end(), [](bool e) { return e; })) break;
    logits = decoder.next(texts, iota(texts.size()));
  }
  std::vector<Value> results{padded(texts, search, {search.texts, search.length})};
  results.emplace_back(Tensor(scores.values, {search.texts, scores.vocabulary}));
  return results;
}

// Finished texts of one prompt, the best first; at most as many as there are beams.
class Finished {
 public:
  explicit Finished(const Search& search) : search_(search) {}

  struct Item {
    std::vector<int32_t> text;
    float score;
  };
  void add(std::vector<int32_t> text, float sum) {
    const float score = normalised(sum, text.size());
    if (is_full() && score <= items_.back().score) return;
    if (is_full()) items_.pop_back();
    const auto at = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.score < score; });
    items_.insert(at, {std::move(text), score});
  }
  bool is_full() const { return static_cast<int64_t>(items_.size()) >= search_.beams; }
  // No text of `length` tokens, scored `best` at most, would come in.
  bool is_done(float best, size_t length) const {
    return is_full() && (search_.early_stopping || items_.back().score >= normalised(best, length));
  }
  const std::vector<Item>& items() const { return items_; }

 private:
  float normalised(float sum, size_t length) const {
    return sum / std::pow(static_cast<float>(length), search_.length_penalty);
  }

  const Search& search_;
  std::vector<Item> items_;
};

class BeamSearch {
 public:
  BeamSearch(const Search& search, SearchDecoder& decoder)
      : search_(search),
        decoder_(decoder),
        beams_(static_cast<size_t>(search.beams)),
        finished_(static_cast<size_t>(search.texts), Finished(search)),
        done_(finished_.size()),
        sums_(finished_.size() * beams_, -1e9F) {
    for (size_t i = 0; i < sums_.size(); i += beams_) sums_[i] = 0;  // else all beams would say the same
  }

  std::vector<Value> run(bool keeps_scores) {
    Tensor logits = decoder_.first();
    texts_ = decoder_.prompts();
    const size_t prompt = texts_[0].size();
    std::vector<float> all_scores;
    int64_t vocabulary = 0;
    for (int64_t step = 0;; ++step) {
      RunControl::check();
      Scores scores = last_scores(search_, logits);
      log_softmax(scores);
      process(search_, texts_, step == 0, scores);
      for (size_t i = 0; i < sums_.size(); ++i)
        for (float& x : scores.row(i)) x += sums_[i];
      vocabulary = scores.vocabulary;
      if (keeps_scores) all_scores.insert(all_scores.end(), scores.values.begin(), scores.values.end());
      const std::vector<int64_t> origins = choose(scores);
      if (std::all_of(done_.begin(), done_.end(), [](bool d) { return d; })) break;
      if (static_cast<int64_t>(texts_[0].size()) >= search_.length) break;
      logits = decoder_.next(texts_, origins);
    }
    std::vector<Value> results = finish();
    if (keeps_scores) {
      const int64_t steps = search_.length - static_cast<int64_t>(prompt);
      all_scores.resize(static_cast<size_t>(steps) * sums_.size() * static_cast<size_t>(vocabulary));
      results.emplace_back(Tensor(all_scores, {steps, search_.texts, search_.beams, vocabulary}));
    }
    return results;
  }

 private:
  // The next token of every beam; gives the beam that each goes on from.
  std::vector<int64_t> choose(const Scores& scores) {
    std::vector<int64_t> origins(sums_.size());
    std::vector<int32_t> words(sums_.size(), search_.pad);
    for (size_t t = 0; t < finished_.size(); ++t) {
      const size_t first = t * beams_;
      if (done_[t]) {
        for (size_t j = first; j < first + beams_; ++j) origins[j] = static_cast<int64_t>(j), sums_[j] = 0;
        continue;
      }
      choose_of(
          t,
          std::span(scores.values)
              .subspan(first * static_cast<size_t>(scores.vocabulary), beams_ * static_cast<size_t>(scores.vocabulary)),
          scores.vocabulary, origins, words);
    }
    Texts next;
    for (size_t j = 0; j < origins.size(); ++j) {
      next.push_back(texts_[static_cast<size_t>(origins[j])]);
      next.back().push_back(words[j]);
    }
    texts_ = std::move(next);
    return origins;
  }

  // Of the 2 * beams best continuations those that end are finished, if they are among the best; the others go on.
  void choose_of(size_t t, std::span<const float> scores, int64_t vocabulary, std::vector<int64_t>& origins,
                 std::vector<int32_t>& words) {
    std::vector<int64_t> order = iota(scores.size());
    const size_t count = std::min(2 * beams_, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                      [&](int64_t a, int64_t b) {
                        const float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
                        return x > y || (x == y && a < b);
                      });
    const size_t length = texts_[t * beams_].size();
    size_t taken = 0;
    for (size_t k = 0; k < count && taken < beams_; ++k) {
      const auto word = static_cast<int32_t>(order[k] % vocabulary);
      const int64_t from = static_cast<int64_t>(t * beams_) + order[k] / vocabulary;
      const float score = scores[static_cast<size_t>(order[k])];
      if (word == search_.end) {
        if (k < beams_) finished_[t].add(texts_[static_cast<size_t>(from)], score);
        continue;
      }
      const size_t to = t * beams_ + taken++;
      sums_[to] = score;
      words[to] = word;
      origins[to] = from;
    }
    if (taken < beams_)
      throw Error(ErrorCode::invalid_model,
                  str("BeamSearch: ", vocabulary, " words are too few for ", beams_, " beams"));
    done_[t] = finished_[t].is_done(scores[static_cast<size_t>(order[0])], length);
  }

  std::vector<Value> finish() {
    Texts texts;
    std::vector<float> scores;
    for (size_t t = 0; t < finished_.size(); ++t) {
      if (!done_[t])
        for (size_t j = t * beams_; j < (t + 1) * beams_; ++j) finished_[t].add(texts_[j], sums_[j]);
      for (int64_t i = 0; i < search_.returned; ++i) {
        texts.push_back(finished_[t].items()[static_cast<size_t>(i)].text);
        scores.push_back(finished_[t].items()[static_cast<size_t>(i)].score);
      }
    }
    return {padded(texts, search_, {search_.texts, search_.returned, search_.length}),
            Tensor(scores, {search_.texts, search_.returned})};
  }

  const Search& search_;
  SearchDecoder& decoder_;
  size_t beams_;
  std::vector<Finished> finished_;  // by prompt
  std::vector<bool> done_;
  std::vector<float> sums_;  // of the scores of each beam's tokens
  Texts texts_;              // by beam
};

}  // namespace

bool is_search(const onnx::Node& node) {
  return node.domain == "com.microsoft" &&
         (node.op_type == "GreedySearch" || node.op_type == "Sampling" || node.op_type == "BeamSearch");
}

std::vector<Value> run_search(const onnx::Node& node, const std::vector<Value>& inputs, const Bodies& bodies,
                              const RunContext& context) {
  const Search search = Search::read(node, inputs);
  SearchDecoder decoder(node, search, bodies, inputs[0].tensor);
  if (search.kind != Search::Kind::beam) return run_greedy(search, decoder, context);
  return BeamSearch(search, decoder).run(node.outputs.size() > 2 && !node.outputs[2].empty());
}

}  // namespace transmuter::runtime
