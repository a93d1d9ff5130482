#include "backends/cpu/steps/integer_product.h"

#include <algorithm>
#include <cmath>

#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {

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

bool moderate(double scale) { return std::fabs(scale) < 1e12 && std::fabs(scale) > 1e-12; }

std::optional<Dequantized> match_dequantized(const Planner& planner, ir::Value v) {
  const ir::Op* product = planner.definition(v);
  if (!product || product->primitive != &ir::prim::multiply || planner.type(v).dtype != DType::f32) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ir::Op* widened = planner.definition(product->operands[i]);
    Dequantized out;
    out.zero = {0};
    if (widened && widened->primitive == &ir::prim::subtract) {
      int64_t axis;
      const auto zero = fixed_numbers(planner, widened->operands[1], axis);
      if (!zero) continue;
      out.zero = *zero;
      widened = planner.definition(widened->operands[0]);
    }
    if (!widened || widened->primitive != &ir::prim::convert) continue;
    const ir::Value x = widened->operands[0];
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

namespace {

// The only user of `v`, where that is such an op with `v` first and not taken yet.
const ir::Op* only(const Planner& planner, ir::Value v, const ir::Primitive& primitive) {
  const ir::Op* user = planner.only_user(v);
  const bool reads_first = user && user->primitive == &primitive && user->operands[0] == v;
  return reads_first && !planner.absorbed(*user) ? user : nullptr;
}

}  // namespace

std::optional<ByteTail> match_byte_tail(const Planner& planner, const ir::Op& quotient) {
  ByteTail tail;
  const ir::Op* rounded = only(planner, quotient.results[0], ir::prim::round_nearest_even);
  if (!rounded) return {};
  tail.taken = {rounded};
  if (const ir::Op* added = only(planner, rounded->results[0], ir::prim::add)) {
    tail.zero = added->operands[1];
    tail.taken.push_back(added);
  }
  double low, high, least;
  const ir::Value y = tail.taken.back()->results[0];
  const std::vector<const ir::Op*>& users = planner.users(y);
  if (users.size() != 2 || planner.is_result(y)) return {};
  const bool first = users[0]->primitive == &ir::prim::minimum;
  const ir::Op *bounded = users[first ? 0 : 1], *compared = users[first ? 1 : 0];
  if (bounded->primitive != &ir::prim::minimum || compared->primitive != &ir::prim::compare ||
      compared->as<ir::CompareAttributes>().direction != ir::CompareDirection::ge || bounded->operands[0] != y ||
      compared->operands[0] != y || !planner.splat(bounded->operands[1], high) ||
      !planner.splat(compared->operands[1], low))
    return {};
  const ir::Op* chosen = only(planner, compared->results[0], ir::prim::select);
  if (!chosen || planner.only_user(bounded->results[0]) != chosen || chosen->operands[1] != bounded->results[0] ||
      !planner.splat(chosen->operands[2], least) || least != low)
    return {};
  const ir::Op* narrowed = only(planner, chosen->results[0], ir::prim::convert);
  if (!narrowed) return {};
  const DType dtype = planner.type(narrowed->results[0]).dtype;
  if (!eight_bits(dtype) || low != (dtype == DType::i8 ? -128 : 0) || high != low + 255) return {};
  for (const ir::Op* op : {bounded, compared, chosen, narrowed}) tail.taken.push_back(op);
  return tail;
}

std::optional<Requantized> match_requantized(Planner& planner, ir::Value v) {
  double scale, zero = 0;
  const ir::Op* divided = only(planner, v, ir::prim::divide);
  if (!divided || !planner.splat(divided->operands[1], scale) || scale < 0 || !moderate(scale)) return {};
  const auto tail = match_byte_tail(planner, *divided);
  if (!tail || (tail->zero && !planner.splat(tail->zero, zero))) return {};
  const ir::Op& last = *tail->taken.back();
  const double low = planner.type(last.results[0]).dtype == DType::i8 ? -128 : 0;
  if (zero < low || zero > low + 255) return {};
  planner.absorb(*divided);
  for (const ir::Op* op : tail->taken) planner.absorb(*op);
  return Requantized{last.results[0], &last, static_cast<float>(scale), static_cast<int32_t>(zero)};
}

void absorb_unread(Planner& planner, ir::Value v, const ir::Op& user, ir::Value keep) {
  if (v == keep) return;
  planner.stop_reading(v, user);
  const ir::Op* op = planner.definition(v);
  if (!op || !planner.users(v).empty() || planner.is_result(v)) return;
  planner.absorb(*op);
  for (const ir::Value operand : op->operands) absorb_unread(planner, operand, *op, keep);
}

}  // namespace transmuter::cpu
