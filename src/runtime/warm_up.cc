#include "runtime/warm_up.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/strings.h"

namespace transmuter::runtime {
namespace {

constexpr size_t kMaxCombinations = 256;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_input, str("warm-up: ", why)); }

std::string axis_name(const ValueSpec& spec, size_t axis) { return str(spec.name, ":", axis); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "past + sequence", "sequence + 1" -> the parts.
std::vector<std::string> summands(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t plus = text.find('+');
    parts.emplace_back(trimmed(text.substr(0, plus)));
    if (plus == std::string_view::npos) return parts;
    text.remove_prefix(plus + 1);
  }
}

bool is_number(const std::string& text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

// One thing that varies: a size, or the value of an input that is a single bool.
struct Choice {
  std::string name;
  std::vector<int64_t> values;
};

class Maker {
 public:
  Maker(const std::vector<ValueSpec>& specs, const WarmUp& expected) : specs_(specs), expected_(expected) {
    for (const auto& [name, shape] : expected_.shapes) check_input(name);
    for (const auto& [name, value] : expected_.values) check_input(name);
    for (const auto& [name, range] : expected_.sizes) add_size(name, range);
    for (const ValueSpec& spec : specs_) add_flag(spec);
  }

  std::vector<std::pair<std::string, TensorMap>> make() {
    size_t combinations = 1;
    for (const Choice& choice : choices_) {
      combinations *= choice.values.size();
      if (combinations > kMaxCombinations) refuse(str("more than ", kMaxCombinations, " combinations of sizes"));
    }
    std::vector<std::pair<std::string, TensorMap>> sets;
    for (size_t i = 0; i < combinations; ++i) {
      std::string text;
      size_t left = i;
      chosen_.clear();
      for (const Choice& choice : choices_) {
        const int64_t value = choice.values[left % choice.values.size()];
        left /= choice.values.size();
        chosen_[choice.name] = value;
        text += str(text.empty() ? "" : ", ", choice.name, " = ", value);
      }
      sets.emplace_back(text.empty() ? "the shapes given" : std::move(text), inputs());
    }
    return sets;
  }

 private:
  void check_input(const std::string& name) const {
    if (std::none_of(specs_.begin(), specs_.end(), [&](const ValueSpec& spec) { return spec.name == name; }))
      refuse(str("there is no input ", name));
  }

  void add_size(const std::string& name, const WarmUp::Range& range) {
    if (range.low < 0 || range.high < range.low)
      refuse(str("the range ", range.low, " to ", range.high, " of ", name, " holds no size"));
    bool used = false;
    for (const ValueSpec& spec : specs_) {
      for (size_t axis = 0; axis < spec.shape.size() && !used; ++axis) {
        const ValueSpec::Dim& dim = spec.shape[axis];
        const std::vector<std::string> parts = summands(dim.symbol);
        used = dim.value < 0 && (dim.symbol == name || axis_name(spec, axis) == name ||
                                 std::find(parts.begin(), parts.end(), name) != parts.end());
      }
    }
    if (!used) refuse(str("no input has a size named ", name));
    Choice choice{name, {}};
    for (const int64_t own : {0, 1})
      if (range.low <= own && own <= range.high) choice.values.push_back(own);
    if (range.high >= 2) choice.values.push_back(range.high);
    choices_.push_back(std::move(choice));
  }

  void add_flag(const ValueSpec& spec) {
    const bool one = spec.has_shape && std::all_of(spec.shape.begin(), spec.shape.end(),
                                                   [](const ValueSpec::Dim& dim) { return dim.value == 1; });
    if (!one || spec.kind != Value::Kind::tensor || spec.dtype != DType::boolean || spec.optional ||
        expected_.values.contains(spec.name))
      return;
    choices_.push_back({spec.name, {0, 1}});
  }

  int64_t size(const ValueSpec& spec, size_t axis) const {
    const ValueSpec::Dim& dim = spec.shape[axis];
    if (dim.value >= 0) return dim.value;
    for (const std::string& name : {axis_name(spec, axis), dim.symbol})
      if (const auto found = chosen_.find(name); found != chosen_.end()) return found->second;
    int64_t sum = 0;
    for (const std::string& part : summands(dim.symbol)) {
      int64_t number = 0;
      if (const auto found = chosen_.find(part); found != chosen_.end()) {
        number = found->second;
      } else if (!is_number(part, number)) {
        refuse(str("nothing tells the size ", dim.symbol.empty() ? axis_name(spec, axis) : dim.symbol, ", axis ", axis,
                   " of input ", spec.name));
      }
      sum += number;
    }
    return sum;
  }

  TensorMap inputs() const {
    TensorMap made = expected_.values;
    for (const ValueSpec& spec : specs_) {
      if (made.contains(spec.name)) continue;
      const auto shape = expected_.shapes.find(spec.name);
      const bool given = shape != expected_.shapes.end();
      if (!given && (spec.optional || spec.kind == Value::Kind::optional)) continue;
      if (spec.kind != Value::Kind::tensor || spec.dtype == DType::invalid)
        refuse(str("no value can be made up for input ", spec.name, "; give it in values"));
      if (!given && !spec.has_shape)
        refuse(str("input ", spec.name, " is declared without a shape; give it in shapes"));
      Shape extents = given ? shape->second : Shape();
      for (size_t axis = 0; !given && axis < spec.shape.size(); ++axis) extents.push_back(size(spec, axis));
      Tensor zeros = Tensor::zeros(spec.dtype, std::move(extents));
      if (const auto flag = chosen_.find(spec.name); flag != chosen_.end() && spec.dtype == DType::boolean)
        zeros.mutable_bytes()[0] = static_cast<std::byte>(flag->second);
      made[spec.name] = std::move(zeros);
    }
    return made;
  }

  const std::vector<ValueSpec>& specs_;
  const WarmUp& expected_;
  std::vector<Choice> choices_;
  std::map<std::string, int64_t> chosen_;
};

}  // namespace

std::vector<std::pair<std::string, TensorMap>> warm_up_inputs(const std::vector<ValueSpec>& specs,
                                                              const WarmUp& expected) {
  return Maker(specs, expected).make();
}

}  // namespace transmuter::runtime
