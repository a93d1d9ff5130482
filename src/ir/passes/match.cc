#include "ir/passes/match.h"

#include <algorithm>
#include <cmath>

namespace transmuter::ir {

namespace {

constexpr int64_t kFewElements = 64;

// All elements are the same number: that number.
std::optional<double> repeated(const Tensor& tensor) {
  if (tensor.size() == 0 || tensor.size() > kFewElements || is_packed(tensor.dtype()) || is_complex(tensor.dtype()))
    return {};
  const Tensor wide = tensor.aligned().cast(DType::f64);
  const double* data = wide.data<double>();
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (!(data[i] == data[0])) return {};
  return data[0];
}

bool is_one(Dim a) { return provably_eq(a, 1); }

// Where each axis of `from` is in `to` (-1: nowhere, an extent of 1) when they differ by extents of 1 alone.
std::optional<std::vector<int64_t>> axes_kept(const Dims& from, const Dims& to) {
  std::vector<int64_t> axes(from.size(), -1);
  size_t at = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (is_one(from[i])) continue;
    while (at < to.size() && is_one(to[at])) ++at;
    if (at == to.size() || !provably_eq(from[i], to[at])) return {};
    axes[i] = static_cast<int64_t>(at++);
  }
  while (at < to.size() && is_one(to[at])) ++at;
  if (at != to.size()) return {};
  return axes;
}

}  // namespace

bool close_to(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

const std::vector<int64_t>& reduced_axes(const Op& reduction) { return reduction.as<ReduceAttributes>().axes; }

Matcher::Matcher(const Program& program)
    : program_(program),
      definitions_(static_cast<size_t>(program.value_count())),
      uses_(static_cast<size_t>(program.value_count())) {
  for (const Op& op : program.ops()) {
    for (Value result : op.results) definitions_[static_cast<size_t>(result.id)] = &op;
    for (Value operand : op.operands) ++uses_[static_cast<size_t>(operand.id)];
  }
  for (Value result : program.results()) ++uses_[static_cast<size_t>(result.id)];
}

const Op* Matcher::defined_by(Value value, const Primitive& primitive) const {
  const Op* op = definition(value);
  return op && op->primitive == &primitive ? op : nullptr;
}

std::optional<double> Matcher::number(Value value) const {
  const Op* op = definition(value);
  while (op && (op->primitive == &prim::broadcast_in_dim || op->primitive == &prim::reshape))
    op = definition(op->operands[0]);
  return op && op->primitive == &prim::constant ? repeated(op->as<ConstantAttributes>().value) : std::nullopt;
}

bool Matcher::is_number(Value value, double wanted) const {
  const std::optional<double> number = this->number(value);
  return number && close_to(*number, wanted);
}

bool Matcher::is_extent(Value value, Dim extent) const {
  if (extent.is_constant()) return is_number(value, static_cast<double>(extent.hint()));
  const Op* op = definition(value);
  while (op && (op->primitive == &prim::broadcast_in_dim || op->primitive == &prim::reshape ||
                op->primitive == &prim::convert))
    op = definition(op->operands[0]);
  if (!op || op->primitive != &prim::dim_value) return false;
  const auto& a = op->as<DimValueAttributes>();
  return !a.is_real && provably_eq(a.dim, extent);
}

View Matcher::whole(Value value) const {
  View view{value, {}};
  for (int64_t i = 0; i < rank(value); ++i) view.axes.push_back(is_one(shape(value)[static_cast<size_t>(i)]) ? -1 : i);
  return view;
}

View Matcher::strip(View view) const {
  while (const Op* op = definition(view.base)) {
    if (op->operands.empty()) break;
    const Value inner = op->operands[0];
    const Dims &from = shape(inner), &to = shape(view.base);
    std::vector<int64_t> places;  // of inner's axes among those of view.base
    if (op->primitive == &prim::broadcast_in_dim) {
      places = op->as<BroadcastInDimAttributes>().dimensions;
      bool repeats_or_stays = true;
      for (size_t i = 0; i < places.size(); ++i) {
        if (is_one(from[i]))
          places[i] = -1;
        else
          repeats_or_stays = repeats_or_stays && provably_eq(from[i], to[static_cast<size_t>(places[i])]);
      }
      if (!repeats_or_stays) break;
    } else if (op->primitive == &prim::transpose) {
      const std::vector<int64_t>& permutation = op->as<AxesAttributes>().axes;
      places.resize(permutation.size());
      for (size_t i = 0; i < permutation.size(); ++i)
        places[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
    } else if (op->primitive == &prim::reshape) {
      auto kept = axes_kept(from, to);
      if (!kept) break;
      places = std::move(*kept);
    } else {
      break;
    }
    View below{inner, {}};
    for (const int64_t place : places) below.axes.push_back(place < 0 ? -1 : view.axes[static_cast<size_t>(place)]);
    view = std::move(below);
  }
  return view;
}

const Op* Matcher::reduction(const View& view, ReduceKind kind, Value x) const {
  const View stripped = strip(view);
  const Op* op = defined_by(stripped.base, prim::reduce);
  if (!op || op->as<ReduceAttributes>().kind != kind || (x && !(op->operands[0] == x))) return nullptr;
  const std::vector<int64_t>& axes = reduced_axes(*op);
  size_t at = 0;
  for (int64_t axis = 0; axis < rank(op->operands[0]); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    const int64_t place = stripped.axes[at++];
    if (place != axis && place >= 0) return nullptr;
  }
  return op;
}

const Op* Matcher::mean(const View& view, Value x) const {
  const View stripped = strip(view);
  const Op* op = definition(stripped.base);
  if (!op) return nullptr;
  const auto count = [&](const Op& sum) {
    Dim product = 1;
    for (const int64_t axis : reduced_axes(sum)) product = product * shape(sum.operands[0])[static_cast<size_t>(axis)];
    return product;
  };
  if (op->primitive == &prim::divide) {
    const Op* sum = reduction(operand(stripped, op->operands[0]), ReduceKind::add, x);
    return sum && is_extent(op->operands[1], count(*sum)) ? sum : nullptr;
  }
  if (op->primitive != &prim::multiply) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Op* sum = reduction(operand(stripped, op->operands[i]), ReduceKind::add, x);
    if (!sum) continue;
    const Dim elements = count(*sum);
    if (elements.is_constant() && is_number(op->operands[1 - i], 1.0 / static_cast<double>(elements.hint())))
      return sum;
  }
  return nullptr;
}

Value Matcher::square_root_of(Value value) const {
  const Op* op = definition(value);
  if (!op) return {};
  if (op->primitive == &prim::multiply && op->operands[0] == op->operands[1]) return op->operands[0];
  if (op->primitive == &prim::power && is_number(op->operands[1], 2)) return op->operands[0];
  return {};
}

Value Matcher::only_operand(const Op& op) const {
  Value found;
  for (const Value operand : op.operands) {
    if (rank(operand) == 0 || number(operand)) continue;
    if (found) return {};
    found = operand;
  }
  return found;
}

const Op* Matcher::slice_of_last_axis(Value value) const {
  const Op* op = defined_by(value, prim::slice);
  if (!op) return nullptr;
  const auto& a = op->as<SliceAttributes>();
  const Dims& shape = this->shape(op->operands[0]);
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    if (!provably_eq(a.start[i], 0) || !provably_eq(a.limit[i], shape[i]) || !provably_eq(a.stride[i], 1))
      return nullptr;
  return op;
}

bool joins_axes(const Dims& from, const Dims& to, size_t axis) {
  if (from.size() != to.size() + 1) return false;
  for (size_t i = 0; i < to.size(); ++i) {
    const Dim extent = i < axis ? from[i] : i == axis ? from[i] * from[i + 1] : from[i + 1];
    if (!provably_eq(to[i], extent)) return false;
  }
  return true;
}

Value moved_again(const Matcher& match, Builder& build, const Op& move, Value value) {
  if (move.primitive == &prim::transpose) return build.transpose(value, move.as<AxesAttributes>().axes);
  const Dims& shape = match.shape(move.results[0]);
  if (move.primitive == &prim::reshape) return build.reshape(value, shape);
  return build.broadcast_in_dim(value, shape, move.as<BroadcastInDimAttributes>().dimensions);
}

Value spread_over(Copier& copier, const View& view, int64_t first, const Dims& shape) {
  Builder& build = copier.build();
  const Value base = copier[view.base];
  Dims kept;
  std::vector<int64_t> dimensions;
  for (size_t i = 0; i < view.axes.size(); ++i) {
    if (view.axes[i] < 0) continue;
    kept.push_back(build.shape(base)[i]);
    dimensions.push_back(view.axes[i] - first);
  }
  bool repeats = !std::is_sorted(dimensions.begin(), dimensions.end());
  for (size_t i = 0; i < shape.size(); ++i)
    repeats = repeats || (!is_one(shape[i]) &&
                          std::find(dimensions.begin(), dimensions.end(), static_cast<int64_t>(i)) == dimensions.end());
  if (!repeats) return build.reshape(base, shape);
  return build.broadcast_in_dim(build.reshape(base, std::move(kept)), shape, std::move(dimensions));
}

}  // namespace transmuter::ir
