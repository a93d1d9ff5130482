// Pad: constant, reflect, edge, wrap. Negative pads crop first; the other modes read only what is left. A reflection or
// wrap wider than the axis folds again.
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

enum class Mode : uint8_t { constant, reflect, edge, wrap };

Mode mode_of(OpContext& op) {
  const std::string mode = op.attribute_string("mode", "constant");
  if (mode == "constant") return Mode::constant;
  if (mode == "reflect") return Mode::reflect;
  if (mode == "edge") return Mode::edge;
  op.check(mode == "wrap" && op.version() >= 19, "mode ", mode, " is not one of this opset");
  return Mode::wrap;
}

// The position in [0, extent) that each place of the padded axis reads.
Value source_positions(Builder& b, Mode mode, Dim extent, Dim low, Dim padded) {
  const Dims shape{padded};
  const auto number = [&](Dim value) { return b.broadcast_in_dim(b.dim_value(value, DType::i64), shape, {}); };
  const Value place = b.subtract(b.iota(DType::i64, shape, 0), number(low));
  if (mode == Mode::edge) return b.clamp(b.integer(DType::i64, 0), place, b.dim_value(extent - 1, DType::i64));
  const Dim period = mode == Mode::wrap ? extent : max(extent * 2 - 2, 1);
  const Value rest = b.remainder(place, number(period));
  const Value negative = b.compare(rest, number(0), CompareDirection::lt);
  const Value folded = b.select(negative, b.add(rest, number(period)), rest);
  if (mode == Mode::wrap) return folded;
  return b.minimum(folded, b.subtract(number(period), folded));
}

// `count` elements next to one end, as the mode continues the axis there; 0 <= count, at most what is there.
Value border(Builder& b, Value x, int64_t axis, Mode mode, Dim count, bool before) {
  const Dim extent = b.shape(x)[static_cast<size_t>(axis)];
  if (mode == Mode::edge) {
    const Value line = before ? b.slice_axis(x, axis, 0, 1) : b.slice_axis(x, axis, extent - 1, extent);
    Dims shape = b.shape(x);
    shape[static_cast<size_t>(axis)] = count;
    return b.broadcast_to(line, shape);
  }
  if (mode == Mode::wrap)
    return before ? b.slice_axis(x, axis, extent - count, extent) : b.slice_axis(x, axis, 0, count);
  const Value part =
      before ? b.slice_axis(x, axis, 1, count + 1) : b.slice_axis(x, axis, extent - 1 - count, extent - 1);
  return b.reverse(part, {axis});
}

Value extend_axis(Builder& b, Value x, int64_t axis, Mode mode, Dim low, Dim high) {
  const Dim extent = b.shape(x)[static_cast<size_t>(axis)];
  require(less(0, extent), "Pad: an empty axis has nothing to continue it with");
  const Dim room = mode == Mode::edge ? max(low, high) : mode == Mode::wrap ? extent : extent - 1;
  if (decide(less_equal(max(low, high), room), "Pad: is the border narrower than the axis?")) {
    std::vector<Value> parts;
    if (!provably_eq(low, 0)) parts.push_back(border(b, x, axis, mode, low, true));
    parts.push_back(x);
    if (!provably_eq(high, 0)) parts.push_back(border(b, x, axis, mode, high, false));
    return b.concatenate(std::move(parts), axis);
  }
  return take(b, x, axis, source_positions(b, mode, extent, low, low + extent + high));
}

// com.microsoft's is as that of opset 11, its pads may be a row.
bool has_inputs(const OpContext& op) { return op.version() >= 11 || op.node().domain == kMicrosoft; }

Dims read_pads(OpContext& op) {
  if (has_inputs(op) && op.rank(1) == 2) {
    require_eq(op.shape(1)[0], 1, "Pad: rows of the pads");
    const Known& row = op.require_known(1);
    op.check(row.kind == Known::Kind::elements, "pads of rank 2 must be a short row");
    Dims pads;
    for (const Scalar& s : row.elements) pads.push_back(s.dim);
    return pads;
  }
  if (has_inputs(op)) return op.require_dims(1);
  const std::vector<int64_t> pads = op.attribute_ints(op.version() < 2 ? "paddings" : "pads");
  return Dims(pads.begin(), pads.end());
}

Value padding_value(OpContext& op) {
  Builder& b = op.build();
  if (!has_inputs(op)) return b.scalar(op.dtype(0), op.attribute_float("value", 0.0F));
  if (!op.has_input(2)) return b.scalar(op.dtype(0), 0);
  require_same_dtype(op, 0, 2);
  return b.reshape(op.input(2), {});
}

void pad(OpContext& op) {
  const Mode mode = mode_of(op);
  const Dims pads = read_pads(op);
  const size_t rank = op.shape(0).size();
  std::vector<int64_t> axes;
  if (op.version() >= 18 && op.has_input(3)) {
    axes = normalised_axes(op, op.require_ints(3), op.rank(0));
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  }
  op.check(pads.size() == 2 * axes.size(), pads.size(), " pads for ", axes.size(), " axes");
  Dims low(rank, Dim(0)), high(rank, Dim(0));
  bool changes = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    low[static_cast<size_t>(axes[i])] = pads[i];
    high[static_cast<size_t>(axes[i])] = pads[i + axes.size()];
    changes = changes || !provably_eq(pads[i], 0) || !provably_eq(pads[i + axes.size()], 0);
  }
  Builder& b = op.build();
  if (mode == Mode::constant) {
    const Value value = padding_value(op);
    if (!changes) return op.output(0, op.traced(0));
    return op.output(0, b.pad(op.input(0), value, low, high, Dims(rank, Dim(0))));
  }
  if (!has_inputs(op)) op.ignore_attributes({"value"});  // of constant mode
  if (!changes) return op.output(0, op.traced(0));
  Value x = op.input(0);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t at = static_cast<int64_t>(axis);
    const Dim extent = b.shape(x)[axis];
    const Dim crop_low = max(-low[axis], 0), crop_high = max(-high[axis], 0);
    if (!provably_eq(crop_low, 0) || !provably_eq(crop_high, 0)) {
      require(less_equal(crop_low + crop_high, extent), "Pad: negative pads crop more than the axis has");
      x = b.slice_axis(x, at, crop_low, extent - crop_high);
    }
    const Dim add_low = max(low[axis], 0), add_high = max(high[axis], 0);
    if (!provably_eq(add_low, 0) || !provably_eq(add_high, 0)) x = extend_axis(b, x, at, mode, add_low, add_high);
  }
  op.output(0, x);
}

// The middle of each axis, or zeros around it; the odd one is after.
void center_crop_pad(OpContext& op) {
  const int64_t rank = op.rank(0);
  std::vector<int64_t> axes = op.attribute_ints_optional("axes").value_or(std::vector<int64_t>{});
  if (axes.empty())
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  axes = normalised_axes(op, std::move(axes), rank);
  const Dims wanted = op.require_dims(1);
  op.check(wanted.size() == axes.size(), "shape must have ", axes.size(), " entries, has ", wanted.size());
  Builder& b = op.build();
  const Value x = op.input(0);
  const Dims none(static_cast<size_t>(rank), Dim(0));
  Dims low = none, high = none;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(axes[i]);
    require(less_equal(0, wanted[i]), "CenterCropPad: extents must not be negative");
    const Dim more = wanted[i] - b.shape(x)[axis];
    low[axis] = floor_div(max(more, 0), 2) - floor_div(max(-more, 0), 2);
    high[axis] = more - low[axis];
  }
  op.output(0, b.pad(x, b.scalar(op.dtype(0), 0), low, high, none));
}

}  // namespace

void register_pad(Registry& r) {
  r.add("Pad", {1, 2, 11, 13, 18, 19, 21, 23, 24, 25}, pad);
  r.add("Pad", {1}, pad, kMicrosoft);
  r.add("CenterCropPad", {18}, center_crop_pad);
}

}  // namespace transmuter::ops
