// Operators on strings, which run on host values: StringConcat, StringSplit, StringNormalizer, RegexFullMatch,
// com.microsoft Tokenizer.
#include <algorithm>
#include <unordered_set>

#include "base/pattern.h"
#include "base/strings.h"
#include "base/unicode.h"
#include "ops/host_node.h"
#include "ops/registry.h"

// NOLINTBEGIN(performance-unnecessary-value-param): inputs by value, as HostRun has it
namespace transmuter::ops {
namespace {

using onnx::Attribute;
using transmuter::Value;

const Tensor& strings_input(const onnx::Node& node, const std::vector<Value>& inputs, size_t i) {
  if (i >= inputs.size() || !inputs[i].is_tensor() || inputs[i].tensor.dtype() != DType::string)
    invalid(node, "input ", i, " must be a tensor of strings");
  return inputs[i].tensor;
}

std::vector<Value> concat(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor &x = strings_input(node, inputs, 0), &y = strings_input(node, inputs, 1);
  const size_t rank = static_cast<size_t>(std::max(x.rank(), y.rank()));
  const auto extent_of = [&](const Tensor& t, size_t axis) {
    const size_t missing = rank - static_cast<size_t>(t.rank());
    return axis < missing ? int64_t{1} : t.shape()[axis - missing];
  };
  Shape shape(rank);
  int64_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t a = extent_of(x, i), b = extent_of(y, i);
    if (a != b && a != 1 && b != 1) invalid(node, "extents ", a, " and ", b, " do not broadcast");
    shape[i] = a == 1 ? b : a;
    count *= shape[i];
  }
  std::vector<std::string> result;
  result.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto element = [&](const Tensor& t) -> const std::string& {
      int64_t rest = i, at = 0, stride = 1;
      for (size_t axis = rank; axis-- > 0; rest /= shape[axis]) {
        const int64_t extent = extent_of(t, axis);
        if (extent != 1) at += rest % shape[axis] * stride;
        stride *= extent;
      }
      return t.strings()[static_cast<size_t>(at)];
    };
    result.push_back(element(x) + element(y));
  }
  return {Tensor::of_strings(std::move(result), shape)};
}

constexpr const char* kBlanks = " \t\n\r\f\v";

// At most `most` cuts (negative: any number). Without a delimiter blanks cut, and those at the ends go.
std::vector<std::string> split_text(const std::string& text, const std::string& delimiter, int64_t most) {
  std::vector<std::string> parts;
  size_t at = delimiter.empty() ? text.find_first_not_of(kBlanks) : 0;
  while (at != std::string::npos) {
    const bool may_cut = most < 0 || static_cast<int64_t>(parts.size()) < most;
    const size_t end = !may_cut            ? std::string::npos
                       : delimiter.empty() ? text.find_first_of(kBlanks, at)
                                           : text.find(delimiter, at);
    if (end == std::string::npos) {
      const size_t last = delimiter.empty() ? text.find_last_not_of(kBlanks) + 1 : text.size();
      parts.push_back(text.substr(at, last - at));
      break;
    }
    parts.push_back(text.substr(at, end - at));
    at = delimiter.empty() ? text.find_first_not_of(kBlanks, end) : end + delimiter.size();
  }
  return parts;
}

// Lists of strings as a last axis as long as the longest, filled up with `padding`.
Tensor padded(const std::vector<std::vector<std::string>>& lists, Shape shape, const std::string& padding) {
  size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  std::vector<std::string> all;
  for (const auto& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
    all.insert(all.end(), longest - list.size(), padding);
  }
  shape.push_back(static_cast<int64_t>(longest));
  return Tensor::of_strings(std::move(all), std::move(shape));
}

std::vector<Value> split(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = strings_input(node, inputs, 0);
  const std::string delimiter = text_attribute(node, "delimiter", "");
  const int64_t most = integer_attribute(node, "maxsplit", -1);
  std::vector<std::vector<std::string>> lists;
  std::vector<int64_t> counts;
  for (const std::string& text : x.strings()) {
    lists.push_back(split_text(text, delimiter, most));
    counts.push_back(static_cast<int64_t>(lists.back().size()));
  }
  return {padded(lists, x.shape(), ""), Tensor(counts, x.shape())};
}

// [c] or [1, c]: words that are not stop words, in another case. Where none stays, one empty string.
std::vector<Value> normalise(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = strings_input(node, inputs, 0);
  if (x.rank() != 1 && !(x.rank() == 2 && x.dim(0) == 1)) invalid(node, "the input must be [c] or [1, c]");
  const std::string action = text_attribute(node, "case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    invalid(node, "case_change_action ", action, " is not one of the operator's");
  const bool sensitive = integer_attribute(node, "is_case_sensitive", 0) != 0;
  std::unordered_set<std::string> stops;
  if (const Attribute* a = node.find("stopwords"))
    for (const std::string& word : a->strings) stops.insert(sensitive ? word : with_case(word, to_lower));
  std::vector<std::string> kept;
  for (const std::string& word : x.strings()) {
    if (stops.count(sensitive ? word : with_case(word, to_lower)) > 0) continue;
    kept.push_back(action == "NONE" ? word : with_case(word, action == "LOWER" ? to_lower : to_upper));
  }
  if (kept.empty()) kept.emplace_back();
  const int64_t count = static_cast<int64_t>(kept.size());
  return {Tensor::of_strings(std::move(kept), x.rank() == 1 ? Shape{count} : Shape{1, count})};
}

std::vector<Value> full_match(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = strings_input(node, inputs, 0);
  const Pattern pattern(text_attribute(node, "pattern", ""));
  Tensor result(DType::boolean, x.shape());
  bool* matched = result.mutable_data<bool>();
  for (const std::string& text : x.strings()) *matched++ = pattern.matches(text);
  return {result};
}

// How the text of one string is cut.
class Cutter {
 public:
  explicit Cutter(const onnx::Node& node) {
    const Attribute *separators = node.find("separators"), *expression = node.find("tokenexp");
    if ((separators && !separators->strings.empty()) == (expression && !expression->s.empty()))
      invalid(node, "needs either separators or tokenexp");
    if (separators && !separators->strings.empty()) {
      single_ = separators->strings.size() == 1 && separators->strings[0].empty();
      for (const std::string& text : separators->strings)
        if (!single_) separators_.emplace_back(text);
    } else {
      single_ = expression->s == ".";
      if (!single_) token_.emplace(expression->s);
    }
  }

  std::vector<std::string> cut(const std::string& text) const {
    if (single_) {
      std::vector<std::string> parts;
      for (const char32_t c : from_utf8(text)) parts.push_back(to_utf8({&c, 1}));
      return parts;
    }
    return token_ ? tokens(text) : between(text);
  }

 private:
  std::vector<std::string> tokens(const std::string& text) const {
    std::vector<std::string> parts;
    for (const auto& [begin, end] : token_->places(text)) parts.push_back(text.substr(begin, end - begin));
    return parts;
  }
  // The separators cut one after the other.
  std::vector<std::string> between(const std::string& text) const {
    std::vector<std::string> parts{text};
    for (const Pattern& separator : separators_) {
      std::vector<std::string> finer;
      for (const std::string& part : parts) {
        size_t start = 0;
        for (const auto& [begin, end] : separator.places(part)) {
          if (begin > start) finer.push_back(part.substr(start, begin - start));
          start = end;
        }
        if (part.size() > start) finer.push_back(part.substr(start));
      }
      parts = std::move(finer);
    }
    return parts;
  }

  bool single_ = false;
  std::vector<Pattern> separators_;
  std::optional<Pattern> token_;
};

std::vector<Value> tokenize(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = strings_input(node, inputs, 0);
  if (x.rank() != 1 && x.rank() != 2) invalid(node, "the input must have rank 1 or 2, has ", x.rank());
  const bool mark = integer_attribute(node, "mark", 0) != 0;
  const int64_t least = integer_attribute(node, "mincharnum", 1);
  if (x.size() == 0) return {Tensor::of_strings({}, x.rank() == 1 ? Shape{0} : Shape{x.dim(0), 0})};
  const Cutter cutter(node);
  std::vector<std::vector<std::string>> lists;
  for (const std::string& text : x.strings()) {
    std::vector<std::string> list;
    if (mark) list.emplace_back("\x02");
    for (std::string& part : cutter.cut(text))
      if (static_cast<int64_t>(from_utf8(part).size()) >= least) list.push_back(std::move(part));
    if (mark) list.emplace_back("\x03");
    lists.push_back(std::move(list));
  }
  return {padded(lists, x.shape(), text_attribute(node, "pad_value", ""))};
}

}  // namespace

void register_strings(Registry& r) {
  r.add_host("StringConcat", {20}, concat);
  r.add_host("StringSplit", {20}, split);
  r.add_host("StringNormalizer", {10}, normalise);
  r.add_host("RegexFullMatch", {20}, full_match);
  r.add_host("Tokenizer", {1}, tokenize, kMicrosoft);
}

}  // namespace transmuter::ops
// NOLINTEND(performance-unnecessary-value-param)
