// The operators of sequence.cc on host values: what eager runs and sequences of unknown length or of strings use. Items
// are handed on, not copied; only cutting and joining touches elements.
#include "onnx/tensor_proto.h"
#include "ops/host_node.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "tensor/pieces.h"

// NOLINTBEGIN(performance-unnecessary-value-param): inputs by value, as HostRun has it
namespace transmuter::ops {
namespace {

using transmuter::Value;

[[noreturn]] void refuse(const onnx::Node& node, const std::string& what) {
  throw Error(ErrorCode::invalid_input, str(node.op_type, ": ", what));
}

Value& sequence_input(const onnx::Node& node, std::vector<Value>& inputs, size_t i) {
  if (!has_input(inputs, i)) refuse(node, str("input ", i, " is missing"));
  if (inputs[i].kind != Value::Kind::sequence) refuse(node, str("input ", i, " is not a sequence"));
  return inputs[i];
}

std::vector<int64_t> integers(const onnx::Node& node, const std::vector<Value>& inputs, size_t i) {
  const Tensor& x = tensor_input(node, inputs, i);
  if (x.dtype() != DType::i32 && x.dtype() != DType::i64)
    refuse(node, str("input ", i, " must be int32 or int64, is ", name(x.dtype())));
  return ops::integers(x);
}

// A position in [-length, limit), from the end where negative.
size_t position(const onnx::Node& node, const std::vector<Value>& inputs, size_t i, int64_t length, int64_t limit) {
  const std::vector<int64_t> given = integers(node, inputs, i);
  if (given.size() != 1) refuse(node, "the position must be one number");
  if (given[0] < -length || given[0] >= limit)
    refuse(node, str("position ", given[0], " is out of range for ", length, " items"));
  return static_cast<size_t>(given[0] < 0 ? given[0] + length : given[0]);
}

DType element_of(const Value& value) { return value.is_tensor() ? value.tensor.dtype() : value.element; }

void check_element(const onnx::Node& node, const Value& sequence, const Value& added) {
  const DType held = sequence.items.empty() ? sequence.element : element_of(sequence.items[0]);
  const DType dtype = element_of(added);
  if (held != DType::invalid && dtype != DType::invalid && held != dtype)
    refuse(node, str("a sequence of ", name(held), " cannot hold ", name(dtype)));
}

std::vector<Value> one(Value value) {
  std::vector<Value> values;
  values.push_back(std::move(value));
  return values;
}

std::vector<Value> construct(const onnx::Node& node, std::vector<Value> inputs) {
  Value sequence = Value::sequence({});
  if (inputs.empty()) refuse(node, "at least one input is needed");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!has_input(inputs, i)) refuse(node, str("input ", i, " is missing"));
    check_element(node, sequence, inputs[i]);
    sequence.element = element_of(inputs[i]);
    sequence.items.push_back(std::move(inputs[i]));
  }
  return one(std::move(sequence));
}

std::vector<Value> empty(const onnx::Node& node, std::vector<Value>) {
  Value sequence = Value::sequence({});
  sequence.element = onnx::dtype_of_number(static_cast<int32_t>(integer_attribute(node, "dtype", 1)));
  return one(std::move(sequence));
}

std::vector<Value> at(const onnx::Node& node, std::vector<Value> inputs) {
  std::vector<Value>& items = sequence_input(node, inputs, 0).items;
  const int64_t length = static_cast<int64_t>(items.size());
  return one(std::move(items[position(node, inputs, 1, length, length)]));
}

std::vector<Value> length(const onnx::Node& node, std::vector<Value> inputs) {
  return one(Tensor::scalar(static_cast<int64_t>(sequence_input(node, inputs, 0).items.size())));
}

std::vector<Value> insert(const onnx::Node& node, std::vector<Value> inputs) {
  Value& sequence = sequence_input(node, inputs, 0);
  if (!has_input(inputs, 1)) refuse(node, "input 1 is missing");
  check_element(node, sequence, inputs[1]);
  const int64_t length = static_cast<int64_t>(sequence.items.size());
  const size_t place = has_input(inputs, 2) ? position(node, inputs, 2, length, length + 1) : sequence.items.size();
  sequence.element = element_of(inputs[1]);
  sequence.items.insert(sequence.items.begin() + static_cast<ptrdiff_t>(place), std::move(inputs[1]));
  return one(std::move(sequence));
}

std::vector<Value> erase(const onnx::Node& node, std::vector<Value> inputs) {
  Value& sequence = sequence_input(node, inputs, 0);
  if (sequence.items.empty()) refuse(node, "the sequence is empty");
  const int64_t length = static_cast<int64_t>(sequence.items.size());
  const size_t place = has_input(inputs, 1) ? position(node, inputs, 1, length, length) : sequence.items.size() - 1;
  sequence.items.erase(sequence.items.begin() + static_cast<ptrdiff_t>(place));
  return one(std::move(sequence));
}

int64_t axis_of(const onnx::Node& node, int64_t rank, int64_t axis) {
  if (axis < -rank || axis >= rank) refuse(node, str("axis ", axis, " is out of range for rank ", rank));
  return axis < 0 ? axis + rank : axis;
}

// Lengths of the parts along an axis: equal ones of the given size (the last maybe shorter), or as listed; parts of 1
// without a split.
std::vector<int64_t> part_lengths(const onnx::Node& node, const std::vector<Value>& inputs, int64_t extent) {
  if (!has_input(inputs, 1)) return std::vector<int64_t>(static_cast<size_t>(extent), 1);
  const std::vector<int64_t> given = integers(node, inputs, 1);
  if (inputs[1].tensor.rank() == 1) {
    int64_t left = extent;
    for (const int64_t length : given) {
      if (length < 0 || length > left) refuse(node, str("the lengths ", str(given), " do not make up ", extent));
      left -= length;
    }
    if (left != 0) refuse(node, str("the lengths ", str(given), " do not make up ", extent));
    return given;
  }
  if (given.size() != 1 || given[0] < 1) refuse(node, "split must hold one positive number");
  std::vector<int64_t> lengths;
  for (int64_t left = extent; left > 0; left -= lengths.back()) lengths.push_back(std::min(left, given[0]));
  return lengths;
}

std::vector<Value> split(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& x = tensor_input(node, inputs, 0);
  const int64_t axis = axis_of(node, x.rank(), integer_attribute(node, "axis", 0));
  // Only where no split is given may the axis disappear.
  const bool keep = integer_attribute(node, "keepdims", 1) != 0 || has_input(inputs, 1);
  Value sequence = Value::sequence({});
  sequence.element = x.dtype();
  int64_t start = 0;
  for (const int64_t length : part_lengths(node, inputs, x.dim(axis))) {
    sequence.items.emplace_back(keep ? piece_of(x, axis, start, length) : row_of(x, axis, start));
    start += length;
  }
  return one(std::move(sequence));
}

std::vector<Value> concat(const onnx::Node& node, std::vector<Value> inputs) {
  const std::vector<Value>& items = sequence_input(node, inputs, 0).items;
  const bool added = integer_attribute(node, "new_axis", 0) != 0;
  const int64_t given = integer_attribute(node, "axis");
  if (items.empty()) refuse(node, "the sequence is empty");
  std::vector<Tensor> parts;
  for (const Value& item : items) {
    if (!item.is_tensor()) refuse(node, "an item is not a tensor");
    if (item.tensor.rank() != items[0].tensor.rank()) refuse(node, "items differ in rank");
    parts.push_back(item.tensor);
  }
  const int64_t axis = axis_of(node, parts[0].rank() + (added ? 1 : 0), given);
  return one(added ? stacked(std::move(parts), axis) : joined(parts, axis));
}

std::vector<Value> optional(const onnx::Node& node, std::vector<Value> inputs) {
  Value value = Value::optional({});
  if (has_input(inputs, 0)) {
    value.element = element_of(inputs[0]);
    value.items.push_back(std::move(inputs[0]));
  } else if (const onnx::Attribute* type = node.find("type")) {
    const onnx::ValueInfo* info = &type->type;
    while (info->element) info = info->element.get();
    value.element = info->dtype;
  }
  return one(std::move(value));
}

std::vector<Value> has_element(const onnx::Node&, std::vector<Value> inputs) {
  const bool has = has_input(inputs, 0) && (inputs[0].kind != Value::Kind::optional || !inputs[0].items.empty());
  Tensor result(DType::boolean, {});
  *result.mutable_bytes() = static_cast<std::byte>(has);
  return one(std::move(result));
}

std::vector<Value> get_element(const onnx::Node& node, std::vector<Value> inputs) {
  if (!has_input(inputs, 0)) refuse(node, "the input is missing");
  if (inputs[0].kind != Value::Kind::optional) return one(std::move(inputs[0]));
  if (inputs[0].items.empty()) refuse(node, "the optional is empty");
  return one(std::move(inputs[0].items[0]));
}

std::vector<Value> identity(const onnx::Node& node, std::vector<Value> inputs) {
  if (!has_input(inputs, 0)) refuse(node, "the input is missing");
  return one(std::move(inputs[0]));
}

}  // namespace

void register_sequence_host(Registry& r) {
  r.add_host("SequenceConstruct", {11}, construct);
  r.add_host("SequenceEmpty", {11}, empty);
  r.add_host("SequenceAt", {11}, at);
  r.add_host("SequenceLength", {11}, length);
  r.add_host("SequenceInsert", {11}, insert);
  r.add_host("SequenceErase", {11}, erase);
  r.add_host("SplitToSequence", {11, 24}, split);
  r.add_host("ConcatFromSequence", {11}, concat);
  r.add_host("Optional", {15, 28}, optional);
  r.add_host("OptionalHasElement", {15, 18, 28}, has_element);
  r.add_host("OptionalGetElement", {15, 18, 28}, get_element);
  r.add_host("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, identity);
}

}  // namespace transmuter::ops
// NOLINTEND(performance-unnecessary-value-param)
