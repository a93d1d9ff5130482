// constant, dim_value, iota, and the builder's shorthands for constants.
#include "base/dispatch.h"
#include "ir/builder.h"
#include "ir/primitives/evaluate_util.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/print.h"
#include "tensor/packed.h"

namespace transmuter::ir {

namespace {

Tensor scalar_of(double value, DType dtype) { return Tensor(std::vector<double>{value}, {}).cast(dtype); }
Tensor scalar_of(int64_t value, DType dtype) { return Tensor::scalar(value).cast(dtype); }

std::vector<Type> infer_constant(const InferContext& c) {
  check_operand_count(c, 0);
  const Tensor& value = c.as<ConstantAttributes>().value;
  c.check(value && value.dtype() != DType::string, "C1", "a constant needs a tensor of numbers");
  return {{value.dtype(), Dims(value.shape().begin(), value.shape().end())}};
}

void evaluate_constant(EvaluateContext& c) { c.results.push_back(unpack(c.as<ConstantAttributes>().value.aligned())); }

PrintedOp print_constant(const PrintContext& c) {
  PrintedOp out;
  out.attributes = "value = " + dense_text(c.op.as<ConstantAttributes>().value);
  return out;
}

std::vector<Type> infer_dim_value(const InferContext& c) {
  check_operand_count(c, 0);
  DType dtype = c.as<DimValueAttributes>().dtype;
  c.check(is_integer(dtype) || is_float(dtype) || dtype == DType::boolean, "C1", "cannot make ", name(dtype));
  return {{dtype, {}}};
}

void evaluate_dim_value(EvaluateContext& c) {
  const auto& a = c.as<DimValueAttributes>();
  c.results.push_back(unpack(a.is_real ? scalar_of(c.value(a.real), a.dtype) : scalar_of(c.value(a.dim), a.dtype)));
}

PrintedOp print_dim_value(const PrintContext& c) {
  const auto& a = c.op.as<DimValueAttributes>();
  double real = a.real.is_constant() || !c.bindings ? a.real.hint() : c.bindings->evaluate(a.real);
  PrintedOp out;
  out.name = "stablehlo.constant";
  out.attributes = "value = " + dense_text(a.is_real ? scalar_of(real, a.dtype) : scalar_of(c.value(a.dim), a.dtype));
  return out;
}

std::vector<Type> infer_iota(const InferContext& c) {
  check_operand_count(c, 0);
  const auto& a = c.as<IotaAttributes>();
  c.check(a.dimension >= 0 && a.dimension < static_cast<int64_t>(a.shape.size()), "C1", "iota_dimension ", a.dimension,
          " must lie in [0, ", a.shape.size(), ")");
  c.check(is_integer(a.dtype) || is_float(a.dtype) || is_complex(a.dtype), "C2", "cannot make ", name(a.dtype));
  return {{a.dtype, a.shape}};
}

void evaluate_iota(EvaluateContext& c) {
  const auto& a = c.as<IotaAttributes>();
  Tensor counts(DType::i64, c.result_shape());
  int64_t* out = counts.mutable_data<int64_t>();
  for_each_index(counts.shape(), [&](const auto& index) { *out++ = index[static_cast<size_t>(a.dimension)]; });
  c.results.push_back(unpack(counts.cast(a.dtype)));
}

PrintedOp print_iota(const PrintContext& c) {
  PrintedOp out;
  out.attributes = str("iota_dimension = ", c.op.as<IotaAttributes>().dimension, " : i64");
  return out;
}

}  // namespace

namespace prim {

constinit const Primitive constant = {
    .name = "constant", .infer = infer_constant, .evaluate = evaluate_constant, .print = print_constant};
constinit const Primitive dim_value = {
    .name = "dim_value", .infer = infer_dim_value, .evaluate = evaluate_dim_value, .print = print_dim_value};
constinit const Primitive iota = {.name = "iota", .infer = infer_iota, .evaluate = evaluate_iota, .print = print_iota};

}  // namespace prim

Value Builder::constant(Tensor value) {
  return emit1(prim::constant, {}, std::make_shared<ConstantAttributes>(std::move(value)));
}
Value Builder::scalar(DType dtype, double value) { return constant(scalar_of(value, dtype)); }
Value Builder::integer(DType dtype, int64_t value) { return constant(scalar_of(value, dtype)); }
Value Builder::splat(DType dtype, double value, Dims to) {
  return broadcast_in_dim(scalar(dtype, value), std::move(to), {});
}
Value Builder::like(Value x, double value) { return splat(dtype(x), value, shape(x)); }
Value Builder::dim_value(Dim dim, DType dtype) {
  if (dim.is_constant()) return integer(dtype, dim.hint());
  return emit1(prim::dim_value, {}, std::make_shared<DimValueAttributes>(dim, dtype));
}
Value Builder::real_value(Real real, DType dtype) {
  if (real.is_constant()) return scalar(dtype, real.hint());
  return emit1(prim::dim_value, {}, std::make_shared<DimValueAttributes>(real, dtype));
}
Value Builder::iota(DType dtype, Dims to, int64_t dimension) {
  return emit1(prim::iota, {}, std::make_shared<IotaAttributes>(dtype, std::move(to), dimension));
}

}  // namespace transmuter::ir
