// Sizes that only the run knows, as ops over the extents and values that define them: 0-d i64.
#include <bit>

#include "base/dim_table.h"
#include "ir/print_function.h"

namespace transmuter::ir {
namespace {

constexpr char kInteger[] = "tensor<i64>";
constexpr char kTruth[] = "tensor<i1>";

const Table& table_of(const Program& program) { return program.scope()->impl().table; }

DType dtype_of(RealDType dtype) {
  switch (dtype) {
    case RealDType::f16:
      return DType::f16;
    case RealDType::bf16:
      return DType::bf16;
    case RealDType::f32:
      return DType::f32;
    case RealDType::f64:
      break;
  }
  return DType::f64;
}

std::string type_of(RealDType dtype) { return tensor_type_text(dtype_of(dtype), {}); }

const char* op_of(RealOp op) {
  switch (op) {
    case RealOp::add:
      return "stablehlo.add";
    case RealOp::sub:
      return "stablehlo.subtract";
    case RealOp::mul:
      return "stablehlo.multiply";
    case RealOp::div:
    case RealOp::reciprocal:
      return "stablehlo.divide";
    case RealOp::pow:
      return "stablehlo.power";
    case RealOp::min:
      return "stablehlo.minimum";
    case RealOp::max:
      return "stablehlo.maximum";
    case RealOp::neg:
      return "stablehlo.negate";
    case RealOp::abs:
      return "stablehlo.abs";
    case RealOp::floor:
      return "stablehlo.floor";
    case RealOp::ceil:
      return "stablehlo.ceil";
    case RealOp::round:
      return "stablehlo.round_nearest_even";
    case RealOp::sqrt:
      return "stablehlo.sqrt";
    case RealOp::exp:
      return "stablehlo.exponential";
    case RealOp::log:
      return "stablehlo.log";
    case RealOp::cast:
      break;
  }
  return "stablehlo.convert";
}

}  // namespace

bool FunctionPrinter::is_fixed(ExprId expr) {
  for (const int32_t s : program_.scope()->symbols_of(expr))
    if (!bindings_->has(s)) return false;
  return true;
}

bool FunctionPrinter::is_fixed(const Dims& dims) {
  for (const Dim dim : dims)
    if (!is_fixed(dim)) return false;
  return true;
}

std::string FunctionPrinter::integer(int64_t value) {
  return emit("stablehlo.constant", {}, {}, kInteger, str("value = dense<", value, "> : ", kInteger));
}

std::string FunctionPrinter::scalar(Dim dim) { return is_fixed(dim) ? integer(number(dim)) : expression(dim.expr()); }

std::string FunctionPrinter::vector_of(const std::vector<std::string>& scalars) {
  std::vector<std::string> pieces;
  for (const std::string& one : scalars)
    pieces.push_back(emit("stablehlo.reshape", {one}, {kInteger}, "tensor<1xi64>"));
  if (pieces.size() == 1) return pieces[0];
  const std::vector<std::string> types(pieces.size(), "tensor<1xi64>");
  return emit("stablehlo.concatenate", pieces, types, str("tensor<", pieces.size(), "xi64>"), "dimension = 0 : i64");
}

std::string FunctionPrinter::vector_of(const Dims& dims) {
  if (!is_fixed(dims)) {
    std::vector<std::string> scalars;
    for (const Dim dim : dims) scalars.push_back(scalar(dim));
    return vector_of(scalars);
  }
  std::vector<int64_t> values;
  for (const Dim dim : dims) values.push_back(number(dim));
  const Tensor tensor(values, {static_cast<int64_t>(values.size())});
  return emit("stablehlo.constant", {}, {}, tensor_type_text(DType::i64, tensor.shape()),
              "value = " + dense_text(tensor));
}

std::optional<std::string> FunctionPrinter::known(ExprId expr) const {
  if (const auto found = expressions_.find(expr); found != expressions_.end()) return found->second;
  if (!around_) return {};
  const std::optional<std::string> outside = around_->known(expr);
  return outside ? std::optional<std::string>(from_inside(*outside)) : std::nullopt;
}

std::string FunctionPrinter::binary(const char* op, const std::string& a, const std::string& b,
                                    const std::string& type) {
  return emit(op, {a, b}, {type, type}, type);
}

std::string FunctionPrinter::compared(const char* direction, const std::string& a, const std::string& b,
                                      const std::string& type) {
  return emit("stablehlo.compare", {a, b}, {type, type}, kTruth,
              str("comparison_direction = #stablehlo<comparison_direction ", direction, ">"));
}

std::string FunctionPrinter::expression(ExprId expr) {
  if (is_fixed(expr)) return integer(bindings_->evaluate_expr(expr));
  if (const std::optional<std::string> found = known(expr)) return *found;
  const Table& table = table_of(program_);
  const Node& node = table.nodes[expr];
  const auto truth = [&](const std::string& bit) { return emit("stablehlo.convert", {bit}, {kTruth}, kInteger); };
  std::string a, b, value;
  if (node.kind == Kind::floor_div || node.kind == Kind::min || node.kind == Kind::max) {
    a = expression(node.a);
    b = expression(node.b);
  }
  switch (node.kind) {
    case Kind::symbol:
      value = symbol(static_cast<int32_t>(node.a));
      break;
    case Kind::sum:
      for (uint32_t t = node.a; t < node.a + node.b; ++t) {
        const Term& term = table.term_pool[t];
        std::string product;
        for (size_t i = 0; i < table.degree(term.mono); ++i) {
          const std::string atom = expression(table.atoms(term.mono)[i]);
          product = product.empty() ? atom : binary("stablehlo.multiply", product, atom, kInteger);
        }
        if (product.empty()) {
          product = integer(term.coefficient);
        } else if (term.coefficient != 1) {
          product = binary("stablehlo.multiply", product, integer(term.coefficient), kInteger);
        }
        value = value.empty() ? product : binary("stablehlo.add", value, product, kInteger);
      }
      break;
    case Kind::floor_div:
      value = floor_quotient(a, b);
      break;
    case Kind::min:
      value = binary("stablehlo.minimum", a, b, kInteger);
      break;
    case Kind::max:
      value = binary("stablehlo.maximum", a, b, kInteger);
      break;
    case Kind::is_zero:
    case Kind::is_nonneg:
      a = expression(node.a);
      value = truth(compared(node.kind == Kind::is_zero ? "EQ" : "GE", a, integer(0), kInteger));
      break;
    case Kind::select:
      a = expression(node.a);
      value =
          emit("stablehlo.select", {compared("NE", a, integer(0), kInteger), expression(node.b), expression(node.c)},
               {kTruth, kInteger, kInteger}, kInteger);
      break;
    case Kind::dim_from:
      value = emit("stablehlo.convert", {real(node.a, RealDType::f64)}, {type_of(RealDType::f64)}, kInteger);
      break;
    case Kind::real_equal:
    case Kind::real_less:
    case Kind::real_less_equal: {
      const char* direction = node.kind == Kind::real_equal ? "EQ" : node.kind == Kind::real_less ? "LT" : "LE";
      a = real(node.a, RealDType::f64);
      b = real(node.b, RealDType::f64);
      value = truth(compared(direction, a, b, type_of(RealDType::f64)));
      break;
    }
    default:
      throw Error(ErrorCode::internal, "a float stands for a size");
  }
  expressions_.emplace(expr, value);
  return value;
}

std::string FunctionPrinter::symbol(int32_t index) {
  const auto found = sources_.find(index);
  if (found == sources_.end()) {
    const Symbol& symbol = program_.scope()->symbols()[static_cast<size_t>(index)];
    if (!around_) throw Error(ErrorCode::internal, str("nothing in the program defines the size ", symbol.name));
    return from_inside(around_->expression(symbol.expr));
  }
  const Source& source = found->second;
  if (source.is_extent) {
    const std::string size = emit("stablehlo.get_dimension_size", {source.value}, {source.type}, "tensor<i32>",
                                  str("dimension = ", source.index, " : i64"));
    return emit("stablehlo.convert", {size}, {"tensor<i32>"}, kInteger);
  }
  // An element of a few integers.
  if (source.type == kInteger) return source.value;
  const std::string one = emit("stablehlo.slice", {source.value}, {source.type}, "tensor<1xi64>",
                               str("limit_indices = array<i64: ", source.index + 1,
                                   ">, start_indices = array<i64: ", source.index, ">, strides = array<i64: 1>"));
  return emit("stablehlo.reshape", {one}, {"tensor<1xi64>"}, kInteger);
}

// StableHLO's division truncates.
std::string FunctionPrinter::floor_quotient(const std::string& a, const std::string& b) {
  const std::string zero = integer(0), one = integer(1);
  const std::string quotient = binary("stablehlo.divide", a, b, kInteger);
  const std::string rest = binary("stablehlo.remainder", a, b, kInteger);
  const std::string uneven = compared("NE", rest, zero, kInteger);
  const std::string sign = emit("stablehlo.sign", {rest}, {kInteger}, kInteger);
  const std::string signs = compared("NE", sign, emit("stablehlo.sign", {b}, {kInteger}, kInteger), kInteger);
  const std::string below = binary("stablehlo.subtract", quotient, one, kInteger);
  const std::string off = binary("stablehlo.and", uneven, signs, kTruth);
  return emit("stablehlo.select", {off, below, quotient}, {kTruth, kInteger, kInteger}, kInteger);
}

// Of the dtype that its operation has, converted to another.
std::string FunctionPrinter::real(ExprId expr, RealDType as) {
  const Node& node = table_of(program_).nodes[expr];
  if (node.kind == Kind::real_constant || is_fixed(expr)) {
    const double value = node.kind == Kind::real_constant ? std::bit_cast<double>(node.value)
                                                          : std::bit_cast<double>(bindings_->evaluate_expr(expr));
    const Tensor tensor = Tensor(std::vector<double>{value}, {}).cast(dtype_of(as));
    return emit("stablehlo.constant", {}, {}, type_of(as), "value = " + dense_text(tensor));
  }
  std::string value;
  if (const std::optional<std::string> found = known(expr)) {
    value = *found;
  } else {
    value = real_operation(expr);
    expressions_.emplace(expr, value);
  }
  return cast(value, type_of(node.dtype), type_of(as));
}

std::string FunctionPrinter::real_operation(ExprId expr) {
  const Node& node = table_of(program_).nodes[expr];
  const std::string type = type_of(node.dtype);
  if (node.kind == Kind::real_from) return emit("stablehlo.convert", {expression(node.a)}, {kInteger}, type);
  const std::string a = real(node.a, node.dtype);
  if (node.op == RealOp::cast) return a;
  if (node.op == RealOp::reciprocal) {
    const Tensor one = Tensor(std::vector<double>{1}, {}).cast(dtype_of(node.dtype));
    return binary(op_of(node.op), emit("stablehlo.constant", {}, {}, type, "value = " + dense_text(one)), a, type);
  }
  if (node.kind == Kind::real_unary) return emit(op_of(node.op), {a}, {type}, type);
  return binary(op_of(node.op), a, real(node.b, node.dtype), type);
}

}  // namespace transmuter::ir
