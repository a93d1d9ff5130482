// Constant and Dropout.
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

// Inference: the input as it is and a mask of ones. Training mode drops nothing only where the ratio is 0.
void dropout(OpContext& op) {
  // What only training reads: the seed, and the attributes of the opsets that told training by is_test.
  op.ignore_attributes({"seed", "consumed_inputs", "is_test"});
  if (op.version() < 12) {
    op.ignore_attributes({"ratio"});
  } else if (op.has_input(2) && op.require_int(2) != 0) {
    const double ratio = op.has_input(1) ? op.require_number(1) : 0.5;
    if (ratio != 0) op.unsupported("training mode with ratio ", ratio);
  }
  op.output(0, op.traced(0));
  if (!op.wants_output(1)) return;
  // Before opset 10 the mask had the data's dtype.
  const DType dtype = op.version() < 10 ? op.dtype(0) : DType::boolean;
  op.output(1, op.build().splat(dtype, 1, op.shape(0)));
}

}  // namespace

void register_constant(Registry& r) {
  r.add("Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, constant);
  r.add("Dropout", {1, 6, 7, 10, 12, 13, 22}, dropout, "", "inference; training mode only with ratio 0");
}

}  // namespace transmuter::ops
