// Ops whose sizes, starts or limits only the run knows, in StableHLO's dynamic forms; branches and loops.
#include <algorithm>

#include "ir/composites/composites.h"
#include "ir/primitives/primitives.h"
#include "ir/print_function.h"

namespace transmuter::ir {
namespace {

constexpr char kInteger[] = "tensor<i64>";

}  // namespace

bool FunctionPrinter::print_dynamic(const Op& op) {
  const Primitive* p = op.primitive;
  const std::vector<std::string> results = types_of(op.results);
  std::vector<std::string> operands = names_of(op.operands), types = types_of(op.operands);
  const auto also = [&](const std::string& vector, size_t rank) {
    operands.push_back(vector);
    types.push_back(str("tensor<", rank, "xi64>"));
  };
  const auto as = [&](const char* name, const std::string& attributes) {
    define(op, {emit(name, operands, types, results[0], attributes)}, results);
    return true;
  };
  if (p == &prim::broadcast_in_dim) {
    const auto& a = op.as<BroadcastInDimAttributes>();
    also(vector_of(a.shape), a.shape.size());
    return as("stablehlo.dynamic_broadcast_in_dim", "broadcast_dimensions = " + array_text(a.dimensions));
  }
  if (p == &prim::reshape) {
    const Dims& shape = op.as<ReshapeAttributes>().shape;
    also(vector_of(shape), shape.size());
    return as("stablehlo.dynamic_reshape", "");
  }
  if (p == &prim::iota) {
    const auto& a = op.as<IotaAttributes>();
    also(vector_of(a.shape), a.shape.size());
    return as("stablehlo.dynamic_iota", str("iota_dimension = ", a.dimension, " : i64"));
  }
  if (p == &prim::slice) {
    const auto& a = op.as<SliceAttributes>();
    for (const Dims* dims : {&a.start, &a.limit, &a.stride}) also(vector_of(*dims), dims->size());
    return as("stablehlo.real_dynamic_slice", "");
  }
  if (p == &prim::pad) {
    const auto& a = op.as<PadAttributes>();
    for (const Dims* dims : {&a.low, &a.high, &a.interior}) also(vector_of(*dims), dims->size());
    return as("stablehlo.dynamic_pad", "");
  }
  if (p == &prim::gather) {
    const auto& a = op.as<GatherAttributes>();
    also(vector_of(a.slice_sizes), a.slice_sizes.size());
    return as("stablehlo.dynamic_gather", gather_text(a) + ", indices_are_sorted = false");
  }
  if (p == &prim::dynamic_slice) {
    // real_dynamic_slice does not clamp.
    const Dims &sizes = op.as<DynamicSliceAttributes>().sizes, &shape = program_.type(op.operands[0]).shape;
    std::vector<std::string> starts, limits;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::string size = scalar(sizes[i]);
      const std::string last = binary("stablehlo.subtract", scalar(shape[i]), size, kInteger);
      const std::string given = cast(operands[i + 1], types[i + 1], kInteger);
      const std::string start = binary("stablehlo.minimum", given, last, kInteger);
      starts.push_back(binary("stablehlo.maximum", start, integer(0), kInteger));
      limits.push_back(binary("stablehlo.add", starts.back(), size, kInteger));
    }
    operands.resize(1), types.resize(1);
    also(vector_of(starts), sizes.size());
    also(vector_of(limits), sizes.size());
    also(vector_of(Dims(sizes.size(), Dim(1))), sizes.size());
    return as("stablehlo.real_dynamic_slice", "");
  }
  if (p == &prim::dim_value) {
    const auto& a = op.as<DimValueAttributes>();
    const std::string value = a.is_real ? real(a.real.expr(), RealDType::f64) : scalar(a.dim);
    define(op, {cast(value, a.is_real ? "tensor<f64>" : kInteger, results[0])}, results);
    return true;
  }
  return false;
}

// The branches of StableHLO's case take no arguments: they read what is around them.
void FunctionPrinter::print_case(const Op& op) {
  std::vector<std::string> outside, types = types_of(op.operands), results = types_of(op.results);
  for (const Value operand : op.operands) outside.push_back(from_inside(name(operand)));
  const std::vector<std::string> given(outside.begin() + 1, outside.end()), of_types(types.begin() + 1, types.end());
  std::string regions;
  for (const ProgramPtr& branch : op.regions) {
    FunctionPrinter inner(*branch, bindings_, this);
    inner.name_parameters(given, of_types);
    inner.ops();
    std::vector<std::string> values;
    for (size_t i = 0; i < results.size(); ++i) {
      const Value value = branch->results()[i];
      values.push_back(inner.cast(inner.name(value), inner.type_text(value), results[i]));
    }
    inner.terminator("stablehlo.return", values, results);
    regions += (regions.empty() ? "(" : ", ") + region("", inner.text_);
  }
  define(op, emit_all("stablehlo.case", {name(op.operands[0])}, {types[0]}, results, "", regions + ")"), results);
}

void FunctionPrinter::print_while(const Op& op) {
  const std::vector<std::string> types = types_of(op.operands);
  std::string arguments;
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(str("%arg", i));
    arguments += str(i ? ", " : "", names.back(), ": ", types[i]);
  }
  std::string regions;
  for (const ProgramPtr& program : op.regions) {
    FunctionPrinter inner(*program, bindings_, this);
    inner.name_parameters(names, types);
    inner.ops();
    std::vector<std::string> values = inner.names_of(program->results()), made = inner.result_types();
    if (program == op.regions[1])
      for (size_t i = 0; i < values.size(); ++i) values[i] = inner.cast(values[i], made[i], types[i]);
    inner.terminator("stablehlo.return", values, program == op.regions[1] ? types : made);
    regions += (regions.empty() ? "(" : ", ") + region(arguments, inner.text_);
  }
  define(op, emit_all("stablehlo.while", names_of(op.operands), types, types, "", regions + ")"), types);
}

// An empty tensor to which rows are appended: along a new first axis (-1), or along one of theirs.
FunctionPrinter::Carry FunctionPrinter::no_rows(const Type& row, int64_t axis) {
  Dims shape = row.shape;
  if (axis < 0) shape.insert(shape.begin(), Dim(0));
  const size_t grows = axis < 0 ? 0 : static_cast<size_t>(axis);
  shape[grows] = 0;
  std::string type = "tensor<";
  for (size_t i = 0; i < shape.size(); ++i)
    type += i == grows || !is_fixed(shape[i]) ? "?x" : str(number(shape[i]), "x");
  type += element_type_text(row.dtype) + ">";
  const std::string element = tensor_type_text(row.dtype, {});
  const std::string zero =
      emit("stablehlo.constant", {}, {}, element, "value = " + dense_text(Tensor::zeros(row.dtype, {})));
  const std::vector<std::string> operands{zero, vector_of(shape)};
  return {emit("stablehlo.dynamic_broadcast_in_dim", operands, {element, str("tensor<", shape.size(), "xi64>")}, type,
               "broadcast_dimensions = array<i64>"),
          type};
}

// A while over (t, condition, states, rows, their lengths) that reads the rest around it; false where rows have sizes
// that no trip before them knows.
bool FunctionPrinter::print_loop(const Op& op) {
  const auto& loop = op.as<LoopAttributes>();
  const Program& body = *op.regions[0];
  const size_t conditions = loop.has_condition ? 1 : 0, carried = static_cast<size_t>(loop.carried);
  const size_t first_row = conditions + carried;
  FunctionPrinter inner(body, bindings_, this);

  // Symbols that a trip defines: what it runs, and what states of changing sizes bring.
  std::vector<int32_t> inside = symbols_defined_in(body);
  for (const auto& [symbol, source] : inner.sources_)
    if (!knows(symbol)) inside.push_back(symbol);
  for (size_t k = 0; k < loop.row_axes.size(); ++k) {
    const Dims& row = body.type(body.results()[first_row + k]).shape;
    for (size_t axis = 0; axis < row.size(); ++axis) {
      if (row[axis].is_constant() || static_cast<int64_t>(axis) == loop.row_axes[k]) continue;
      for (const int32_t symbol : program_.scope()->symbols_of(row[axis].expr()))
        if (std::find(inside.begin(), inside.end(), symbol) != inside.end()) return false;
    }
  }
  std::vector<Carry> carries{{integer(0), kInteger}};
  if (loop.has_condition) carries.push_back({name(op.operands[0]), "tensor<i1>"});
  for (size_t k = 0; k < carried; ++k) {
    const Value before = op.operands[conditions + k];
    const std::string type = inner.type_text(body.parameters()[k + 1].value);
    carries.push_back({cast(name(before), type_text(before), type), type});
  }
  for (size_t k = 0; k < loop.row_axes.size(); ++k) {
    carries.push_back(no_rows(body.type(body.results()[first_row + k]), loop.row_axes[k]));
    if (loop.row_axes[k] >= 0) carries.push_back(no_rows({DType::i64, {}}, -1));
  }

  std::string arguments;
  std::vector<std::string> names, types, values;
  for (size_t i = 0; i < carries.size(); ++i) {
    names.push_back(str("%arg", i));
    types.push_back(carries[i].type);
    values.push_back(carries[i].value);
    arguments += str(i ? ", " : "", names.back(), ": ", types.back());
  }
  const size_t first_state = 1 + conditions;

  FunctionPrinter test(body, bindings_, this);  // of which nothing but the terminator is printed
  std::string more = loop.has_condition ? names[1] : "";
  if (!loop.trips.empty()) {
    const std::string left = test.compared("LT", names[0], from_inside(scalar(loop.trips[0])), kInteger);
    more = more.empty() ? left : test.binary("stablehlo.and", more, left, "tensor<i1>");
  } else if (more.empty()) {
    more = test.emit("stablehlo.constant", {}, {}, "tensor<i1>", "value = dense<true> : tensor<i1>");
  }
  test.terminator("stablehlo.return", {more}, {"tensor<i1>"});

  std::vector<std::string> given{names[0]}, given_types{types[0]};
  for (size_t k = 0; k < carried; ++k) {
    given.push_back(names[first_state + k]);
    given_types.push_back(types[first_state + k]);
  }
  for (size_t i = first_row; i < op.operands.size(); ++i) {
    given.push_back(from_inside(name(op.operands[i])));
    given_types.push_back(type_text(op.operands[i]));
  }
  inner.name_parameters(given, given_types);
  inner.ops();
  std::vector<std::string> next{inner.binary("stablehlo.add", names[0], inner.integer(1), kInteger)};
  for (size_t k = 0; k < first_row; ++k) {
    const Value value = body.results()[k];
    next.push_back(inner.cast(inner.name(value), inner.type_text(value), types[1 + k]));
  }
  for (size_t k = 0, at = first_state + carried; k < loop.row_axes.size(); ++k) {
    const Value value = body.results()[first_row + k];
    const int64_t axis = loop.row_axes[k];
    std::string row = inner.name(value), type = inner.type_text(value);
    if (axis < 0) {
      Type one = body.type(value);
      one.shape.insert(one.shape.begin(), Dim(1));
      const std::string from = std::exchange(type, inner.type_text(one));
      row = inner.is_fixed(one) ? inner.emit("stablehlo.reshape", {row}, {from}, type)
                                : inner.emit("stablehlo.dynamic_reshape", {row, inner.vector_of(one.shape)},
                                             {from, str("tensor<", one.shape.size(), "xi64>")}, type);
    }
    next.push_back(inner.emit("stablehlo.concatenate", {names[at], row}, {types[at], type}, types[at],
                              str("dimension = ", std::max<int64_t>(axis, 0), " : i64")));
    ++at;
    if (axis < 0) continue;
    const std::string length =
        inner.emit("stablehlo.reshape", {inner.scalar(body.type(value).shape[static_cast<size_t>(axis)])}, {kInteger},
                   "tensor<1xi64>");
    next.push_back(inner.emit("stablehlo.concatenate", {names[at], length}, {types[at], "tensor<1xi64>"}, types[at],
                              "dimension = 0 : i64"));
    ++at;
  }
  inner.terminator("stablehlo.return", next, types);

  const std::string regions = str("(", region(arguments, test.text_), ", ", region(arguments, inner.text_), ")");
  const std::vector<std::string> out = emit_all("stablehlo.while", values, types, types, "", regions);
  define(op, {out.begin() + static_cast<ptrdiff_t>(first_state), out.end()},
         {types.begin() + static_cast<ptrdiff_t>(first_state), types.end()});
  return true;
}

}  // namespace transmuter::ir
