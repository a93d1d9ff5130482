// com.microsoft operators on host values: MurmurHash3 (of strings too), NGramRepeatBlock, NGramHashMapping,
// DynamicTimeWarping (its result's length depends on the data).
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ops/host_node.h"
#include "ops/registry.h"

// NOLINTBEGIN(performance-unnecessary-value-param): inputs by value, as HostRun has it
namespace transmuter::ops {
namespace {

using onnx::Attribute;
using transmuter::Value;

// MurmurHash3_x86_32 (Appleby, public domain).
uint32_t murmur(const char* bytes, size_t size, uint32_t seed) {
  uint32_t hash = seed;
  const auto mixed = [](uint32_t word) { return std::rotl(word * 0xcc9e2d51U, 15) * 0x1b873593U; };
  size_t at = 0;
  for (; at + 4 <= size; at += 4) {
    uint32_t word;
    std::memcpy(&word, bytes + at, 4);
    hash = std::rotl(hash ^ mixed(word), 13) * 5 + 0xe6546b64U;
  }
  uint32_t rest = 0;
  for (size_t i = size; i-- > at;) rest = (rest << 8) | static_cast<uint8_t>(bytes[i]);
  if (at < size) hash ^= mixed(rest);
  hash ^= static_cast<uint32_t>(size);
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bU;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35U;
  return hash ^ (hash >> 16);
}

std::vector<Value> murmur_hash(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  const uint32_t seed = static_cast<uint32_t>(integer_attribute(node, "seed", 0));
  std::vector<uint32_t> hashes;
  if (x.dtype() == DType::string) {
    for (const std::string& text : x.strings()) hashes.push_back(murmur(text.data(), text.size(), seed));
  } else {
    const int width = bit_width(x.dtype());
    if (width != 32 && width != 64) invalid(node, "does not hash ", name(x.dtype()));
    const auto* bytes = reinterpret_cast<const char*>(x.bytes());
    const size_t size = static_cast<size_t>(width / 8);
    for (int64_t i = 0; i < x.size(); ++i) hashes.push_back(murmur(bytes + static_cast<size_t>(i) * size, size, seed));
  }
  const Tensor result(hashes, x.shape());
  return {integer_attribute(node, "positive", 1) != 0 ? result : result.bitcast(DType::i32)};
}

// A token that would repeat n tokens that stand in the row already gets the score -inf.
std::vector<Value> ngram_repeat_block(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor &ids = tensor_input(node, inputs, 0), &scores = tensor_input(node, inputs, 1);
  int64_t n = integer_attribute(node, "ngram_size");
  if (n < 1) invalid(node, "ngram_size must be positive");
  if (ids.rank() != 2 || scores.rank() != 2 || ids.dim(0) != scores.dim(0))
    invalid(node, "takes ids [b, s] and scores [b, v]");
  const int64_t rows = ids.dim(0), length = ids.dim(1), tokens = scores.dim(1);
  n = std::min(n, length + 1);
  const std::vector<int64_t> all = integers(ids);
  std::vector<float> result = scores.aligned().cast(DType::f32).to_vector<float>();
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = all.begin() + row * length, tail = begin + std::max<int64_t>(length - (n - 1), 0);
    for (int64_t at = 0; at + n <= length; ++at) {
      if (!std::equal(begin + at, begin + at + n - 1, tail)) continue;
      const int64_t banned = *(begin + at + n - 1);
      if (banned < 0 || banned >= tokens) invalid(node, "token ", banned, " is out of range");
      result[static_cast<size_t>(row * tokens + banned)] = -std::numeric_limits<float>::infinity();
    }
  }
  return {Tensor(result, scores.shape()).cast(scores.dtype())};
}

// For n = 2 ... max the ids of n neighbours, each times its multiplier, under exclusive or, modulo the sizes of heads.
std::vector<Value> ngram_hash_mapping(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& ids = tensor_input(node, inputs, 0);
  const int64_t longest = integer_attribute(node, "max_ngram_size"),
                heads = integer_attribute(node, "n_head_per_ngram");
  const int64_t pad = integer_attribute(node, "pad_id");
  if (has_input(inputs, 5) || has_input(inputs, 6))
    throw Error(ErrorCode::unsupported, "NGramHashMapping: eos_token_id and segment_ids");
  if (longest < 2 || heads < 1 || ids.rank() != 2) invalid(node, "takes ids [b, s], n-grams of 2 or more, a head");
  const std::vector<int64_t> multipliers = integers(tensor_input(node, inputs, 1));
  const std::vector<int64_t> sizes = integers(tensor_input(node, inputs, 2));
  const int64_t hashes_given = static_cast<int64_t>(sizes.size()), history = longest - 1;
  if (static_cast<int64_t>(multipliers.size()) < longest || hashes_given / history < heads ||
      std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size <= 0; }))
    invalid(node, "multipliers or vocabulary sizes are too few or not positive");
  const int64_t columns = history * heads, rows = ids.dim(0), length = ids.dim(1);
  std::vector<int64_t> past(static_cast<size_t>(rows * history), pad), offsets(static_cast<size_t>(columns), 0);
  if (has_input(inputs, 3)) past = integers(inputs[3].tensor);
  if (has_input(inputs, 4)) offsets = integers(inputs[4].tensor);
  if (static_cast<int64_t>(past.size()) != rows * history || static_cast<int64_t>(offsets.size()) < columns)
    invalid(node, "past_ids or head_offsets have another shape");
  const std::vector<int64_t> all = integers(ids);
  std::vector<int64_t> hashes, kept;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> line(past.begin() + row * history, past.begin() + (row + 1) * history);
    line.insert(line.end(), all.begin() + row * length, all.begin() + (row + 1) * length);
    for (int64_t at = history; at < history + length; ++at) {
      uint64_t mix = 0;
      for (int64_t back = 0; back < longest; ++back) {
        mix ^= static_cast<uint64_t>(line[static_cast<size_t>(at - back)]) *
               static_cast<uint64_t>(multipliers[static_cast<size_t>(back)]);
        if (back == 0) continue;
        for (int64_t head = 0; head < heads; ++head) {
          const size_t column = static_cast<size_t>((back - 1) * heads + head);
          const int64_t rest = static_cast<int64_t>(mix) % sizes[column];
          const int64_t hash = rest < 0 ? rest + sizes[column] : rest;
          hashes.push_back(static_cast<int64_t>(static_cast<uint64_t>(hash) + static_cast<uint64_t>(offsets[column])));
        }
      }
    }
    kept.insert(kept.end(), line.end() - history, line.end());
  }
  return {Tensor(hashes, {rows, length, columns}).cast(ids.dtype()), Tensor(kept, {rows, history}).cast(ids.dtype())};
}

// The cheapest path through a matrix of costs from the first corner to the last.
std::vector<Value> dynamic_time_warping(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& cost = tensor_input(node, inputs, 0);
  if (cost.rank() != 2 && !(cost.rank() == 3 && cost.dim(0) == 1)) invalid(node, "takes costs [m, n] or [1, m, n]");
  const int64_t rows = cost.dim(cost.rank() - 2), columns = cost.dim(cost.rank() - 1);
  if (rows == 0 || columns == 0) invalid(node, "the matrix is empty");
  const std::vector<float> costs = cost.aligned().cast(DType::f32).to_vector<float>();
  const int64_t stride = columns + 1;
  std::vector<float> sums(static_cast<size_t>((rows + 1) * stride), std::numeric_limits<float>::infinity());
  enum class Step : uint8_t { both, row, column };
  std::vector<Step> steps(sums.size(), Step::row);
  std::fill(steps.begin(), steps.begin() + stride, Step::column);
  sums[0] = 0;
  for (int64_t i = 1; i <= rows; ++i) {
    for (int64_t j = 1; j <= columns; ++j) {
      const size_t at = static_cast<size_t>(i * stride + j);
      const float both = sums[at - static_cast<size_t>(stride) - 1], row = sums[at - static_cast<size_t>(stride)],
                  column = sums[at - 1];
      steps[at] = both < row && both < column ? Step::both : row < both && row < column ? Step::row : Step::column;
      const float before = steps[at] == Step::both ? both : steps[at] == Step::row ? row : column;
      sums[at] = costs[static_cast<size_t>((i - 1) * columns + j - 1)] + before;
    }
  }
  std::vector<int32_t> path_rows, path_columns;
  for (int64_t i = rows, j = columns; i > 0 || j > 0;) {
    path_rows.push_back(static_cast<int32_t>(i - 1));
    path_columns.push_back(static_cast<int32_t>(j - 1));
    const Step step = steps[static_cast<size_t>(i * stride + j)];
    if (step != Step::column) --i;
    if (step != Step::row) --j;
  }
  std::reverse(path_rows.begin(), path_rows.end());
  std::reverse(path_columns.begin(), path_columns.end());
  const int64_t length = static_cast<int64_t>(path_rows.size());
  path_rows.insert(path_rows.end(), path_columns.begin(), path_columns.end());
  return {Tensor(path_rows, {2, length})};
}

// Aggressive decoding: the current tokens and what was predicted up to the first token that is not the source's; and
// the place in the source behind the only appearance of their last n tokens (the smallest n that has one; -1: none).
std::vector<Value> bifurcation_detector(const onnx::Node& node, std::vector<Value> inputs) {
  const std::vector<int64_t> source = integers(tensor_input(node, inputs, 0));
  std::vector<int64_t> tokens = integers(tensor_input(node, inputs, 1));
  const std::vector<int64_t> previous = integers(tensor_input(node, inputs, 2));
  const int64_t shortest = integer_attribute(node, "min_ngram_size", 1),
                longest = integer_attribute(node, "max_ngram_size", 3);
  if (shortest < 1 || longest < shortest) invalid(node, "n-grams of ", shortest, " to ", longest, " tokens");
  const int64_t length = static_cast<int64_t>(source.size());
  if (has_input(inputs, 3)) {
    if (previous.size() != 1 || previous[0] < 0 || previous[0] > length)
      invalid(node, "prev_suffix_match_idx must be one place among the ", length, " source tokens");
    const std::vector<int64_t> predicted = integers(tensor_input(node, inputs, 3));
    const int64_t rest = length - previous[0];
    if (static_cast<int64_t>(predicted.size()) != rest + 1)
      invalid(node, predicted.size(), " predicted tokens for ", rest, " source tokens: one more is needed");
    const auto last = std::mismatch(source.begin() + previous[0], source.end(), predicted.begin()).second;
    tokens.insert(tokens.end(), predicted.begin(), last + 1);
  }
  int64_t place = -1;
  for (int64_t n = shortest; n <= longest && n <= static_cast<int64_t>(tokens.size()); ++n) {
    const auto first = std::search(source.begin(), source.end(), tokens.end() - n, tokens.end());
    if (first == source.end()) break;
    if (std::search(first + 1, source.end(), tokens.end() - n, tokens.end()) != source.end()) continue;
    place = first - source.begin() + n;
    break;
  }
  const int64_t count = static_cast<int64_t>(tokens.size());
  return {Tensor(tokens, {count}), Tensor(std::vector<int64_t>{place}, {1})};
}

}  // namespace

void register_contrib_host(Registry& r) {
  r.add_host("MurmurHash3", {1}, murmur_hash, kMicrosoft);
  r.add_host("NGramRepeatBlock", {1}, ngram_repeat_block, kMicrosoft);
  r.add_host("NGramHashMapping", {1}, ngram_hash_mapping, kMicrosoft);
  r.add_host("DynamicTimeWarping", {1}, dynamic_time_warping, kMicrosoft);
  r.add_host("BifurcationDetector", {1}, bifurcation_detector, kMicrosoft);
}

}  // namespace transmuter::ops
// NOLINTEND(performance-unnecessary-value-param)
