#include "backends/pjrt/program.h"

#include <algorithm>
#include <set>

#include "backends/pjrt/products.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir/passes/attribute_record.h"
#include "ir/passes/copier.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/rescope.h"
#include "ir/passes/stablehlo_form.h"
#include "ir/primitives/primitives.h"
#include "tensor/packed.h"

namespace transmuter::pjrt {

using ir::Copier;
using ir::Op;
using ir::Parameter;
using ir::Program;
using ir::Value;

namespace {

bool any_on_data(const Dims& dims) { return std::any_of(dims.begin(), dims.end(), depends_on_data); }

bool region_needs_host(const Program& region) {
  return std::any_of(region.ops().begin(), region.ops().end(), [&](const Op& op) { return needs_host(region, op); });
}

// Cheap to make twice: follows from sizes alone.
bool is_free(const Op& op) {
  const ir::Primitive* p = op.primitive;
  return p == &ir::prim::constant || p == &ir::prim::iota || p == &ir::prim::dim_value;
}

}  // namespace

bool needs_host(const Program& program, const Op& op) {
  namespace composite = ir::composite;
  for (const ir::Primitive* p : {&composite::nonzero, &composite::nms, &composite::unique, &composite::compress,
                                 &composite::read_values, &composite::loop})
    if (op.primitive == p) return true;
  for (const Value result : op.results)
    if (any_on_data(program.type(result).shape)) return true;
  if (op.attributes && any_on_data(ir::AttributeRecord(op.attributes.get()).dims)) return true;
  return std::any_of(op.regions.begin(), op.regions.end(),
                     [](const ir::ProgramPtr& region) { return region_needs_host(*region); });
}

Placed place(const Program& program) {
  const ShapeScope::Enter enter(program.scope());
  const auto index = [](Value value) { return static_cast<size_t>(value.id); };
  const size_t count = static_cast<size_t>(program.value_count());
  std::vector<bool> on_host(count), free(count), is_parameter(count), read_by_host(count), read_by_device(count);
  std::vector<bool> host_op, free_op;
  for (const Parameter& parameter : program.parameters()) is_parameter[index(parameter.value)] = true;
  for (const Op& op : program.ops()) {
    const auto is = [&](const std::vector<bool>& what) { return [&](Value v) { return what[index(v)]; }; };
    const bool host = needs_host(program, op) || std::any_of(op.operands.begin(), op.operands.end(), is(on_host));
    const bool spreads = op.primitive == &ir::prim::broadcast_in_dim || op.primitive == &ir::prim::reshape;
    const bool cheap = !host && (is_free(op) || (spreads && free[index(op.operands[0])]));
    host_op.push_back(host);
    free_op.push_back(cheap);
    for (const Value result : op.results) on_host[index(result)] = host, free[index(result)] = cheap;
    for (const Value operand : op.operands) (host ? read_by_host : read_by_device)[index(operand)] = true;
  }
  Placed placed;
  if (std::none_of(host_op.begin(), host_op.end(), [](bool host) { return host; })) {
    placed.device = program;
    for (size_t i = 0, input = 0; i < program.parameters().size(); ++i)
      if (program.parameters()[i].kind == Parameter::Kind::input) placed.device_inputs.push_back(input++);
    for (size_t i = 0; i < program.results().size(); ++i) placed.results.push_back({false, i});
    return placed;
  }

  // What crosses: values that the device makes and the host reads.
  std::vector<Value> device_results, host_results, crossing;
  for (const Value result : program.results()) {
    std::vector<Value>& part = on_host[index(result)] ? host_results : device_results;
    placed.results.push_back({on_host[index(result)], part.size()});
    part.push_back(result);
  }
  for (const Op& op : program.ops())
    for (const Value result : op.results)
      if (read_by_host[index(result)] && !on_host[index(result)] && !free[index(result)]) crossing.push_back(result);
  for (const Value value : device_results) read_by_device[index(value)] = true;

  const auto wanted = [&](const std::vector<bool>& read, std::vector<size_t>& inputs) {
    size_t input = 0;
    for (const Parameter& parameter : program.parameters()) {
      if (parameter.kind != Parameter::Kind::input) continue;
      if (read[index(parameter.value)]) inputs.push_back(input);
      ++input;
    }
    return [&](const Parameter& parameter) { return read[index(parameter.value)]; };
  };
  {
    Copier copier(program, wanted(read_by_host, placed.host_inputs));
    for (const Value value : crossing) copier.set(value, copier.build().input(program.type(value), "device"));
    for (size_t i = 0; i < program.ops().size(); ++i)
      if (host_op[i] || free_op[i]) copier.copy(program.ops()[i]);
    placed.host = copier.build().finish(copier.mapped(host_results));
  }
  for (size_t i = 0; i < crossing.size(); ++i) placed.host_from_device.push_back(device_results.size() + i);
  device_results.insert(device_results.end(), crossing.begin(), crossing.end());
  if (!device_results.empty()) {
    Copier copier(program, wanted(read_by_device, placed.device_inputs));
    for (size_t i = 0; i < program.ops().size(); ++i)
      if (!host_op[i]) copier.copy(program.ops()[i]);
    placed.device = copier.build().finish(copier.mapped(device_results));
  }
  return placed;
}

namespace {

// Bytes [n] as the elements that they hold, low bits first.
Value unpacked(ir::Builder& build, Value bytes, const ir::Type& type) {
  const int bits = bit_width(type.dtype);
  const int64_t per_byte = 8 / bits;
  const Dim count = product(type.shape), rows = build.shape(bytes)[0];
  const Dims square{rows, per_byte};
  const Value shifts = build.multiply(build.iota(DType::u8, square, 1), build.splat(DType::u8, bits, square));
  Value x = build.shift_right_logical(build.broadcast_in_dim(bytes, square, {0}), shifts);
  x = build.logical_and(x, build.splat(DType::u8, (1 << bits) - 1, square));
  if (is_signed_integer(type.dtype)) {
    const Value up = build.splat(DType::i8, 8 - bits, square);
    x = build.shift_right_arithmetic(build.shift_left(build.bitcast_convert(x, DType::i8), up), up);
  }
  x = build.reshape(x, {rows * per_byte});
  x = build.reshape(build.slice(x, {0}, {count}, {1}), type.shape);
  if (type.dtype == DType::f4e2m1) return build.bitcast_convert(build.convert(x, DType::u4), type.dtype);
  return build.convert(x, type.dtype);
}

Value packed(ir::Builder& build, Value x) {
  const ir::Type type = build.type(x);
  const int bits = bit_width(type.dtype);
  const int64_t per_byte = 8 / bits;
  const Dim count = product(type.shape), rows = ceil_div(count, per_byte);
  if (type.dtype == DType::f4e2m1) x = build.bitcast_convert(x, DType::u4);
  if (is_signed_integer(type.dtype)) x = build.bitcast_convert(build.convert(x, DType::i8), DType::u8);
  x = build.reshape(build.convert(x, DType::u8), {count});
  x = build.pad(x, build.integer(DType::u8, 0), {0}, {rows * per_byte - count}, {0});
  const Dims square{rows, per_byte};
  x = build.logical_and(build.reshape(x, square), build.splat(DType::u8, (1 << bits) - 1, square));
  const Value shifts = build.multiply(build.iota(DType::u8, square, 1), build.splat(DType::u8, bits, square));
  return build.reduce(build.shift_left(x, shifts), ir::ReduceKind::add, {1});
}

Tensor as_bytes(const Tensor& tensor) {
  return Tensor::view(DType::u8, {static_cast<int64_t>(tensor.nbytes())}, tensor.bytes(),
                      std::make_shared<const Tensor>(tensor));
}

Program with_packed_boundary(const Program& program) {
  Copier copier(program, [](const Parameter&) { return false; });
  ir::Builder& build = copier.build();
  for (const Parameter& parameter : program.parameters()) {
    const ir::Type& type = program.type(parameter.value);
    const bool is_weight = parameter.kind == Parameter::Kind::weight;
    Value value;
    if (!is_packed(type.dtype)) {
      value = is_weight ? build.weight(parameter.weight, parameter.name) : build.input(type, parameter.name);
    } else {
      const Dim bytes = ceil_div(product(type.shape), 8 / bit_width(type.dtype));
      value = is_weight ? build.weight(as_bytes(parameter.weight), parameter.name)
                        : build.input({DType::u8, {bytes}}, parameter.name);
    }
    copier.set(parameter.value, value);
  }
  for (const Parameter& parameter : program.parameters()) {
    const ir::Type& type = program.type(parameter.value);
    if (is_packed(type.dtype)) copier.set(parameter.value, unpacked(build, copier[parameter.value], type));
  }
  for (const Op& op : program.ops()) copier.copy(op);
  std::vector<Value> results = copier.mapped(program.results());
  for (Value& result : results)
    if (is_packed(build.dtype(result))) result = packed(build, result);
  return build.finish(std::move(results), program.result_names());
}

void add_expressions(const Program& program, std::set<ExprId>& expressions) {
  for (int32_t id = 0; id < program.value_count(); ++id)
    for (const Dim dim : program.type(Value{id}).shape) expressions.insert(dim.expr());
  for (const Op& op : program.ops()) {
    if (op.attributes) {
      const ir::AttributeRecord record(op.attributes.get());
      for (const Dim dim : record.dims) expressions.insert(dim.expr());
      for (const Real real : record.reals) expressions.insert(real.expr());
    }
    for (const ir::ProgramPtr& region : op.regions) add_expressions(*region, expressions);
  }
}

}  // namespace

bool is_whole_erf(const Program& program, const Op& op) {
  return op.primitive == &ir::prim::erf && program.type(op.operands[0]).dtype == DType::f32;
}

Program device_form(const Program& program, bool passes, bool floats, bool erf) {
  Program plain =
      ir::inline_composites(program, [&](const Program& p, const Op& op) { return erf && is_whole_erf(p, op); });
  if (passes) plain = ir::run_passes(plain, ir::standard_passes());
  if (floats) plain = products_in_floats(plain);
  return ir::with_own_scope(ir::stablehlo_form(with_packed_boundary(plain)));
}

std::vector<Tensor> known_floats(const Program& program, Bindings* bindings) {
  constexpr int64_t kMost = 4096;  // elements; more are no positions
  const auto index = [](Value value) { return static_cast<size_t>(value.id); };
  std::vector<Tensor> known(static_cast<size_t>(program.value_count())), floats(known.size());
  for (const Op& op : program.ops()) {
    if (op.results.size() != 1 || !op.regions.empty() || !op.primitive->evaluate) continue;
    const ir::Type& type = program.type(op.results[0]);
    const bool follows = std::all_of(op.operands.begin(), op.operands.end(),
                                     [&](Value operand) { return static_cast<bool>(known[index(operand)]); });
    if (!follows || is_packed(type.dtype)) continue;
    if (element_count(bindings ? bindings->evaluate(type.shape) : hints(type.shape)) > kMost) continue;
    std::vector<Tensor> operands;
    bool computes_floats = false;
    for (const Value operand : op.operands) {
      operands.push_back(known[index(operand)]);
      computes_floats = computes_floats || is_float(operands.back().dtype());
    }
    Tensor value = ir::evaluate_op(program, op, std::move(operands), bindings)[0];
    known[index(op.results[0])] = value;
    const bool spreads = op.primitive == &ir::prim::broadcast_in_dim || op.primitive == &ir::prim::reshape;
    if (computes_floats && !spreads) floats[index(op.results[0])] = std::move(value);
  }
  return floats;
}

std::vector<int32_t> symbols_in(const Program& program) {
  std::set<ExprId> expressions;
  std::set<int32_t> symbols;
  if (program.scope()) add_expressions(program, expressions);
  for (const ExprId expression : expressions)  // 0, no expression, has none
    for (const int32_t symbol : program.scope()->symbols_of(expression)) symbols.insert(symbol);
  return {symbols.begin(), symbols.end()};
}

}  // namespace transmuter::pjrt
