#include "backends/cpu/steps/integer_product.h"

#include <algorithm>

#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// The elements of a constant that is repeated along all axes but one, or of a single one; axis -1 then.
std::optional<std::vector<double>> fixed_numbers(const Planner& planner, ir::Value v, int64_t& axis) {
  axis = -1;
  for (bool spread = false;;) {
    if (const Tensor* tensor = planner.constant(v)) {
      if (is_complex(tensor->dtype()) || is_packed(tensor->dtype()) || tensor->dtype() == DType::string) return {};
      if (tensor->size() != 1 && (tensor->rank() != 1 || !spread)) return {};
      if (tensor->size() == 1) axis = -1;
      return tensor->aligned().cast(DType::f64).to_vector<double>();
    }
    const ir::Op* op = planner.definition(v);
    if (!op) return {};
    if (op->primitive == &ir::prim::broadcast_in_dim) {
      const auto& dimensions = op->as<ir::BroadcastInDimAttributes>().dimensions;
      if (spread || dimensions.size() > 1) return {};
      if (dimensions.size() == 1) axis = dimensions[0];
      spread = true;
    } else if (op->primitive != &ir::prim::convert) {
      return {};
    }
    v = op->operands[0];
  }
}

}  // namespace

std::optional<Dequantized> match_dequantized(const Planner& planner, ir::Value v) {
  const ir::Op* product = planner.definition(v);
  if (!product || product->primitive != &ir::prim::multiply || planner.type(v).dtype != DType::f32) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ir::Op* widened = planner.definition(product->operands[i]);
    if (!widened || widened->primitive != &ir::prim::convert) continue;
    Dequantized out;
    ir::Value x = widened->operands[0];
    out.zero = {0};
    if (planner.type(x).dtype == DType::i32) {
      const ir::Op* difference = planner.definition(x);
      if (!difference || difference->primitive != &ir::prim::subtract) continue;
      const ir::Op* element = planner.definition(difference->operands[0]);
      if (!element || element->primitive != &ir::prim::convert) continue;
      int64_t axis;
      const auto zero = fixed_numbers(planner, difference->operands[1], axis);
      if (!zero) continue;
      out.zero = *zero;
      x = element->operands[0];
    }
    if (!eight_bits(planner.type(x).dtype)) continue;
    const auto scale = fixed_numbers(planner, product->operands[1 - i], out.axis);
    if (!scale) continue;
    out.scale = *scale;
    out.x = x;
    return out;
  }
  return {};
}

std::optional<QuantizedProduct> match_quantized_product(const Planner& planner, const ir::Op& product, int64_t channels,
                                                        int64_t channel_count, int64_t depth) {
  // Beyond, the sums might not fit 32 bits.
  if (depth > (int64_t{1} << 31) / (255 * 128) - 1) return {};
  const auto x = match_dequantized(planner, product.operands[0]);
  if (!x || x->axis != -1 || x->zero.size() != 1) return {};
  const auto w = match_dequantized(planner, product.operands[1]);
  if (!w || !planner.constant(w->x) || (w->axis != -1 && w->axis != channels)) return {};
  if (std::any_of(w->zero.begin(), w->zero.end(), [](double zero) { return zero != 0; })) return {};
  QuantizedProduct out{x->x, static_cast<int32_t>(x->zero[0]), w->x, {}};
  const auto own = static_cast<float>(x->scale[0]);
  for (int64_t i = 0; i < channel_count; ++i)
    out.scales.push_back(own * static_cast<float>(w->scale[w->axis == -1 ? 0 : static_cast<size_t>(i)]));
  return out;
}

void absorb_unread(Planner& planner, ir::Value v, const ir::Op& user, ir::Value keep) {
  if (v == keep || planner.only_user(v) != &user) return;
  const ir::Op* op = planner.definition(v);
  if (!op) return;
  planner.absorb(*op);
  for (const ir::Value operand : op->operands) absorb_unread(planner, operand, *op, keep);
}

}  // namespace transmuter::cpu
