// Raises quantized_dot.
// Pattern:   a product of floats with a fixed matrix of integers of eight bits or fewer that dequantize_linear and
//            transposes make floats of (exports whose weights alone are quantized).
// Condition: one scale for the matrix, one for each column, or one for each block along the contracted axis, zero
// points
//            likewise, all of them fixed; the other operand is not dequantized itself: that is a product of integers,
//            which backends find by its parts.
// Gain:      the weight stays as it is stored: memory, and what a decoder's step reads.
#include <map>
#include <optional>

#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

// Blocks are a multiple of this, so that backends may take words of elements.
constexpr int64_t kBlockStep = 16;

class WeightDotRaiser {
 public:
  explicit WeightDotRaiser(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {
    for (const Parameter& parameter : program.parameters())
      if (parameter.kind == Parameter::Kind::weight && !parameter.trainable && parameter.weight)
        weights_.emplace(parameter.value.id, &parameter.weight);
  }

  Program run() {
    return rewrite(copier_, [&](const Op& op) { return op.primitive == &prim::dot_general ? raised(op) : Value{}; });
  }

 private:
  const Tensor* fixed(Value value) const {
    const auto found = weights_.find(value.id);
    if (found != weights_.end()) return found->second;
    const Op* op = match_.defined_by(value, prim::constant);
    return op ? &op->as<ConstantAttributes>().value : nullptr;
  }

  // What transposes of a matrix were made of, and whether the axes come out swapped.
  Value matrix(Value value, bool& swapped) const {
    swapped = false;
    while (const Op* op = match_.defined_by(value, prim::transpose)) {
      if (op->as<AxesAttributes>().axes[0] == 1) swapped = !swapped;
      value = op->operands[0];
    }
    return value;
  }

  bool is_dequantized(Value value) const {
    for (const Op* op = match_.definition(value); op; op = match_.definition(op->operands[0])) {
      if (op->primitive == &composite::dequantize_linear) return true;
      const bool moves = op->primitive == &prim::reshape || op->primitive == &prim::transpose ||
                         op->primitive == &prim::broadcast_in_dim || op->primitive == &prim::slice;
      if (!moves) return false;
    }
    return false;
  }

  static std::optional<double> number(const Tensor* tensor) {
    if (!tensor || tensor->size() != 1 || is_packed(tensor->dtype())) return {};
    return tensor->aligned().cast(DType::f64).data<double>()[0];
  }

  // Scales or zero points as [n, blocks]; invalid: they lie otherwise.
  Value by_block(Value parameter, const QuantizeAttributes& quantize, int64_t contracted) {
    if (!fixed(parameter)) return {};
    if (quantize.block == 0) {
      if (match_.rank(parameter) != 1 || quantize.axis == contracted) return {};
      return build_.reshape(copier_[parameter], {match_.shape(parameter)[0], 1});
    }
    if (match_.rank(parameter) != 2 || quantize.axis != contracted) return {};
    return contracted == 1 ? copier_[parameter] : build_.transpose(copier_[parameter], {1, 0});
  }

  Value raised(const Op& op) {
    const auto& dot = op.as<DotGeneralAttributes>();
    const Value a = op.operands[0];
    const Type& type = match_.type(a);
    if (!dot.lhs_batching.empty() || dot.lhs_contracting != std::vector<int64_t>{type.rank() - 1} ||
        match_.rank(op.operands[1]) != 2 || dot.dtype != type.dtype || !is_float(type.dtype) || is_dequantized(a))
      return {};
    bool outside = false, inside = false;
    const Op* dequantize = match_.defined_by(matrix(op.operands[1], outside), composite::dequantize_linear);
    if (!dequantize) return {};
    const auto& quantize = dequantize->as<QuantizeAttributes>();
    const Value weight = matrix(dequantize->operands[0], inside);
    const Type& stored = match_.type(weight);
    if (quantize.dtype != type.dtype || !fixed(weight) || !is_integer(stored.dtype) || bit_width(stored.dtype) > 8)
      return {};
    const int64_t contracted = outside ? 1 - dot.rhs_contracting[0] : dot.rhs_contracting[0];
    const bool by_columns = (inside ? 1 - contracted : contracted) == 1;  // [n, k]
    const Dim k = stored.shape[by_columns ? 1 : 0], n = stored.shape[by_columns ? 0 : 1];
    if (!k.is_constant() || !n.is_constant()) return {};
    QuantizedDotAttributes attributes;
    attributes.block = quantize.block > 0 ? quantize.block : (k.hint() + kBlockStep - 1) / kBlockStep * kBlockStep;
    Value scales, zeros;
    if (match_.rank(dequantize->operands[1]) == 0) {
      const std::optional<double> scale = number(fixed(dequantize->operands[1]));
      const std::optional<double> zero =
          quantize.has_zero_point ? number(fixed(dequantize->operands[2])) : std::optional<double>(0);
      if (!scale || !zero) return {};
      const std::vector<double> same(static_cast<size_t>(n.hint()), *scale);
      scales = build_.constant(Tensor(same, {n.hint(), 1}).cast(match_.type(dequantize->operands[1]).dtype));
      attributes.zero_point = *zero;
    } else {
      scales = by_block(dequantize->operands[1], quantize, contracted);
      if (!scales) return {};
      if (quantize.has_zero_point) {
        zeros = by_block(dequantize->operands[2], quantize, contracted);
        if (!zeros) return {};
      }
    }
    const Value w = by_columns ? copier_[weight] : build_.transpose(copier_[weight], {1, 0});
    return quantized_dot(build_, copier_[a], w, scales, zeros, std::move(attributes));
  }

  Matcher match_;
  Copier copier_;
  Builder& build_;
  std::map<int32_t, const Tensor*> weights_;
};

}  // namespace

Program raise_weight_dots(const Program& program) { return WeightDotRaiser(program).run(); }

}  // namespace transmuter::ir
