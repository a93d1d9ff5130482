// Folds scales by channel into weights: what batch normalisation after a convolution or a product is, and layer scales.
// Pattern:   a chain of * f, / f, + b, - b after conv(x, w) or x w, where f and b repeat along all axes but the
//            result's channels.
// Condition: w is a weight or a constant (transposed or reshaped at most) that stays as it is, of the result's dtype,
//            so that w f is made once and grows nothing; f and b come from such weights alone; nothing else reads the
//            values between. A factor that is a number stays: the product takes it for nothing.
// Gain:      no pass over the result for the scale, and one bias, which fits the product's epilogue.
#include <algorithm>
#include <unordered_map>

#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

// The result of a convolution or product with fixed weights, so far times `factor` plus `bias` along its channels.
struct Scaled {
  const Op* op;
  int64_t channels;              // the result's axis
  size_t weight_axis;            // of the second operand
  Value factor = {}, bias = {};  // of the new program, 1-D; {}: none
};

class ScaleFolder {
 public:
  explicit ScaleFolder(const Program& program)
      : match_(program),
        copier_(program),
        build_(copier_.build()),
        fixed_(static_cast<size_t>(program.value_count())) {}

  Program run() {
    for (const Parameter& parameter : match_.program().parameters())
      fixed_[static_cast<size_t>(parameter.value.id)] =
          parameter.kind == Parameter::Kind::weight && !parameter.trainable;
    return rewrite(copier_, [&](const Op& op) {
      mark(op);
      start(op);
      return fold(op);
    });
  }

 private:
  bool is_fixed(Value value) const { return fixed_[static_cast<size_t>(value.id)]; }

  // What constants and fixed weights alone give is fixed.
  void mark(const Op& op) {
    bool fixed = op.regions.empty() && (!op.operands.empty() || op.primitive == &prim::constant);
    for (const Value operand : op.operands) fixed = fixed && is_fixed(operand);
    for (const Value result : op.results) fixed_[static_cast<size_t>(result.id)] = fixed;
  }

  bool is_plain_weight(Value value) const {
    if (!is_fixed(value)) return false;
    const Op* op = match_.definition(value);
    while (op && (op->primitive == &prim::transpose || op->primitive == &prim::reshape))
      op = match_.definition(op->operands[0]);
    return !op || op->primitive == &prim::constant;
  }

  void start(const Op& op) {
    const bool convolution = op.primitive == &prim::convolution;
    if (!convolution && op.primitive != &prim::dot_general) return;
    const Value x = op.operands[0], weight = op.operands[1], y = op.results[0];
    if (is_fixed(x) || !is_plain_weight(weight) || match_.type(weight).dtype != match_.type(y).dtype) return;
    if (match_.type(y).dtype != DType::f32 && match_.type(y).dtype != DType::f64) return;
    if (convolution) {
      if (op.as<ConvolutionAttributes>().batch_groups == 1) scaled_.emplace(y.id, Scaled{&op, 1, 0});
      return;
    }
    const auto& a = op.as<DotGeneralAttributes>();
    if (!a.rhs_batching.empty() || match_.rank(weight) != 2 || a.rhs_contracting.size() != 1) return;
    scaled_.emplace(y.id, Scaled{&op, match_.rank(y) - 1, static_cast<size_t>(1 - a.rhs_contracting[0])});
  }

  // `parameter` as a 1-D value along the channels of `value`; {}: it isn't one.
  Value along_channels(Value parameter, Value value, const Scaled& scaled) {
    if (!is_fixed(parameter)) return {};
    const View view = match_.strip(match_.whole(parameter));
    for (const int64_t axis : view.axes)
      if (axis >= 0 && axis != scaled.channels) return {};
    return spread_over(copier_, view, scaled.channels, {match_.shape(value)[static_cast<size_t>(scaled.channels)]});
  }

  Value fold(const Op& op) {
    const Primitive* p = op.primitive;
    const bool sum = p == &prim::add, difference = p == &prim::subtract;
    const bool product = p == &prim::multiply, quotient = p == &prim::divide;
    if (!sum && !difference && !product && !quotient) return {};
    for (size_t i = 0; i < (sum || product ? 2u : 1u); ++i) {
      const auto found = scaled_.find(op.operands[i].id);
      if (found == scaled_.end() || match_.uses(op.operands[i]) != 1) continue;
      if ((product || quotient) && match_.number(op.operands[1 - i])) continue;
      Scaled scaled = found->second;
      const Value parameter = along_channels(op.operands[1 - i], op.operands[i], scaled);
      if (!parameter) continue;
      const bool first = !scaled.bias && !scaled.factor;
      if (sum || difference) {
        const Value bias = sum ? parameter : build_.negate(parameter);
        scaled.bias = scaled.bias ? build_.add(scaled.bias, bias) : bias;
      } else {
        const Value factor = product ? parameter : build_.divide(build_.like(parameter, 1), parameter);
        scaled.factor = scaled.factor ? build_.multiply(scaled.factor, factor) : factor;
        if (scaled.bias) scaled.bias = build_.multiply(scaled.bias, factor);
      }
      scaled_.emplace(op.results[0].id, scaled);
      return sum && first ? Value{} : emit(scaled);  // a first bias stands as it is
    }
    return {};
  }

  Value emit(const Scaled& scaled) {
    const Op& op = *scaled.op;
    std::vector<Value> operands = copier_.mapped(op.operands);
    const Dims shape = build_.shape(operands[1]);
    if (scaled.factor) {
      const Value factor = build_.broadcast_in_dim(scaled.factor, shape, {static_cast<int64_t>(scaled.weight_axis)});
      operands[1] = build_.multiply(operands[1], factor);
    }
    const Type& type = match_.type(op.results[0]);
    const Value y = build_.emit_copy(op, std::move(operands), {type}, copier_.location(op))[0];
    if (!scaled.bias) return y;
    return build_.add(y, build_.broadcast_in_dim(scaled.bias, type.shape, {scaled.channels}));
  }

  const Matcher match_;
  Copier copier_;
  Builder& build_;
  std::vector<bool> fixed_;
  std::unordered_map<int32_t, Scaled> scaled_;  // by old value
};

}  // namespace

Program fold_scales(const Program& program) { return ScaleFolder(program).run(); }

}  // namespace transmuter::ir
