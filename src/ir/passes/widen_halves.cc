#include "ir/passes/widen_halves.h"

#include <algorithm>
#include <unordered_map>

#include "ir/composites/composites.h"
#include "ir/composites/table_dot.h"
#include "ir/composites/write_rows.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {

namespace {

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
DType widened(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

// A model in half floats has them among its inputs or weights (small weights are constants). One that merely rounds to
// them and back means that.
bool stores_halves(const Program& program) {
  for (const Parameter& parameter : program.parameters())
    if (is_half(program.type(parameter.value).dtype)) return true;
  for (const Op& op : program.ops()) {
    if (op.primitive != &prim::constant) continue;
    const Type& type = program.type(op.results[0]);
    if (is_half(type.dtype) && type.rank() > 0 && op.as<ConstantAttributes>().value.size() > 1) return true;
  }
  return false;
}

// The dtype that an attribute struct gives as a field of that name.
class DTypeField : public AttributeVisitor {
 public:
  void integer(const char*, int64_t) override {}
  void integers(const char*, const std::vector<int64_t>&) override {}
  void dims(const char*, const Dims&) override {}
  void real(const char*, double) override {}
  void tensor(const char*, const Tensor&) override {}
  void real_expression(const char*, Real) override {}
  void text(const char* field, std::string_view value) override {
    half = half || (std::string_view(field) == "dtype" && (value == name(DType::f16) || value == name(DType::bf16)));
  }
  bool half = false;
};

template <class A>
AttributesPtr with_wide_dtype(const Op& op) {
  A attributes = op.as<A>();
  attributes.dtype = DType::f32;
  return std::make_shared<A>(std::move(attributes));
}

class Widener {
 public:
  // Regions take and give f32 where the program around them now has it.
  Widener(const Program& program, bool region)
      : copier_(program, [region](const Parameter&) { return !region; }),
        from_(program),
        build_(copier_.build()),
        region_(region) {}

  Program run() {
    if (region_) add_parameters();
    for (const Op& op : from_.ops()) {
      copier_.locate(op);
      copy(op);
    }
    std::vector<Value> results;
    for (const Value result : from_.results()) {
      const Value now = wide(copier_[result]);
      results.push_back(region_ ? now : build_.convert(now, from_.type(result).dtype));
    }
    return build_.finish(std::move(results), from_.result_names());
  }

 private:
  // Regions are called by position: inputs in the same order, of other types.
  void add_parameters() {
    for (const Parameter& parameter : from_.parameters()) {
      const bool input = parameter.kind == Parameter::Kind::input;
      copier_.set(parameter.value, input ? build_.input(wide_type(parameter.value), parameter.name)
                                         : build_.weight(parameter.weight, parameter.name, parameter.trainable));
    }
  }

  Value wide(Value value) {
    if (!is_half(build_.dtype(value))) return value;
    Value& made = wide_[value.id];
    if (!made) made = build_.convert(value, DType::f32);
    return made;
  }
  bool is_stored_half(Value old) const { return is_half(build_.dtype(copier_[old])); }

  Type wide_type(Value old) const { return {widened(from_.type(old).dtype), from_.type(old).shape}; }

  void emit(const Op& op, std::vector<Value> operands, AttributesPtr attributes) {
    std::vector<ProgramPtr> regions =
        changed_regions(op, [](const Program& region) { return Widener(region, true).run(); });
    std::vector<Type> types;
    for (const Value result : op.results) types.push_back(wide_type(result));
    put(op, {op.primitive, {}, std::move(attributes), {}, std::move(regions), -1}, std::move(operands), types);
  }

  // `now` over new operands in place of `op`.
  void put(const Op& op, const Op& now, std::vector<Value> operands, const std::vector<Type>& types) {
    const std::vector<Value> results = build_.emit_copy(now, std::move(operands), types, copier_.location(op));
    for (size_t i = 0; i < results.size(); ++i) copier_.set(op.results[i], results[i]);
  }

  // Moves of what is stored half stay so: the op that computes with it widens it. A broadcast would be widened where it
  // is large.
  static bool moves(const Primitive* p) {
    return p == &prim::reshape || p == &prim::transpose || p == &prim::slice || p == &prim::gather ||
           p == &prim::dynamic_slice || p == &prim::reverse;
  }

  // A stored half value with more behind it (or in it) that the program gives out: only what is new is converted, not
  // the whole of it twice a step.
  bool grows_cache(const Op& op) const {
    if (op.primitive != &prim::concatenate && op.primitive != &prim::dynamic_update_slice &&
        op.primitive != &composite::write_rows)
      return false;
    const auto& results = from_.results();
    return is_half(from_.type(op.results[0]).dtype) && is_stored_half(op.operands[0]) && !region_ &&
           std::find(results.begin(), results.end(), op.results[0]) != results.end();
  }

  void copy(const Op& op) {
    const Primitive* p = op.primitive;
    if (p == &prim::constant && is_half(from_.type(op.results[0]).dtype)) return constant(op);
    if (p == &prim::convert) return convert(op);
    if (p == &prim::bitcast_convert) return as_it_was(op);
    if (moves(p) && is_stored_half(op.operands[0])) return copier_.copy(op);
    if (grows_cache(op) || (p == &prim::pad && is_stored_half(op.operands[0]))) return as_it_was(op);
    std::vector<Value> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const bool takes_stored = ((p == &prim::dot_general || p == &prim::convolution) && i == 1) ||
                                ((p == &composite::quantized_dot || p == &composite::table_dot) && i >= 2) ||
                                (p == &composite::dequantize_linear && i == 1);
      operands.push_back(takes_stored ? copier_[op.operands[i]] : wide(copier_[op.operands[i]]));
    }
    DTypeField field;
    if (op.attributes) op.attributes->visit(field);
    if (!field.half) return emit(op, std::move(operands), op.attributes);
    if (p == &prim::dot_general) return emit(op, std::move(operands), with_wide_dtype<DotGeneralAttributes>(op));
    if (p == &prim::convolution) return emit(op, std::move(operands), with_wide_dtype<ConvolutionAttributes>(op));
    if (p == &prim::iota) return emit(op, std::move(operands), with_wide_dtype<IotaAttributes>(op));
    if (p == &prim::dim_value) return emit(op, std::move(operands), with_wide_dtype<DimValueAttributes>(op));
    if (p == &composite::dequantize_linear)
      return emit(op, std::move(operands), with_wide_dtype<QuantizeAttributes>(op));
    as_it_was(op);
  }

  void constant(const Op& op) {
    const Tensor& value = op.as<ConstantAttributes>().value;
    if (value.nbytes() > kFoldLimit) return copier_.copy(op);
    copier_.set(op.results[0], build_.constant(value.aligned().cast(DType::f32)));
  }

  void convert(const Op& op) {
    const Value x = copier_[op.operands[0]];
    const DType to = from_.type(op.results[0]).dtype;
    copier_.set(op.results[0], is_half(to) && build_.dtype(x) == to ? x : build_.convert(wide(x), widened(to)));
  }

  // An op that wants the very bits.
  void as_it_was(const Op& op) {
    std::vector<Value> operands;
    for (const Value operand : op.operands)
      operands.push_back(build_.convert(copier_[operand], from_.type(operand).dtype));
    std::vector<Type> types;
    for (const Value result : op.results) types.push_back(from_.type(result));
    put(op, op, std::move(operands), types);
  }

  Copier copier_;
  const Program& from_;
  Builder& build_;
  const bool region_;
  std::unordered_map<int32_t, Value> wide_;  // by stored value
};

}  // namespace

Program widen_halves(const Program& program) {
  return stores_halves(program) ? Widener(program, false).run() : program;
}

}  // namespace transmuter::ir
