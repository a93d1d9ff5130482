#include "onnx/value_proto.h"

#include <protozero/pbf_writer.hpp>

#include "onnx/tensor_proto.h"
#include "onnx/wire.h"
#include "tensor/pieces.h"

namespace transmuter::onnx {
namespace {

constexpr int kMaxDepth = 64;

// SequenceProto.DataType and OptionalProto.DataType.
enum class ElementKind : int32_t { undefined, tensor, sparse_tensor, sequence, map, optional };

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_input, sentence); }

Value parse_sequence(std::string_view message, const Source& source, int depth);

// All entries of one kind, at most: the wire keeps order within a kind only.
void check_kind(ElementKind declared, ElementKind held) {
  if (declared != ElementKind::undefined && held != ElementKind::undefined && declared != held)
    refuse(str("a value says that its elements are of kind ", static_cast<int>(declared), ", but holds kind ",
               static_cast<int>(held)));
}

Value parse_map(std::string_view message, const Source& source, int depth) {
  if (depth > kMaxDepth) refuse(str("a value is nested deeper than ", kMaxDepth, " levels"));
  int32_t key_type = 0;
  std::vector<int64_t> keys;
  std::vector<std::string> string_keys;
  Value values;
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 2:
        key_type = fields.int32();
        break;
      case 3:
        fields.each_int64([&](int64_t key) { keys.push_back(key); });
        break;
      case 4:
        string_keys.push_back(fields.text());
        break;
      case 5:
        values = parse_sequence(fields.bytes(), source, depth + 1);
        break;
      default:
        fields.skip();
    }
  }
  const bool by_string = dtype_of_number(key_type) == DType::string;
  if (by_string ? !keys.empty() : !string_keys.empty()) refuse("a map has keys of two types");
  const int64_t count = static_cast<int64_t>(by_string ? string_keys.size() : keys.size());
  if (static_cast<int64_t>(values.items.size()) != count)
    refuse(str("a map has ", count, " keys and ", values.items.size(), " values"));
  Value map;
  map.kind = Value::Kind::map;
  map.keys = by_string ? Tensor::of_strings(std::move(string_keys), {count}) : Tensor(keys, {count});
  if (count == 0) return map;
  // The values stand beside the keys in one tensor: each must be one element.
  const DType dtype = values.items[0].tensor.dtype();
  std::vector<std::string> strings;
  std::string bytes;
  for (const Value& item : values.items) {
    if (!item.is_tensor() || item.tensor.size() != 1 || item.tensor.dtype() != dtype || is_packed(dtype))
      throw Error(ErrorCode::unsupported, "maps are supported with scalars of one type as values only");
    if (dtype == DType::string)
      strings.push_back(item.tensor.strings()[0]);
    else
      bytes.append(reinterpret_cast<const char*>(item.tensor.bytes()), item.tensor.nbytes());
  }
  if (dtype == DType::string) {
    map.tensor = Tensor::of_strings(std::move(strings), {count});
  } else {
    map.tensor = Tensor(dtype, {count});
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(map.tensor.mutable_bytes()));
  }
  return map;
}

// SequenceProto and OptionalProto number their fields alike; `container` is empty, and of the kind that `message`
// holds.
Value parse_container(Value container, std::string_view message, const Source& source, int depth) {
  if (depth > kMaxDepth) refuse(str("a value is nested deeper than ", kMaxDepth, " levels"));
  ElementKind declared = ElementKind::undefined;
  ElementKind held = ElementKind::undefined;
  const auto add = [&](ElementKind kind, Value value) {
    if (container.kind == Value::Kind::optional && !container.items.empty()) refuse("an optional holds two values");
    check_kind(held, kind);
    held = kind;
    container.items.push_back(std::move(value));
  };
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 2:
        declared = static_cast<ElementKind>(fields.int32());
        break;
      case 3:
        add(ElementKind::tensor, parse_tensor(fields.bytes(), source).tensor);
        break;
      case 4:
        add(ElementKind::sparse_tensor, parse_sparse_tensor(fields.bytes(), source).tensor);
        break;
      case 5:
        add(ElementKind::sequence, parse_sequence(fields.bytes(), source, depth + 1));
        break;
      case 6:
        add(ElementKind::map, parse_map(fields.bytes(), source, depth + 1));
        break;
      case 7:
        add(ElementKind::optional, parse_container(Value::optional({}), fields.bytes(), source, depth + 1));
        break;
      default:
        fields.skip();
    }
  }
  check_kind(declared, held);
  if (!container.items.empty() && container.items[0].is_tensor()) container.element = container.items[0].tensor.dtype();
  return container;
}

Value parse_sequence(std::string_view message, const Source& source, int depth) {
  return parse_container(Value::sequence({}), message, source, depth);
}

// The element dtype of an empty container comes from its declaration.
void take_element(const ValueInfo& declared, Value& value) {
  const ValueInfo* info = &declared;
  while (info->element && info->kind != ValueInfo::Kind::tensor) info = info->element.get();
  if (value.element == DType::invalid && info->kind == ValueInfo::Kind::tensor) value.element = info->dtype;
}

Value parse_from(std::string_view bytes, const ValueInfo& declared, const Source& source) {
  switch (declared.kind) {
    case ValueInfo::Kind::tensor:
      return parse_tensor(bytes, source).tensor;
    case ValueInfo::Kind::sequence:
    case ValueInfo::Kind::optional: {
      Value value = parse_container(
          declared.kind == ValueInfo::Kind::sequence ? Value::sequence({}) : Value::optional({}), bytes, source, 0);
      take_element(declared, value);
      return value;
    }
    case ValueInfo::Kind::map:
      return parse_map(bytes, source, 0);
    default:
      refuse(str("the value \"", declared.name, "\" has no declared type, so its file cannot be read"));
  }
}

ElementKind kind_of(const Value& value) {
  switch (value.kind) {
    case Value::Kind::tensor:
      return ElementKind::tensor;
    case Value::Kind::sequence:
      return ElementKind::sequence;
    case Value::Kind::map:
      return ElementKind::map;
    case Value::Kind::optional:
      return ElementKind::optional;
    case Value::Kind::none:
      break;
  }
  refuse("there is no value to write");
}

// The field of a SequenceProto or OptionalProto that holds values of a kind.
uint32_t field_of(ElementKind kind) { return static_cast<uint32_t>(kind) + 2; }

// The scalars of a list as a SequenceProto.
std::string serialize_list(const Tensor& values) {
  Value list = Value::sequence({});
  for (int64_t i = 0; i < values.size(); ++i) list.items.emplace_back(row_of(values, 0, i));
  return serialize_value(list, "");
}

std::string serialize_map(const Value& map, const std::string& name) {
  std::string out;
  protozero::pbf_writer writer(out);
  if (!name.empty()) writer.add_string(1, name);
  writer.add_int32(2, number_of_dtype(map.keys.dtype()));
  if (map.keys.dtype() == DType::string) {
    for (const std::string& key : map.keys.strings()) writer.add_bytes(4, key);
  } else {
    const std::vector<int64_t> keys = map.keys.aligned().cast(DType::i64).to_vector<int64_t>();
    writer.add_packed_int64(3, keys.begin(), keys.end());
  }
  writer.add_message(5, serialize_list(map.tensor));
  return out;
}

}  // namespace

std::string serialize_value(const Value& value, const std::string& name) {
  if (kind_of(value) == ElementKind::tensor) return serialize_tensor(value.tensor, name);
  if (value.kind == Value::Kind::map) return serialize_map(value, name);
  std::string out;
  protozero::pbf_writer writer(out);
  if (!name.empty()) writer.add_string(1, name);
  ElementKind kind = value.element == DType::invalid ? ElementKind::undefined : ElementKind::tensor;
  if (!value.items.empty()) kind = kind_of(value.items[0]);
  writer.add_int32(2, static_cast<int32_t>(kind));
  for (const Value& item : value.items) {
    if (kind_of(item) != kind) refuse("the elements of a sequence are of different kinds");
    writer.add_message(field_of(kind), serialize_value(item, ""));
  }
  return out;
}

std::string read_value_name(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);  // names the file itself where it fails
  return within([&] { return str("file ", path); },
                [&] {
                  // TensorProto has its name in field 8, the containers in field 1, which holds numbers in TensorProto.
                  std::string first;
                  Fields fields(file->view());
                  while (fields.next()) {
                    if (fields.field() == 8 && fields.is_bytes()) return fields.text();
                    if (fields.field() == 1 && fields.is_bytes())
                      first = fields.text();
                    else
                      fields.skip();
                  }
                  return first;
                });
}

Value read_value_file(const std::string& path, const ValueInfo& declared) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return within([&] { return str("file ", path); },
                [&] {
                  return parse_from(file->view(), declared, {file, nullptr});
                });
}

Value parse_value(std::string_view bytes, const ValueInfo& declared) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return within([] { return std::string("a value in memory"); },
                [&] {
                  return parse_from(*copy, declared, {copy, nullptr});
                });
}

Tensor read_tensor_file(const std::string& path) {
  ValueInfo declared;
  declared.kind = ValueInfo::Kind::tensor;
  return read_value_file(path, declared).tensor;
}

void write_value_file(const std::string& path, const Value& value, const std::string& name) {
  write_file(path, serialize_value(value, name));
}

void write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name) {
  write_file(path, serialize_tensor(tensor, name));
}

}  // namespace transmuter::onnx
