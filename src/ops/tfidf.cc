// TfIdfVectorizer: counts of n-grams from a pool, with gaps of up to max_skip_count between their elements.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "ops/host_node.h"
#include "ops/registry.h"

// NOLINTBEGIN(performance-unnecessary-value-param): inputs by value, as HostRun has it
namespace transmuter::ops {
namespace {

using onnx::Attribute;
using transmuter::Value;

const std::vector<int64_t>& integers_attribute(const onnx::Node& node, const char* name) {
  const Attribute* a = node.find(name);
  if (!a) invalid(node, "attribute ", name, " is required");
  return a->ints;
}

// By length: from n-gram to its number in the pool; `number`: how many those are, with what stands there twice.
template <class T>
std::vector<std::map<std::vector<T>, size_t>> read_pool(const onnx::Node& node, const std::vector<T>& pool,
                                                        size_t& number) {
  const std::vector<int64_t>& starts = integers_attribute(node, "ngram_counts");
  std::vector<std::map<std::vector<T>, size_t>> grams;
  number = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    const int64_t begin = starts[n - 1], end = n < starts.size() ? starts[n] : static_cast<int64_t>(pool.size());
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) ||
        (end - begin) % static_cast<int64_t>(n) != 0)
      invalid(node, "ngram_counts does not fit the pool");
    grams.emplace_back();
    for (auto at = pool.begin() + begin; at != pool.begin() + end; at += static_cast<std::ptrdiff_t>(n))
      grams.back().emplace(std::vector<T>(at, at + static_cast<std::ptrdiff_t>(n)), number++);
  }
  return grams;
}

template <class T>
std::vector<Value> vectorize(const onnx::Node& node, const std::vector<T>& pool, const std::vector<T>& elements,
                             const Shape& shape) {
  const Attribute* mode = node.find("mode");
  if (!mode || (mode->s != "TF" && mode->s != "IDF" && mode->s != "TFIDF")) invalid(node, "bad mode");
  size_t count = 0;
  const auto grams = read_pool(node, pool, count);
  const std::vector<int64_t>& columns = integers_attribute(node, "ngram_indexes");
  const Attribute* given = node.find("weights");
  const std::vector<float> weights = given ? given->floats : std::vector<float>{};
  const int64_t shortest = integer_attribute(node, "min_gram_length"),
                longest = integer_attribute(node, "max_gram_length");
  const int64_t skips = integer_attribute(node, "max_skip_count");
  if (shortest < 1 || longest < shortest || skips < 0) invalid(node, "bad lengths of n-grams");
  if (columns.size() < count || columns.empty() || (!weights.empty() && weights.size() != columns.size()))
    invalid(node, "ngram_indexes or weights do not fit the pool");
  if (*std::min_element(columns.begin(), columns.end()) < 0) invalid(node, "ngram_indexes has a negative one");
  const int64_t last_column = *std::max_element(columns.begin(), columns.end());
  if (last_column > INT32_MAX) invalid(node, "ngram_indexes has ", last_column, ", more columns than a result has");
  const int64_t width = last_column + 1;
  const int64_t rows = shape.size() == 2 ? shape[0] : 1, length = shape.empty() ? 1 : shape.back();
  Tensor result = Tensor::zeros(DType::f32, shape.size() == 2 ? Shape{rows, width} : Shape{width});
  const int64_t most_gap = std::min(skips, length);
  for (int64_t row = 0; row < rows; ++row) {
    const auto line = elements.begin() + row * length;
    float* counts = result.mutable_data<float>() + row * width;
    for (int64_t n = shortest; n <= std::min<int64_t>(longest, static_cast<int64_t>(grams.size())); ++n) {
      const auto& known = grams[static_cast<size_t>(n - 1)];
      for (int64_t step = 1; step <= (n == 1 ? 1 : most_gap + 1); ++step) {
        for (int64_t start = 0; start + (n - 1) * step < length; ++start) {
          std::vector<T> gram;
          for (int64_t i = 0; i < n; ++i) gram.push_back(line[start + i * step]);
          const auto found = known.find(gram);
          if (found == known.end()) continue;
          const float weight = weights.empty() ? 1.0F : weights[found->second];
          float& at = counts[columns[found->second]];
          if (mode->s == "TF") {
            at += 1;
          } else if (mode->s == "IDF") {
            at = weight;
          } else {
            at += weight;
          }
        }
      }
    }
  }
  return {std::move(result)};
}

std::vector<Value> tfidf(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  if (x.rank() > 2) invalid(node, "the input must have rank 1 or 2, has ", x.rank());
  const Attribute *texts = node.find("pool_strings"), *numbers = node.find("pool_int64s");
  if (x.dtype() == DType::string) {
    if (!texts) invalid(node, "strings need pool_strings");
    return vectorize(node, texts->strings, x.strings(), x.shape());
  }
  if (!numbers || !is_integer(x.dtype())) invalid(node, "integers need pool_int64s");
  return vectorize(node, numbers->ints, integers(x), x.shape());
}

}  // namespace

void register_tfidf(Registry& r) { r.add_host("TfIdfVectorizer", {9}, tfidf); }

}  // namespace transmuter::ops
// NOLINTEND(performance-unnecessary-value-param)
