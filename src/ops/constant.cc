// Constant.
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

void constant(OpContext& op) {
  op.check(op.node().attributes.size() == 1, "exactly one value attribute is needed, there are ",
           op.node().attributes.size());
  if (const auto tensor = op.attribute_tensor("value")) return op.output_constant(0, *tensor);
  if (const onnx::Attribute* sparse = op.attribute("sparse_value")) return op.output_constant(0, sparse->tensor);
  if (op.has_attribute("value_float")) return op.output_constant(0, Tensor::scalar(op.attribute_float("value_float")));
  if (op.has_attribute("value_int")) return op.output_constant(0, Tensor::scalar(op.attribute_int("value_int")));
  if (op.has_attribute("value_string"))
    return op.output_constant(0, Tensor::of_strings({op.attribute_string("value_string")}, {}));
  const auto list = [&](auto values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    op.output_constant(0, Tensor(values, shape));
  };
  if (op.has_attribute("value_floats")) return list(op.attribute_floats("value_floats", {}));
  if (const auto ints = op.attribute_ints_optional("value_ints")) return list(*ints);
  if (op.has_attribute("value_strings")) {
    std::vector<std::string> values = op.attribute_strings("value_strings", {});
    const Shape shape{static_cast<int64_t>(values.size())};
    return op.output_constant(0, Tensor::of_strings(std::move(values), shape));
  }
  op.invalid("no value attribute");
}

}  // namespace

void register_constant(Registry& r) { r.add("Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, constant); }

}  // namespace transmuter::ops
