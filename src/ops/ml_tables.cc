// ai.onnx.ml operators on strings and maps, which no program holds: LabelEncoder, CategoryMapper, ZipMap,
// DictVectorizer, CastMap, OneHotEncoder.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "ops/host_node.h"
#include "ops/ml.h"
#include "ops/registry.h"

// NOLINTBEGIN(performance-unnecessary-value-param): inputs by value, as HostRun has it
namespace transmuter::ops {
namespace {

using onnx::Attribute;
using transmuter::Value;

Tensor of_integers(const std::vector<int64_t>& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return Tensor(values, {count});
}
Tensor of_texts(std::vector<std::string> values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return Tensor::of_strings(std::move(values), {count});
}

// The list that one of the attributes PREFIX_strings, PREFIX_int64s, PREFIX_floats, PREFIX_tensor gives.
Tensor list_attribute(const onnx::Node& node, const std::string& prefix) {
  if (const Attribute* a = node.find(prefix + "_tensor"); a && a->tensor) return a->tensor.aligned();
  if (const Attribute* a = node.find(prefix + "_strings"); a && !a->strings.empty()) return of_texts(a->strings);
  if (const Attribute* a = node.find(prefix + "_int64s"); a && !a->ints.empty()) return of_integers(a->ints);
  if (const Attribute* a = node.find(prefix + "_floats"); a && !a->floats.empty())
    return Tensor(a->floats, {static_cast<int64_t>(a->floats.size())});
  invalid(node, "there are no ", prefix);
}

// What a key that is not listed becomes.
Tensor default_of(const onnx::Node& node, DType dtype) {
  if (const Attribute* a = node.find("default_tensor"); a && a->tensor) return a->tensor.aligned();
  if (dtype == DType::string) return of_texts({text_attribute(node, "default_string", "_Unused")});
  if (is_float(dtype)) {
    const Attribute* a = node.find("default_float");
    return Tensor(std::vector<float>{a ? a->f : -0.0F}, {1}).cast(dtype);
  }
  return of_integers({integer_attribute(node, "default_int64", -1)}).cast(dtype);
}

// The place of each element in the keys, or -1. From version 4 of LabelEncoder on NaN is found as NaN.
std::vector<int64_t> places_of(const onnx::Node& node, const Tensor& x, const Tensor& keys) {
  if ((x.dtype() == DType::string) != (keys.dtype() == DType::string))
    invalid(node, "keys of ", name(keys.dtype()), " for elements of ", name(x.dtype()));
  std::vector<int64_t> places;
  const auto find = [&](const auto& elements, const auto& listed) {
    std::unordered_map<typename std::decay_t<decltype(listed)>::value_type, int64_t> index;
    for (size_t i = 0; i < listed.size(); ++i) index.emplace(listed[i], static_cast<int64_t>(i));
    for (const auto& element : elements) {
      const auto at = index.find(element);
      places.push_back(at == index.end() ? -1 : at->second);
    }
  };
  if (x.dtype() == DType::string) {
    find(x.strings(), keys.strings());
  } else if (is_float(x.dtype()) || is_float(keys.dtype())) {
    const auto elements = x.aligned().cast(DType::f64).to_vector<double>();
    const auto listed = keys.aligned().cast(DType::f64).to_vector<double>();
    find(elements, listed);
    for (size_t k = 0; k < listed.size(); ++k)
      for (size_t i = 0; node.version >= 4 && std::isnan(listed[k]) && i < elements.size(); ++i)
        if (std::isnan(elements[i]) && places[i] < 0) places[i] = static_cast<int64_t>(k);
  } else {
    find(integers(x), integers(keys));
  }
  return places;
}

Tensor chosen(const std::vector<int64_t>& places, const Tensor& values, const Tensor& otherwise, const Shape& shape) {
  if (values.dtype() == DType::string) {
    std::vector<std::string> texts;
    for (int64_t at : places)
      texts.push_back(at < 0 ? otherwise.strings().at(0) : values.strings().at(static_cast<size_t>(at)));
    return Tensor::of_strings(std::move(texts), shape);
  }
  const DType dtype = values.dtype(), wide = is_float(dtype) ? DType::f64 : DType::i64;
  const auto pick = [&]<class T>(T) {
    const std::vector<T> from = values.aligned().cast(wide).to_vector<T>();
    const T missing = otherwise.aligned().cast(wide).to_vector<T>().at(0);
    std::vector<T> to;
    for (int64_t at : places) to.push_back(at < 0 ? missing : from.at(static_cast<size_t>(at)));
    return Tensor(to, shape).cast(dtype);
  };
  return wide == DType::f64 ? pick(double{}) : pick(int64_t{});
}

// The first version knew one list of classes, between strings and their positions.
std::vector<Value> encode_classes(const onnx::Node& node, const Tensor& x) {
  const Attribute* a = node.find("classes_strings");
  if (!a) invalid(node, "there are no classes_strings");
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < a->strings.size(); ++i) numbers.push_back(static_cast<int64_t>(i));
  const Tensor texts = of_texts(a->strings), positions = of_integers(numbers);
  const bool from_text = x.dtype() == DType::string;
  const Tensor &keys = from_text ? texts : positions, &values = from_text ? positions : texts;
  return {chosen(places_of(node, x, keys), values, default_of(node, values.dtype()), x.shape())};
}

std::vector<Value> label_encoder(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  if (node.version < 2) return encode_classes(node, x);
  const Tensor keys = list_attribute(node, "keys"), values = list_attribute(node, "values");
  if (keys.size() != values.size()) invalid(node, keys.size(), " keys for ", values.size(), " values");
  return {chosen(places_of(node, x, keys), values, default_of(node, values.dtype()), x.shape())};
}

std::vector<Value> category_mapper(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  const Attribute *integers = node.find("cats_int64s"), *texts = node.find("cats_strings");
  if (!integers || !texts || integers->ints.size() != texts->strings.size())
    invalid(node, "cats_int64s and cats_strings must have one length");
  const Tensor names = of_texts(texts->strings), numbers = of_integers(integers->ints);
  const bool from_text = x.dtype() == DType::string;
  const Tensor &keys = from_text ? names : numbers, &values = from_text ? numbers : names;
  return {chosen(places_of(node, x, keys), values, default_of(node, values.dtype()), x.shape())};
}

// Each row of scores as a map from the class labels.
std::vector<Value> zip_map(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  const Tensor labels = list_attribute(node, "classlabels");
  if (x.rank() != 1 && x.rank() != 2) invalid(node, "the input must have rank 1 or 2, has ", x.rank());
  const int64_t columns = x.dim(x.rank() - 1), rows = x.rank() == 1 ? 1 : x.dim(0);
  if (columns != labels.size()) invalid(node, columns, " scores for ", labels.size(), " labels");
  const std::vector<float> scores = x.aligned().cast(DType::f32).to_vector<float>();
  std::vector<Value> maps;
  for (int64_t row = 0; row < rows; ++row) {
    Value map;
    map.kind = Value::Kind::map;
    map.keys = labels;
    map.tensor =
        Tensor(std::vector<float>(scores.begin() + row * columns, scores.begin() + (row + 1) * columns), {columns});
    maps.push_back(std::move(map));
  }
  return {Value::sequence(std::move(maps))};
}

// The values of a map in the order of a vocabulary; keys that the map lacks give zero.
std::vector<Value> dict_vectorizer(const onnx::Node& node, std::vector<Value> inputs) {
  if (inputs.empty() || inputs[0].kind != Value::Kind::map) invalid(node, "the input must be a map");
  const Attribute *texts = node.find("string_vocabulary"), *integers = node.find("int64_vocabulary");
  if (!texts && !integers) invalid(node, "there is no vocabulary");
  const Tensor vocabulary = texts && !texts->strings.empty() ? of_texts(texts->strings) : of_integers(integers->ints);
  const Tensor& values = inputs[0].tensor;
  const std::vector<int64_t> places = places_of(node, vocabulary, inputs[0].keys);
  Tensor missing = values.dtype() == DType::string ? of_texts({""}) : of_integers({0}).cast(values.dtype());
  return {chosen(places, values, missing, {1, vocabulary.size()})};
}

// A map of integer keys as a row, in the order of the keys: its values alone, or (SPARSE) each at the place of its key
// in `max_map` columns. Numbers become text as ONNX Runtime writes them, with six decimals.
std::vector<Value> cast_map(const onnx::Node& node, std::vector<Value> inputs) {
  if (inputs.empty() || inputs[0].kind != Value::Kind::map) invalid(node, "the input must be a map");
  const Tensor &keys = inputs[0].keys, &values = inputs[0].tensor;
  if (!is_integer(keys.dtype())) invalid(node, "the keys must be integers");
  const std::string to = text_attribute(node, "cast_to", "TO_FLOAT"), form = text_attribute(node, "map_form", "DENSE");
  if (to != "TO_FLOAT" && to != "TO_STRING" && to != "TO_INT64") invalid(node, "cast_to is ", to);
  if (form != "DENSE" && form != "SPARSE") invalid(node, "map_form is ", form);
  const std::vector<int64_t> at = integers(keys);
  std::map<int64_t, int64_t> places;  // key -> entry
  for (size_t i = 0; i < at.size(); ++i) places[at[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> entries;  // by column
  if (form == "DENSE") {
    for (const auto& [key, entry] : places) entries.push_back(entry);
  } else {
    if (!places.empty() && places.begin()->first < 0)
      throw Error(ErrorCode::invalid_input, str(node.op_type, ": the key ", places.begin()->first, " is negative"));
    entries.assign(static_cast<size_t>(std::max<int64_t>(0, integer_attribute(node, "max_map", 1))), -1);
    for (const auto& [key, entry] : places)
      if (key < static_cast<int64_t>(entries.size())) entries[static_cast<size_t>(key)] = entry;
  }
  const Shape shape{1, static_cast<int64_t>(entries.size())};
  const DType from = values.dtype();
  const DType dtype = to == "TO_FLOAT" ? DType::f32 : to == "TO_INT64" ? DType::i64 : DType::string;
  const Tensor otherwise =
      from == DType::string ? of_texts({dtype == DType::string ? "" : "0"}) : of_integers({0}).cast(from);
  Tensor row = chosen(entries, values, otherwise, shape);
  if (dtype != DType::string) return {row.cast(dtype)};
  if (from == DType::string) return {std::move(row)};
  std::vector<std::string> texts;
  const std::vector<double> numbers = row.cast(DType::f64).to_vector<double>();
  for (size_t i = 0; i < entries.size(); ++i) texts.push_back(entries[i] < 0 ? "" : std::to_string(numbers[i]));
  return {Tensor::of_strings(std::move(texts), shape)};
}

std::vector<Value> one_hot_encoder(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  const bool texts = x.dtype() == DType::string;
  const Attribute *strings = node.find("cats_strings"), *numbers = node.find("cats_int64s");
  if (texts ? !strings : !numbers) invalid(node, "there are no categories for elements of ", name(x.dtype()));
  const Tensor categories = texts ? of_texts(strings->strings) : of_integers(numbers->ints);
  const bool zeros = integer_attribute(node, "zeros", 1) != 0;
  const std::vector<int64_t> places = places_of(node, texts ? x : x.aligned().cast(DType::i64), categories);
  const auto count = static_cast<size_t>(categories.size());
  std::vector<float> rows(places.size() * count, 0);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= 0) rows[i * count + static_cast<size_t>(places[i])] = 1;
    if (places[i] < 0 && !zeros)
      throw Error(ErrorCode::invalid_input,
                  str("OneHotEncoder: element ", i, " is none of the ", count, " categories"));
  }
  Shape shape = x.shape();
  shape.push_back(categories.size());
  return {Tensor(rows, shape)};
}

}  // namespace

void register_ml_tables(Registry& r) {
  r.add_host("LabelEncoder", {1, 2, 4}, label_encoder, kMl);
  r.add_host("CategoryMapper", {1}, category_mapper, kMl);
  r.add_host("ZipMap", {1}, zip_map, kMl);
  r.add_host("DictVectorizer", {1}, dict_vectorizer, kMl);
  r.add_host("CastMap", {1}, cast_map, kMl);
  r.add_host("OneHotEncoder", {1}, one_hot_encoder, kMl);
}

}  // namespace transmuter::ops
// NOLINTEND(performance-unnecessary-value-param)
