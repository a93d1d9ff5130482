// convert, bitcast_convert. Conversions of elements follow Tensor::cast: float to integer truncates and saturates, NaN
// gives 0, integers wrap around, everything but 0 is true.
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/vjp.h"
#include "tensor/packed.h"

namespace transmuter::ir {

namespace {

bool is_element(DType dtype) { return dtype != DType::invalid && dtype != DType::string; }

std::vector<Type> infer_convert(const InferContext& c) {
  check_operand_count(c, 1);
  DType from = c.operands[0].dtype, to = c.as<ConvertAttributes>().dtype;
  c.check(is_element(from) && is_element(to), "I1", "cannot convert ", name(from), " to ", name(to));
  c.check(!is_complex(from) || is_complex(to), "I1", "cannot convert ", name(from), " to ", name(to));
  return {{to, c.operands[0].shape}};
}

std::vector<Type> infer_bitcast(const InferContext& c) {
  check_operand_count(c, 1);
  DType from = c.operands[0].dtype, to = c.as<ConvertAttributes>().dtype;
  c.check(is_element(from) && is_element(to) && bit_width(from) == bit_width(to), "C1", "element types ", name(from),
          " and ", name(to), " must have equal widths");
  c.check((from == DType::boolean) == (to == DType::boolean), "C2", "bool has no bits to cast");
  return {{to, c.operands[0].shape}};
}

// The operand in its own dtype again: packed dtypes come unpacked.
Tensor stored(const EvaluateContext& c) {
  DType dtype = c.operand_type(0).dtype;
  return is_packed(dtype) ? pack(c.operands[0], dtype) : c.operands[0];
}

void evaluate_convert(EvaluateContext& c) {
  c.results.push_back(unpack(stored(c).cast(c.as<ConvertAttributes>().dtype)));
}

void evaluate_bitcast(EvaluateContext& c) {
  c.results.push_back(unpack(stored(c).bitcast(c.as<ConvertAttributes>().dtype)));
}

}  // namespace

namespace prim {

constinit const Primitive convert = {
    .name = "convert", .infer = infer_convert, .evaluate = evaluate_convert, .vjp = vjp::convert, .elementwise = true};
constinit const Primitive bitcast_convert = {
    .name = "bitcast_convert", .infer = infer_bitcast, .evaluate = evaluate_bitcast, .elementwise = true};

}  // namespace prim

Value Builder::convert(Value x, DType to) {
  if (dtype(x) == to) return x;
  return emit1(prim::convert, {x}, std::make_shared<ConvertAttributes>(to));
}
Value Builder::bitcast_convert(Value x, DType to) {
  if (dtype(x) == to) return x;
  return emit1(prim::bitcast_convert, {x}, std::make_shared<ConvertAttributes>(to));
}

}  // namespace transmuter::ir
