#include "runtime/search_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::runtime {
namespace {

constexpr float kNever = std::numeric_limits<float>::lowest();
constexpr int64_t kLongest = 1 << 20;  // tokens of a text
constexpr int64_t kMostBeams = 1 << 10;

template <class... Pieces>
[[noreturn]] void refuse(ErrorCode code, const onnx::Node& node, const Pieces&... pieces) {
  throw Error(code, str(node.op_type, ": ", pieces...));
}

// Attributes and inputs of one node.
struct Reader {
  const onnx::Node& node;
  const std::vector<Value>& inputs;

  int64_t integer(const char* name, std::optional<int64_t> otherwise = {}) const {
    const onnx::Attribute* a = node.find(name);
    if (!a && !otherwise) refuse(ErrorCode::invalid_model, node, "attribute ", name, " is required");
    return a ? a->i : *otherwise;
  }
  int32_t token(const char* name, std::optional<int64_t> otherwise = {}) const {
    const int64_t value = integer(name, otherwise);
    if (value < -1 || value > INT32_MAX || (!otherwise && value < 0))
      refuse(ErrorCode::invalid_model, node, name, " is ", value);
    return static_cast<int32_t>(value);
  }
  float number(const char* name, float otherwise) const {
    const onnx::Attribute* a = node.find(name);
    return a ? a->f : otherwise;
  }
  bool has(size_t i) const { return i < inputs.size() && inputs[i].kind != Value::Kind::none; }
  const Tensor& tensor(size_t i, const char* name) const {
    if (!has(i) || !inputs[i].is_tensor()) refuse(ErrorCode::invalid_input, node, "input ", name, " must be a tensor");
    return inputs[i].tensor;
  }
  double only(size_t i, const char* name, std::optional<double> otherwise = {}) const {
    if (!has(i) && otherwise) return *otherwise;
    const Tensor& t = tensor(i, name);
    if (t.size() != 1) refuse(ErrorCode::invalid_input, node, name, " must be one number, is ", describe(t));
    return t.aligned().cast(DType::f64).data<double>()[0];
  }
  int64_t count(size_t i, const char* name, int64_t least, int64_t most, std::optional<double> otherwise = {}) const {
    const double value = only(i, name, otherwise);
    if (!(value >= static_cast<double>(least) && value <= static_cast<double>(most)))
      refuse(ErrorCode::invalid_input, node, name, " is ", value, ", must be from ", least, " to ", most);
    return static_cast<int64_t>(value);
  }
  Tensor mask(size_t i, const char* name) const {
    return has(i) ? tensor(i, name).aligned().cast(DType::i32) : Tensor();
  }
};

void read_sampling(const Reader& in, Search& search) {
  search.temperature = in.number("temperature", 1);
  search.top_p = in.number("top_p", 0);
  search.filter_value = in.number("filter_value", -1e20F);
  search.presence_penalty = in.number("presence_penalty", 0);
  search.kept = in.integer("min_tokens_to_keep", 0);
  search.from_greatest = in.integer("custom", 0) != 0;
  search.presence_mask = in.mask(7, "presence_mask");
  if (in.has(8)) search.seed = static_cast<uint32_t>(static_cast<int64_t>(in.only(8, "seed")));
  if (!(search.temperature > 0)) refuse(ErrorCode::invalid_model, in.node, "temperature is ", search.temperature);
  if (search.kept < 0) refuse(ErrorCode::invalid_model, in.node, "min_tokens_to_keep is ", search.kept);
}

void penalise_repetitions(const Search& search, const std::vector<int32_t>& text, std::span<float> row) {
  for (const int32_t word : std::unordered_set<int32_t>(text.begin(), text.end())) {
    if (word < 0 || static_cast<size_t>(word) >= row.size()) continue;
    float& score = row[static_cast<size_t>(word)];
    score = score < 0 ? score * search.repetition_penalty : score / search.repetition_penalty;
  }
}

void forbid_repeats(int64_t length, const std::vector<int32_t>& text, std::span<float> row) {
  if (length > static_cast<int64_t>(text.size())) return;
  const auto last = text.end() - (length - 1);
  for (auto at = text.begin(); at + length <= text.end(); ++at) {
    const int32_t word = at[length - 1];
    if (word >= 0 && static_cast<size_t>(word) < row.size() && std::equal(last, text.end(), at))
      row[static_cast<size_t>(word)] = kNever;
  }
}

void forbid_masked(const int32_t* mask, std::span<float> row) {
  for (size_t k = 0; k < row.size(); ++k)
    if (mask[k] == 0) row[k] = kNever;
}

}  // namespace

Search Search::read(const onnx::Node& node, const std::vector<Value>& inputs) {
  const Reader in{node, inputs};
  Search search;
  search.kind = node.op_type == "BeamSearch" ? Kind::beam : node.op_type == "Sampling" ? Kind::sampling : Kind::greedy;
  const bool beam = search.kind == Kind::beam;
  const int64_t type = in.integer("model_type", 0);
  if (type != 0 && !(type == 1 && beam)) refuse(ErrorCode::unsupported, node, "model_type ", type);
  search.has_encoder = type == 1;
  search.end = in.token("eos_token_id");
  search.pad = in.token("pad_token_id");
  search.start = in.token("decoder_start_token_id", -1);
  search.no_repeat = in.integer("no_repeat_ngram_size", 0);
  search.vocabulary = std::max<int64_t>(in.integer("vocab_size", -1), 0);
  search.early_stopping = beam && in.integer("early_stopping", 0) == 1;
  if (search.no_repeat < 0) refuse(ErrorCode::invalid_model, node, "no_repeat_ngram_size is ", search.no_repeat);

  const Tensor& prompts = in.tensor(0, "input_ids");
  if (prompts.rank() != 2 || !is_integer(prompts.dtype()) || prompts.size() == 0)
    refuse(ErrorCode::invalid_input, node, "input_ids must be integers [texts, tokens], is ", describe(prompts));
  search.texts = prompts.dim(0);
  const int64_t given = search.has_encoder ? 1 : prompts.dim(1);
  search.length = in.count(1, "max_length", 1, kLongest);
  if (search.length <= given)
    refuse(ErrorCode::invalid_input, node, "max_length is ", search.length, ", the prompt alone has ", given,
           " tokens");
  search.least_length = in.count(2, "min_length", 0, kLongest, 0);
  if (search.least_length >= search.length)
    refuse(ErrorCode::invalid_input, node, "min_length is ", search.least_length, ", max_length ", search.length);
  if (beam) {
    search.beams = in.count(3, "num_beams", 1, kMostBeams);
    search.returned = in.count(4, "num_return_sequences", 1, search.beams);
    search.length_penalty = static_cast<float>(in.only(5, "length_penalty", 1));
    if (in.has(10)) refuse(ErrorCode::unsupported, node, "decoder_input_ids");
    if (in.only(11, "logits_processor", 0) != 0) refuse(ErrorCode::unsupported, node, "logits_processor");
  }
  const size_t first = beam ? 6 : 3;
  search.repetition_penalty = static_cast<float>(in.only(first, "repetition_penalty", 1));
  if (!(search.repetition_penalty > 0))
    refuse(ErrorCode::invalid_input, node, "repetition_penalty is ", search.repetition_penalty);
  search.vocabulary_mask = in.mask(first + 1, "vocab_mask");
  search.prefix_mask = in.mask(first + 2, "prefix_vocab_mask");
  search.attention_mask = in.mask(first + 3, "attention_mask");
  if (search.kind == Kind::sampling) read_sampling(in, search);
  return search;
}

Scores last_scores(const Search& search, const Tensor& logits) {
  const int64_t rows = search.texts * search.beams, vocabulary = search.vocabulary;
  if (logits.rank() != 3 || logits.size() == 0 || !is_float(logits.dtype()) || vocabulary > logits.dim(2) ||
      (logits.dim(0) != rows && logits.dim(0) != search.texts))
    throw Error(ErrorCode::invalid_model,
                str("the decoder's logits must be floats [", rows, ", tokens, words], at least ", vocabulary,
                    " words, are ", describe(logits)));
  const Tensor wide = logits.aligned().cast(DType::f32);
  const int64_t tokens = wide.dim(1), words = wide.dim(2), repeats = rows / wide.dim(0);
  Scores scores{vocabulary > 0 ? vocabulary : words, {}};
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = wide.data<float>() + ((i / repeats + 1) * tokens - 1) * words;
    scores.values.insert(scores.values.end(), row, row + scores.vocabulary);
  }
  return scores;
}

void log_softmax(Scores& scores) {
  for (size_t i = 0; i < scores.rows(); ++i) {
    const std::span<float> row = scores.row(i);
    const float most = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (const float x : row) sum += std::exp(x - most);
    const float log_sum = std::log(sum);
    for (float& x : row) x = x - most - log_sum;
  }
}

void process(const Search& search, const Texts& texts, bool first, Scores& scores) {
  const auto check = [&](const Tensor& mask, int64_t rows, const char* what) {
    if (mask && mask.size() != rows * scores.vocabulary)
      throw Error(ErrorCode::invalid_input,
                  str(what, " is ", describe(mask), ", the decoder scores ", scores.vocabulary, " words"));
  };
  check(search.vocabulary_mask, 1, "vocab_mask");
  check(search.prefix_mask, search.texts, "prefix_vocab_mask");
  check(search.presence_mask, search.texts, "presence_mask");
  for (size_t i = 0; i < scores.rows(); ++i) {
    const std::span<float> row = scores.row(i);
    const auto of_text = [&](const Tensor& mask) {
      return mask.data<int32_t>() + static_cast<int64_t>(i) / search.beams * scores.vocabulary;
    };
    if (search.repetition_penalty != 1) penalise_repetitions(search, texts[i], row);
    if (search.no_repeat > 0) forbid_repeats(search.no_repeat, texts[i], row);
    if (search.vocabulary_mask) forbid_masked(search.vocabulary_mask.data<int32_t>(), row);
    if (search.prefix_mask && first) forbid_masked(of_text(search.prefix_mask), row);
    if (static_cast<int64_t>(texts[i].size()) < search.least_length && search.end < scores.vocabulary)
      row[static_cast<size_t>(search.end)] = kNever;
    if (search.temperature != 1)
      for (float& x : row) x /= search.temperature;
    if (search.presence_mask && search.presence_penalty != 0)
      for (size_t k = 0; k < row.size(); ++k)
        row[k] -= static_cast<float>(of_text(search.presence_mask)[k]) * search.presence_penalty;
  }
}

void filter_top_p(const Search& search, Scores& scores) {
  for (size_t i = 0; i < scores.rows(); ++i) {
    const std::span<float> row = scores.row(i);
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return search.from_greatest ? row[a] > row[b] : row[a] < row[b]; });
    std::vector<float> sums;
    const float most = *std::max_element(row.begin(), row.end());
    float total = 0;
    for (const size_t k : order) sums.push_back(total += std::exp(row[k] - most));
    if (search.from_greatest) {
      for (size_t j = 0; j + 1 < order.size(); ++j)
        if (sums[j] / total > search.top_p) row[order[j + 1]] = search.filter_value;
    } else {
      // The least probable one goes whatever must be kept.
      for (size_t j = 0; j < order.size(); ++j)
        if ((j == 0 || static_cast<int64_t>(j) < scores.vocabulary - search.kept) &&
            sums[j] / total <= 1 - search.top_p)
          row[order[j]] = search.filter_value;
    }
  }
}

}  // namespace transmuter::runtime
