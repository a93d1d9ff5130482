// DynamicQuantizeLinear: the range of all elements, the scale and zero point that it gives, the bytes; as one step.
#include "backends/cpu/kernels/quantize.h"
#include "backends/cpu/steps/integer_product.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

struct Match {
  ir::Value x, scale, zero, bytes;
  const ir::Op *quotient = nullptr, *added = nullptr;  // by the scale, and with the zero point
  std::vector<const ir::Op*> taken;
};

class DynamicQuantizeStep : public Step {
 public:
  explicit DynamicQuantizeStep(const Match& match)
      : x_(match.x), scale_(match.scale), zero_(match.zero), bytes_(match.bytes) {
    reads = {x_};
    writes = {scale_, zero_, bytes_};
  }

  void bind(Binder& bind) const override {
    View x = bind.view(x_);
    AxisOrder order = axis_order(x);
    if (!in_order(x, order).is_dense()) {
      order.clear();
      bind.untouch();
      x = bind.dense(x_);
    }
    const View scale = bind.allocate(scale_), zero = bind.allocate(zero_), bytes = bind.allocate(bytes_, order);
    const int32_t scratch = bind.scratch(std::max<int64_t>(64, dynamic_range_scratch(x.size())));
    bind.launch(
        "quantize-dynamic", 0,
        [count = x.size(), scratch, x = Place(x), scale = Place(scale), zero = Place(zero),
         bytes = Place(bytes)](const RunContext& run) {
          const float* const from = run.at(x);
          const QuantizeRange range =
              dynamic_range(from, count, bytes.dtype == DType::i8, run.scratch(scratch), &run.pool);
          *run.at<float>(scale) = range.scale;
          const auto point = static_cast<uint8_t>(range.zero_point);
          *run.at<uint8_t>(zero) = point;
          quantize_linear(from, bytes.dtype, run.at<void>(bytes), &range.scale, &point, {1, 1, count}, &run.pool);
        });
  }

 private:
  const ir::Value x_, scale_, zero_, bytes_;
};

// From the reduction to the greatest element on: whether its ops are what DynamicQuantizeLinear has.
class Matcher {
 public:
  Matcher(const Planner& planner, const ir::Op& reduced) : planner_(planner), top_(reduced) {}

  std::optional<Match> match() {
    if (!range() || !scale_and_zero() || !bytes()) return {};
    return match_;
  }

 private:
  using Ops = std::vector<const ir::Op*>;

  bool take(const ir::Op* op) {
    if (!op || planner_.absorbed(*op)) return false;
    match_.taken.push_back(op);
    return true;
  }
  bool splat_is(ir::Value v, double wanted) const {
    double value;
    return planner_.splat(v, value) && value == wanted;
  }
  // The only user of `v`, where that is such an op.
  const ir::Op* only(ir::Value v, const ir::Primitive& primitive) const {
    const ir::Op* user = planner_.only_user(v);
    return user && user->primitive == &primitive ? user : nullptr;
  }
  // The other of two users of `v`.
  const ir::Op* other(ir::Value v, const ir::Op* one, const ir::Primitive& primitive) const {
    const Ops& users = planner_.users(v);
    if (planner_.is_result(v) || users.size() != 2) return nullptr;
    const ir::Op* user = users[users[0] == one ? 1 : 0];
    return user != one && user->primitive == &primitive ? user : nullptr;
  }
  bool of_all(const ir::Op& op, ir::ReduceKind kind) const {
    const auto& a = op.as<ir::ReduceAttributes>();
    return a.kind == kind && static_cast<int64_t>(a.axes.size()) == planner_.type(op.operands[0]).rank();
  }

  // max(greatest, 0) - min(least, 0)
  bool range() {
    match_.x = top_.operands[0];
    if (planner_.type(match_.x).dtype != DType::f32 || !of_all(top_, ir::ReduceKind::max) || !take(&top_)) return false;
    const ir::Op* high = only(top_.results[0], ir::prim::maximum);
    if (!take(high) || !splat_is(high->operands[1], 0)) return false;
    span_ = only(high->results[0], ir::prim::subtract);
    if (!take(span_) || span_->operands[0] != high->results[0]) return false;
    low_ = planner_.definition(span_->operands[1]);
    if (!take(low_) || low_->primitive != &ir::prim::minimum || !splat_is(low_->operands[1], 0)) return false;
    const ir::Op* bottom = planner_.definition(low_->operands[0]);
    if (!bottom || bottom->primitive != &ir::prim::reduce || bottom->operands[0] != match_.x) return false;
    return of_all(*bottom, ir::ReduceKind::min) && only(bottom->results[0], ir::prim::minimum) == low_ && take(bottom);
  }

  bool scale_and_zero() {
    const ir::Op* step = only(span_->results[0], ir::prim::divide);
    if (!take(step) || !splat_is(step->operands[1], 255)) return false;
    const ir::Op* chosen = nullptr;
    for (const ir::Op* user : planner_.users(step->results[0])) {
      if (user->primitive == &ir::prim::select) chosen = user;
    }
    const ir::Op* empty = other(step->results[0], chosen, ir::prim::compare);
    if (!take(empty) || !take(chosen) || empty->as<ir::CompareAttributes>().direction != ir::CompareDirection::eq ||
        empty->operands[0] != step->results[0] || !splat_is(empty->operands[1], 0) ||
        only(empty->results[0], ir::prim::select) != chosen || chosen->operands[0] != empty->results[0] ||
        !splat_is(chosen->operands[1], 1) || chosen->operands[2] != step->results[0])
      return false;
    match_.scale = chosen->results[0];
    const ir::Op* places = other(low_->results[0], span_, ir::prim::divide);
    if (!take(places) || places->operands[0] != low_->results[0] || places->operands[1] != match_.scale) return false;
    const ir::Op* place = only(places->results[0], ir::prim::subtract);
    if (!take(place) || place->operands[1] != places->results[0]) return false;
    const ir::Op* bounded = only(place->results[0], ir::prim::clamp);
    if (!take(bounded) || bounded->operands[1] != place->results[0]) return false;
    const ir::Op* rounded = only(bounded->results[0], ir::prim::round_nearest_even);
    if (!take(rounded)) return false;
    const ir::Op* narrowed = only(rounded->results[0], ir::prim::convert);
    if (!take(narrowed)) return false;
    match_.zero = narrowed->results[0];
    const DType dtype = planner_.type(match_.zero).dtype;
    const double least = dtype == DType::i8 ? -128 : 0;
    return eight_bits(dtype) && splat_is(place->operands[0], least) && splat_is(bounded->operands[0], least) &&
           splat_is(bounded->operands[2], least + 255);
  }

  bool bytes() {
    for (const ir::Op* user : planner_.users(match_.x)) {
      if (user->primitive == &ir::prim::divide && user->operands[0] == match_.x &&
          repeats(user->operands[1]) == match_.scale)
        match_.quotient = user;
    }
    if (!take(match_.quotient)) return false;
    const auto tail = match_byte_tail(planner_, *match_.quotient);
    if (!tail || !tail->zero) return false;
    for (const ir::Op* op : tail->taken) {
      if (!take(op)) return false;
      if (op->primitive == &ir::prim::add) match_.added = op;
    }
    match_.bytes = tail->taken.back()->results[0];
    const ir::Op* widened = planner_.definition(repeats(tail->zero));
    return widened && widened->primitive == &ir::prim::convert && widened->operands[0] == match_.zero &&
           planner_.type(match_.bytes).dtype == planner_.type(match_.zero).dtype;
  }
  // The 0-d value that `v` repeats; `v` itself where it is none.
  ir::Value repeats(ir::Value v) const {
    const ir::Op* op = planner_.definition(v);
    const bool repeated = op && op->primitive == &ir::prim::broadcast_in_dim;
    return repeated && planner_.type(op->operands[0]).rank() == 0 ? op->operands[0] : v;
  }

  const Planner& planner_;
  const ir::Op& top_;
  const ir::Op* span_ = nullptr;
  const ir::Op* low_ = nullptr;
  Match match_;
};

}  // namespace

bool plan_dynamic_quantize(Planner& planner, const ir::Op& op) {
  const std::optional<Match> match = Matcher(planner, op).match();
  if (!match) return false;
  for (const ir::Op* taken : match->taken) planner.absorb(*taken);
  absorb_unread(planner, match->quotient->operands[1], *match->quotient, match->scale);
  absorb_unread(planner, match->added->operands[1], *match->added, match->zero);
  auto step = std::make_unique<DynamicQuantizeStep>(*match);
  step->location = op.location;
  // All that it reads is there already.
  planner.move_to(std::move(step), op);
  return true;
}

}  // namespace transmuter::cpu
