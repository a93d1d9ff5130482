#include <algorithm>
#include <map>
#include <numeric>

#include "base/strings.h"
#include "base/unicode.h"
#include "text/encoder_model.h"
#include "text/probabilities.h"
#include "transmuter/error.h"
#include "transmuter/text_tasks.h"

namespace transmuter {

namespace {

constexpr size_t kMaxLength = 384, kMaxStride = 128;

struct Candidate {
  double score;
  size_t start, end;  // tokens
};

// Of one window: which tokens may begin and end an answer, and how likely they do.
struct Window {
  std::vector<bool> allowed;
  std::vector<double> starts, ends;
  double impossible = 0;
};

std::vector<double> probabilities(const Tensor& logits, const std::vector<bool>& allowed) {
  std::vector<float> masked(logits.data<float>(), logits.data<float>() + logits.size());
  for (size_t t = 0; t < masked.size(); ++t)
    if (!allowed[t]) masked[t] = -10000;
  return softmax(masked);
}

Window read_window(const Encoding& row, const std::vector<Tensor>& outputs, int32_t passage,
                   std::optional<int64_t> cls) {
  Window window;
  for (size_t t = 0; t < row.ids.size(); ++t)
    window.allowed.push_back(row.sequences[t] == passage || (cls && row.ids[t] == *cls));
  window.starts = probabilities(outputs[0], window.allowed);
  window.ends = probabilities(outputs[1], window.allowed);
  if (window.starts.empty()) return window;
  window.impossible = window.starts[0] * window.ends[0];
  window.starts[0] = window.ends[0] = 0;
  return window;
}

std::vector<Candidate> best_spans(const Window& window, size_t count, size_t max_tokens) {
  std::vector<Candidate> all;
  for (size_t s = 0; s < window.starts.size(); ++s)
    for (size_t e = s; e < std::min(window.ends.size(), s + max_tokens); ++e)
      all.push_back({window.starts[s] * window.ends[e], s, e});
  count = std::min(count, all.size());
  std::partial_sort(
      all.begin(), all.begin() + static_cast<int64_t>(count), all.end(), [](const Candidate& a, const Candidate& b) {
        return a.score != b.score ? a.score > b.score : std::pair(a.start, a.end) < std::pair(b.start, b.end);
      });
  all.resize(count);
  std::erase_if(all, [&](const Candidate& c) { return !window.allowed[c.start] || !window.allowed[c.end]; });
  return all;
}

// Bytes of the passage; of the whole words that the tokens are in, where these are known.
ByteSpan span_of(const Encoding& row, const Candidate& candidate, int32_t passage, bool whole_words) {
  ByteSpan span = {row.offsets[candidate.start].begin, row.offsets[candidate.end].end};
  const int32_t first = row.words[candidate.start], last = row.words[candidate.end];
  if (!whole_words || first < 0 || last < 0) return span;
  bool begun = false;
  for (size_t t = 0; t < row.ids.size(); ++t) {
    if (row.sequences[t] != passage) continue;
    if (row.words[t] == first && !begun) {
      span.begin = row.offsets[t].begin;
      begun = true;
    }
    if (row.words[t] == last) span.end = row.offsets[t].end;
  }
  return span;
}

}  // namespace

struct QuestionAnswerer::Impl {
  Impl(const std::string& folder, const TextTaskOptions& options)
      : model(folder, options, "question answering",
              {{.names = {"start_logits"}, .per_token = true, .rank = 2, .or_first = false},
               {.names = {"end_logits"}, .per_token = true, .rank = 2, .or_first = false}}),
        cls(model.special_id("cls_token")) {}

  std::vector<Encoding> windows(const std::string& question, const std::string& passage,
                                const AnswerOptions& options) const {
    const bool question_first = !model.tokenizer_config().pad_left;
    EncodeOptions encode = model.encode_options();
    const size_t most = model.max_length() ? std::min(model.max_length(), kMaxLength) : kMaxLength;
    encode.max_length = options.max_length ? options.max_length : most;
    encode.stride = options.stride ? options.stride : std::min(encode.max_length / 2, kMaxStride);
    encode.keep_overflow = true;
    encode.truncate_left = false;
    encode.truncate_side = question_first ? TruncateSide::second : TruncateSide::first;
    const std::string& first = question_first ? question : passage;
    const std::string& second = question_first ? passage : question;
    return model.tokenizer().encode_pairs({&first, 1}, {&second, 1}, encode);
  }

  EncoderModel model;
  std::optional<int64_t> cls;
};

QuestionAnswerer QuestionAnswerer::load(const std::string& folder, const TextTaskOptions& options) {
  return QuestionAnswerer(std::make_shared<Impl>(folder, options));
}

std::vector<Answer> QuestionAnswerer::operator()(const std::string& question, const std::string& passage,
                                                 const AnswerOptions& options) const {
  if (question.empty()) throw Error(ErrorCode::invalid_input, "the question is empty");
  if (passage.empty()) throw Error(ErrorCode::invalid_input, "the passage is empty: there is nothing to answer from");
  if (options.max_answer_length == 0 || options.top_k == 0)
    throw Error(ErrorCode::invalid_input, "max_answer_length and top_k must be at least 1");
  const int32_t sequence = impl_->model.tokenizer_config().pad_left ? 0 : 1;
  const std::vector<Encoding> rows = impl_->windows(question, passage, options);
  const auto outputs = impl_->model.run(rows);
  const CodePoints points(passage);
  double impossible = 1e6;
  std::vector<Answer> out;
  std::map<std::string, size_t> known;  // equal answers share one entry
  for (size_t i = 0; i < rows.size(); ++i) {
    const Window window = read_window(rows[i], outputs[i], sequence, impl_->cls);
    impossible = std::min(impossible, window.impossible);
    const size_t count = options.align_to_words ? 2 * options.top_k + 10 : options.top_k;
    for (const Candidate& candidate : best_spans(window, count, options.max_answer_length)) {
      const ByteSpan span = span_of(rows[i], candidate, sequence, options.align_to_words);
      Answer answer = {.score = candidate.score,
                       .answer = passage.substr(span.begin, span.end - span.begin),
                       .start = points.at(span.begin),
                       .end = points.at(span.end),
                       .byte_start = span.begin,
                       .byte_end = span.end};
      const auto [at, fresh] = known.emplace(with_case(answer.answer, to_lower), out.size());
      if (fresh) {
        out.push_back(std::move(answer));
      } else {
        out[at->second].score += answer.score;
      }
    }
  }
  if (options.handle_impossible) out.push_back({.score = impossible, .answer = ""});
  std::stable_sort(out.begin(), out.end(), [](const Answer& a, const Answer& b) { return a.score > b.score; });
  if (out.size() > options.top_k) out.resize(options.top_k);
  return out;
}

}  // namespace transmuter
