#include "ir/primitives/reduction.h"

#include <limits>

#include "ir/primitives/walk.h"
#include "ir/print.h"

namespace transmuter::ir {

bool kind_takes(ReduceKind kind, DType dtype) {
  const bool integral = dtype == DType::boolean || (is_integer(dtype) && !is_packed(dtype));
  if (kind == ReduceKind::logical_and || kind == ReduceKind::logical_or) return integral;
  return integral || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

double identity_double(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::mul:
      return 1;
    case ReduceKind::min:
      return std::numeric_limits<double>::infinity();
    case ReduceKind::max:
      return -std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

int64_t identity_integer(ReduceKind kind, DType dtype) {
  const bool is_signed = is_signed_integer(dtype);
  const int width = dtype == DType::boolean ? 1 : bit_width(dtype);
  const uint64_t ones = ~uint64_t{0} >> (64 - width);
  switch (kind) {
    case ReduceKind::mul:
      return 1;
    case ReduceKind::min:
      return static_cast<int64_t>(is_signed ? ones >> 1 : ones);
    case ReduceKind::max:
      return is_signed ? -static_cast<int64_t>(ones >> 1) - 1 : 0;
    case ReduceKind::logical_and:
      return is_signed ? -1 : static_cast<int64_t>(ones);
    default:
      return 0;
  }
}

const char* stablehlo_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::add:
      return "stablehlo.add";
    case ReduceKind::mul:
      return "stablehlo.multiply";
    case ReduceKind::min:
      return "stablehlo.minimum";
    case ReduceKind::max:
      return "stablehlo.maximum";
    case ReduceKind::logical_and:
      return "stablehlo.and";
    default:
      return "stablehlo.or";
  }
}

std::string combine_region(const PrintContext& ctx, const char* op_name, DType dtype) {
  const std::string type = ctx.type_text({dtype, {}}), id = std::to_string(ctx.op.results[0].id);
  const std::string a = "%a_" + id, b = "%b_" + id, c = "%c_" + id;
  return str("({ ^bb0(", a, ": ", type, ", ", b, ": ", type, "): ", c, " = \"", op_name, "\"(", a, ", ", b, ") : (",
             type, ", ", type, ") -> ", type, " \"stablehlo.return\"(", c, ") : (", type, ") -> () })");
}

void add_identity_operand(const PrintContext& ctx, ReduceKind kind, DType dtype, PrintedOp& out) {
  Tensor identity(dtype, {});
  dispatch_accumulator(dtype, stablehlo_name(kind), [&]<class A>(TypeTag<A>) {
    store_elements(std::vector<A>{identity_of<A>(kind, dtype)}, identity);
  });
  const std::string type = ctx.type_text({dtype, {}}), name = "%cst_" + std::to_string(ctx.op.results[0].id);
  out.before += str(name, " = \"stablehlo.constant\"() {value = ", dense_text(identity), "} : () -> ", type);
  out.extra_operands.push_back(name);
  out.extra_operand_types.push_back(type);
}

}  // namespace transmuter::ir
