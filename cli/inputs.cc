#include "inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace transmuter::cli {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_input, message); }

void flatten(const json& node, size_t depth, Shape& shape, std::vector<json>& leaves) {
  if (!node.is_array()) {
    if (depth != shape.size()) refuse("the JSON lists are ragged");
    leaves.push_back(node);
    return;
  }
  if (leaves.empty() && depth == shape.size()) shape.push_back(static_cast<int64_t>(node.size()));
  if (depth >= shape.size() || shape[depth] != static_cast<int64_t>(node.size())) refuse("the JSON lists are ragged");
  for (const json& item : node) flatten(item, depth + 1, shape, leaves);
}

// What a message quotes of a text that may be long.
std::string excerpt(const std::string& text) { return text.size() <= 80 ? text : text.substr(0, 77) + "..."; }

// Does an integral dtype hold this number?
bool holds(DType dtype, const json& number) {
  if (dtype == DType::boolean) return true;
  const int bits = bit_width(dtype);
  if (number.is_number_unsigned()) {
    const int value_bits = is_signed_integer(dtype) ? bits - 1 : bits;
    return value_bits == 64 || number.get<uint64_t>() >> value_bits == 0;
  }
  return is_signed_integer(dtype) && number.get<int64_t>() >= -(int64_t{1} << (bits - 2)) * 2;
}

Tensor tensor_of(const json& node, DType dtype) {
  Shape shape;
  std::vector<json> leaves;
  flatten(node, 0, shape, leaves);
  if (dtype == DType::string) {
    std::vector<std::string> values;
    for (const json& leaf : leaves) {
      if (!leaf.is_string()) refuse("expected strings");
      values.push_back(leaf.get<std::string>());
    }
    return Tensor::of_strings(std::move(values), shape);
  }
  const bool integral = is_integer(dtype) || dtype == DType::boolean;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  for (const json& leaf : leaves) {
    if (leaf.is_boolean()) {
      integers.push_back(leaf.get<bool>());
      reals.push_back(leaf.get<bool>());
    } else if (leaf.is_number() && (!integral || (leaf.is_number_integer() && holds(dtype, leaf)))) {
      integers.push_back(leaf.is_number_integer() ? leaf.get<int64_t>() : 0);
      reals.push_back(leaf.get<double>());
    } else {
      refuse("expected " + std::string(name(dtype)) + " values, got " + excerpt(leaf.dump()));
    }
  }
  return integral ? Tensor(integers, shape).cast(dtype) : Tensor(reals, shape).cast(dtype);
}

Value value_of(const json& node, const ValueSpec& spec);

Value map_of(const json& node, const ValueSpec& spec) {
  if (!node.is_object()) refuse("expected a map: {\"key\": value, ...}");
  json keys = json::array(), values = json::array();
  for (const auto& [key, value] : node.items()) {
    json parsed = spec.key_dtype == DType::string ? json(key) : json::parse(key, nullptr, false);
    keys.push_back(parsed.is_discarded() ? json(key) : std::move(parsed));
    values.push_back(value);
  }
  const DType key_dtype = spec.key_dtype == DType::invalid ? DType::string : spec.key_dtype;
  if (keys.empty()) return Value::map(Tensor(key_dtype, {0}), Tensor(spec.dtype, {0}));
  return Value::map(tensor_of(keys, key_dtype), tensor_of(values, spec.dtype));
}

// As the model declares the input: a list of elements for a sequence, null or the content for an optional.
Value value_of(const json& node, const ValueSpec& spec) {
  if (spec.kind == Value::Kind::map) return map_of(node, spec);
  if (spec.kind != Value::Kind::sequence && spec.kind != Value::Kind::optional) return tensor_of(node, spec.dtype);
  if (spec.element.empty()) refuse("the model does not say what it holds; give a .pb file");
  const ValueSpec& element = spec.element[0];
  std::vector<Value> items;
  if (spec.kind == Value::Kind::sequence) {
    if (!node.is_array()) refuse("expected a sequence: a list of its elements");
    for (const json& item : node) items.push_back(value_of(item, element));
  } else if (!node.is_null()) {
    items.push_back(value_of(node, element));
  }
  Value value =
      spec.kind == Value::Kind::sequence ? Value::sequence(std::move(items)) : Value::optional(std::move(items));
  if (element.kind == Value::Kind::tensor) value.element = element.dtype;
  return value;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

uint64_t fnv1a64(const std::string& text) {
  uint64_t value = 0xCBF29CE484222325u;
  for (unsigned char c : text) value = (value ^ c) * 0x100000001B3u;
  return value;
}

uint64_t word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

int64_t extent_of(const ValueSpec::Dim& dim, const std::map<std::string, int64_t>& extents, const std::string& input) {
  if (dim.value >= 0) return dim.value;
  if (dim.symbol.empty()) refuse("input " + input + " has an extent without a name");
  int64_t sum = 0;
  for (size_t begin = 0; begin <= dim.symbol.size();) {
    size_t end = dim.symbol.find(" + ", begin);
    if (end == std::string::npos) end = dim.symbol.size();
    const std::string term = dim.symbol.substr(begin, end - begin);
    if (!term.empty() && term.size() <= 12 && term.find_first_not_of("0123456789") == std::string::npos) {
      sum += std::stoll(term);
    } else {
      const auto found = extents.find(term);
      if (found == extents.end())
        refuse("extent " + term + " of input " + input + " has no value; pass --dim " + term + "=N");
      sum += found->second;
    }
    begin = end + 3;
  }
  return sum;
}

Tensor generated(const ValueSpec& spec, const Shape& shape, int64_t past, int64_t vocabulary) {
  const uint64_t seed = fnv1a64(spec.name);
  const size_t count = static_cast<size_t>(element_count(shape));
  if (is_float(spec.dtype)) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t w = word(seed, i);
      const double parts = static_cast<double>((w & 0xffff) + (w >> 16 & 0xffff) + (w >> 32 & 0xffff) + (w >> 48));
      values[i] = (parts - 131070) * (std::sqrt(3.0) / 65536);
    }
    return Tensor(values, shape).cast(spec.dtype);
  }
  std::vector<int64_t> values(count);
  const size_t row = shape.empty() ? 1 : static_cast<size_t>(std::max<int64_t>(1, shape.back()));
  for (size_t i = 0; i < count; ++i) {
    if (spec.dtype == DType::boolean || spec.name.find("mask") != std::string::npos) {
      values[i] = 1;
    } else if (spec.name == "token_type_ids") {
      values[i] = 0;
    } else if (spec.name == "position_ids") {
      values[i] = past + static_cast<int64_t>(i % row);
    } else if (bit_width(spec.dtype) == 8) {
      values[i] = static_cast<int64_t>(word(seed, i) & 0xff);
    } else {
      values[i] = static_cast<int64_t>(word(seed, i) % static_cast<uint64_t>(vocabulary));
    }
  }
  return Tensor(values, shape).cast(spec.dtype);
}

}  // namespace

std::map<std::string, int64_t> parse_extents(const std::vector<std::string>& pairs) {
  std::map<std::string, int64_t> extents;
  for (const std::string& pair : pairs) {
    const size_t at = pair.find('=');
    const std::string value = at == std::string::npos ? "" : pair.substr(at + 1);
    if (at == 0 || value.empty() || value.size() > 12 || value.find_first_not_of("0123456789") != std::string::npos) {
      refuse("--dim wants NAME=VALUE, got " + pair);
    }
    extents[pair.substr(0, at)] = std::stoll(value);
  }
  return extents;
}

WarmUp parse_warm_up(const std::vector<std::string>& words) {
  WarmUp expected;
  for (const std::string& word : words) {
    const size_t at = word.rfind('=');
    const std::string name = word.substr(0, at), value = at == std::string::npos ? "" : word.substr(at + 1);
    const char separator = value.find('x') == std::string::npos ? ':' : 'x';
    std::vector<int64_t> numbers;
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(separator, begin), value.size());
      const std::string digits = value.substr(begin, end - begin);
      if (digits.empty() || digits.size() > 12 || digits.find_first_not_of("0123456789") != std::string::npos)
        refuse("--warm-up wants NAME=SIZE, NAME=LOW:HIGH or INPUT=2x3x4, got " + excerpt(word));
      numbers.push_back(std::stoll(digits));
      begin = end + 1;
    }
    if (separator == 'x') {
      expected.shapes[name] = std::move(numbers);
    } else if (numbers.size() <= 2 && !name.empty()) {
      expected.sizes[name] = {numbers.front(), numbers.back()};
    } else {
      refuse("--warm-up wants NAME=SIZE, NAME=LOW:HIGH or INPUT=2x3x4, got " + excerpt(word));
    }
  }
  return expected;
}

Tensor tensor_from_json(const std::string& text, DType dtype) {
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) refuse("not JSON: " + excerpt(text));
  return tensor_of(parsed, dtype);
}

bool names_value_file(const std::string& text) { return text.ends_with(".npy") || text.ends_with(".pb"); }

TensorMap read_inputs(const Model& model, const std::vector<std::string>& assignments) {
  TensorMap inputs;
  for (const std::string& assignment : assignments) {
    const size_t at = assignment.find('=');
    if (at == std::string::npos || at == 0)
      refuse("-i wants NAME=FILE.npy, NAME=FILE.pb or NAME=JSON, got " + excerpt(assignment));
    const std::string name = assignment.substr(0, at), value = assignment.substr(at + 1);
    if (inputs.contains(name)) refuse("input " + name + " is given twice");
    const ValueSpec* spec = nullptr;
    for (const ValueSpec& s : model.inputs()) spec = s.name == name ? &s : spec;
    if (names_value_file(value)) {
      inputs[name] = read_value(value, spec);
      continue;
    }
    if (!spec) {
      std::string all;
      for (const ValueSpec& s : model.inputs()) all += (all.empty() ? "" : ", ") + s.name;
      refuse("there is no input " + name + "; the model has " + all);
    }
    const json parsed = json::parse(value, nullptr, false);
    if (parsed.is_discarded()) refuse("input " + name + ": neither a .npy or .pb file nor JSON: " + excerpt(value));
    try {
      inputs[name] = value_of(parsed, *spec);
    } catch (Error& error) {
      throw error.in("input " + name);
    }
  }
  return inputs;
}

std::vector<std::string> numbered_files(const std::string& folder, const std::string& stem) {
  std::vector<std::string> files;
  for (size_t i = 0;; ++i) {
    const std::string path = folder + "/" + stem + "_" + std::to_string(i) + ".pb";
    if (!fs::exists(path)) return files;
    files.push_back(path);
  }
}

const ValueSpec* spec_for(const std::vector<ValueSpec>& specs, const std::string& path, size_t position) {
  const std::string name = value_name(path);
  for (const ValueSpec& spec : specs) {
    if (!name.empty() && spec.name == name) return &spec;
  }
  return position < specs.size() ? &specs[position] : nullptr;
}

TensorMap read_data_set(const Model& model, const std::string& folder) {
  if (!fs::is_directory(folder)) throw Error(ErrorCode::not_found, "there is no folder " + folder);
  TensorMap inputs;
  const std::vector<std::string> files = numbered_files(folder, "input");
  for (size_t i = 0; i < files.size(); ++i) {
    const ValueSpec* spec = spec_for(model.inputs(), files[i], i);
    if (!spec) throw Error(ErrorCode::invalid_input, "the model has no input for " + files[i]);
    inputs[spec->name] = read_value(files[i], spec);
  }
  return inputs;
}

TensorMap generated_inputs(const Model& model, std::map<std::string, int64_t> extents, int64_t vocabulary,
                           const std::set<std::string>& without) {
  extents.try_emplace("batch_size", 1);
  extents.try_emplace("past_sequence_length", 0);
  if (extents.contains("sequence_length")) {
    extents.try_emplace("total_sequence_length", extents["past_sequence_length"] + extents["sequence_length"]);
  }
  TensorMap inputs;
  for (const ValueSpec& spec : model.inputs()) {
    if (spec.optional || without.contains(spec.name)) continue;
    if (spec.kind != Value::Kind::tensor || spec.dtype == DType::string)
      refuse("input " + spec.name + " cannot be generated; give one with -i");
    Shape shape;
    for (const ValueSpec::Dim& d : spec.shape) shape.push_back(extent_of(d, extents, spec.name));
    try {
      inputs[spec.name] = generated(spec, shape, extents["past_sequence_length"], vocabulary);
    } catch (const std::bad_alloc&) {
      refuse("input " + spec.name + ": no memory for the extents " + shape_text(shape));
    } catch (const std::length_error&) {
      refuse("input " + spec.name + ": no memory for the extents " + shape_text(shape));
    }
  }
  return inputs;
}

}  // namespace transmuter::cli
