#include "backends/pjrt/padded.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "ir/passes/copier.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/reduction.h"

namespace transmuter::pjrt {

using ir::Copier;
using ir::Op;
using ir::Parameter;
using ir::Program;
using ir::ReduceKind;
using ir::Value;

namespace {

// Why a program can't be had with padding.
struct Refusal {
  std::string why;
};

class Padder {
 public:
  Padder(const Program& program, const Capacities& capacities, const std::vector<int64_t>& rooms)
      : from_(program),
        capacities_(capacities),
        rooms_(rooms),
        copier_(program, [](const Parameter&) { return false; }),
        build_(copier_.build()),
        zeros_(static_cast<size_t>(program.value_count())) {}

  Padded run() {
    for (const Parameter& parameter : from_.parameters()) {
      const ir::Type& type = from_.type(parameter.value);
      const bool padded = capacities_.depends(type.shape);
      if (padded && is_packed(type.dtype)) throw Refusal{"an input of packed elements"};
      Value value;
      if (parameter.kind == Parameter::Kind::input)
        value = build_.input({type.dtype, room(type.shape)}, parameter.name);
      else if (parameter.weight)
        value = build_.weight(parameter.weight, parameter.name);
      else
        value = build_.prepared_weight(type, parameter.name);
      copier_.set(parameter.value, value);
      zeros_[static_cast<size_t>(parameter.value.id)] = true;
    }
    sizes_ = build_.input({DType::i64, {static_cast<int64_t>(capacities_.sizes().size())}}, "sizes");
    for (const Op& op : from_.ops()) {
      const bool untouched = !is_padded(op.operands) && !is_padded(op.results) && !capacities_.depends(op);
      copier_.locate(op);
      if (untouched)
        copier_.copy(op);
      else
        pad(op);
    }
    std::vector<bool> zero_results;
    for (const Value result : from_.results()) zero_results.push_back(zeros(result));
    return {copier_.finish(), std::move(zero_results)};
  }

 private:
  using Rule = void (Padder::*)(const Op&);

  // ---- what is known of the old program's values

  const Dims& shape(Value old) const { return from_.type(old).shape; }
  bool is_padded(Value old, int64_t axis) const { return capacities_.depends(shape(old)[static_cast<size_t>(axis)]); }
  bool is_padded(const std::vector<Value>& old) const {
    return std::any_of(old.begin(), old.end(), [&](Value value) { return capacities_.depends(shape(value)); });
  }
  // What lies behind its own elements, if anything does, is zero.
  bool zeros(Value old) const { return zeros_[static_cast<size_t>(old.id)] || !capacities_.depends(shape(old)); }
  Dim room(Dim dim) const { return capacities_.room(dim, rooms_); }
  Dims room(const Dims& dims) const { return capacities_.room(dims, rooms_); }
  static void want(bool condition, const Op& op, const char* what) {
    if (!condition) throw Refusal{str(op.primitive->name, ": ", what)};
  }

  // ---- pieces of the new program

  void set(const Op& op, Value now, bool zero = false) {
    const Dims expected = room(shape(op.results[0]));
    if (build_.shape(now).size() != expected.size()) throw Refusal{str(op.primitive->name, ": another rank")};
    for (size_t i = 0; i < expected.size(); ++i)
      want(provably_eq(build_.shape(now)[i], expected[i]), op, "another capacity");
    copier_.set(op.results[0], now);
    zeros_[static_cast<size_t>(op.results[0].id)] = zero;
  }

  // The run's own extent, 0-d.
  Value size(Dim dim, DType dtype) {
    if (!capacities_.depends(dim)) return build_.dim_value(dim, dtype);
    const int64_t at = capacities_.position(dim);
    return build_.convert(build_.reshape(build_.slice(sizes_, {at}, {at + 1}, {1}), {}), dtype);
  }

  // [room]: true at the run's own places.
  Value own_places(Dim extent) {
    Value& mask = masks_[extent.expr()];
    if (!mask) {
      const Dims line{room(extent)};
      mask = build_.compare(build_.iota(DType::i64, line, 0),
                            build_.broadcast_in_dim(size(extent, DType::i64), line, {}), ir::CompareDirection::lt);
    }
    return mask;
  }

  // The value with `fill` (0-d) behind its own elements, along the axes.
  Value filled(Value old, const std::vector<int64_t>& axes, Value fill) {
    Value now = copier_[old];
    const Dims wide = build_.shape(now);
    Value own;
    for (const int64_t axis : axes) {
      if (!is_padded(old, axis)) continue;
      const Value along = build_.broadcast_in_dim(own_places(shape(old)[static_cast<size_t>(axis)]), wide, {axis});
      own = own ? build_.logical_and(own, along) : along;
    }
    return own ? build_.select(own, now, build_.broadcast_in_dim(fill, wide, {})) : now;
  }

  Value number(DType dtype, int64_t value) {
    return is_float(dtype) ? build_.scalar(dtype, static_cast<double>(value)) : build_.integer(dtype, value);
  }

  // Along an axis as long as `extent`: cut, or with zeros behind.
  Value resized(Value now, int64_t axis, Dim extent) {
    const Dims& have = build_.shape(now);
    const Dim from = have[static_cast<size_t>(axis)];
    if (provably_eq(from, extent)) return now;
    if (provably_le(extent, from)) return build_.slice_axis(now, axis, 0, extent);
    Dims none(have.size(), 0), high = none;
    high[static_cast<size_t>(axis)] = extent - from;
    return build_.pad(now, number(build_.dtype(now), 0), none, high, none);
  }

  // 0-d starts, one an axis: zero but for that axis.
  std::vector<Value> at(int64_t rank, int64_t axis, Value start) {
    std::vector<Value> starts(static_cast<size_t>(rank), build_.integer(DType::i64, 0));
    starts[static_cast<size_t>(axis)] = start;
    return starts;
  }

  // ---- the rules

  void pad(const Op& op) {
    namespace prim = ir::prim;
    static const std::map<const ir::Primitive*, Rule> kRules = {
        {&prim::dim_value, &Padder::dim_value},
        {&prim::iota, &Padder::iota},
        {&prim::broadcast_in_dim, &Padder::broadcast},
        {&prim::reshape, &Padder::reshape},
        {&prim::transpose, &Padder::transpose},
        {&prim::concatenate, &Padder::concatenate},
        {&prim::slice, &Padder::slice},
        {&prim::pad, &Padder::pad_op},
        {&prim::reverse, &Padder::along_axes},
        {&prim::dynamic_slice, &Padder::dynamic_slice},
        {&prim::dynamic_update_slice, &Padder::dynamic_update},
        {&prim::gather, &Padder::gather},
        {&prim::dot_general, &Padder::dot},
        {&prim::reduce, &Padder::reduce},
        {&prim::reduce_window, &Padder::reduce_window},
        {&prim::sort, &Padder::sort},
    };
    if (op.primitive->elementwise) return elementwise(op);
    const auto rule = kRules.find(op.primitive);
    want(rule != kRules.end(), op, "no rule");
    (this->*rule->second)(op);
  }

  Value emitted(const Op& op) { return build_.emit1(*op.primitive, copier_.mapped(op.operands), op.attributes); }

  void elementwise(const Op& op) {
    const bool keeps_zero = op.primitive == &ir::prim::convert || op.primitive == &ir::prim::negate;
    set(op, emitted(op), keeps_zero && zeros(op.operands[0]));
  }

  void dim_value(const Op& op) {
    const auto& value = op.as<ir::DimValueAttributes>();
    want(!value.is_real, op, "a float that follows from sizes");
    set(op, size(value.dim, value.dtype));
  }

  void iota(const Op& op) {
    const auto& iota = op.as<ir::IotaAttributes>();
    set(op, build_.iota(iota.dtype, room(iota.shape), iota.dimension));
  }

  void broadcast(const Op& op) {
    const auto& to = op.as<ir::BroadcastInDimAttributes>();
    const Dims& given = shape(op.operands[0]);
    std::vector<bool> follows(to.shape.size());
    for (size_t i = 0; i < given.size(); ++i) {
      const size_t axis = static_cast<size_t>(to.dimensions[i]);
      follows[axis] = provably_eq(given[i], to.shape[axis]);
      want(follows[axis] || provably_eq(given[i], 1), op, "an extent that may be 1");
    }
    bool zero = zeros(op.operands[0]);
    for (size_t i = 0; i < follows.size(); ++i) zero = zero && (follows[i] || !capacities_.depends(to.shape[i]));
    set(op, build_.broadcast_in_dim(copier_[op.operands[0]], room(to.shape), to.dimensions), zero);
  }

  // Each padded extent stays one, with as many elements before and behind it.
  void reshape(const Op& op) {
    const Dims &given = shape(op.operands[0]), &to = op.as<ir::ReshapeAttributes>().shape;
    const auto padded = [&](const Dims& dims) {
      std::vector<size_t> axes;
      for (size_t i = 0; i < dims.size(); ++i)
        if (capacities_.depends(dims[i])) axes.push_back(i);
      return axes;
    };
    const std::vector<size_t> a = padded(given), b = padded(to);
    want(a.size() == b.size(), op, "an extent that changes is merged or split");
    const auto before = [](const Dims& dims, size_t axis) {
      return product(Dims(dims.begin(), dims.begin() + static_cast<int64_t>(axis)));
    };
    for (size_t i = 0; i < a.size(); ++i)
      want(provably_eq(given[a[i]], to[b[i]]) && provably_eq(before(given, a[i]), before(to, b[i])), op,
           "an extent that changes is merged or split");
    set(op, build_.reshape(copier_[op.operands[0]], room(to)), zeros(op.operands[0]));
  }

  void transpose(const Op& op) { set(op, emitted(op), zeros(op.operands[0])); }

  // Every element of the result depends on those along certain axes, which have no padding.
  void along_axes(const Op& op) {
    for (const int64_t axis : op.as<ir::AxesAttributes>().axes)
      want(!is_padded(op.operands[0], axis), op, "along an extent that changes");
    set(op, emitted(op));
  }

  // Pieces are written one after the other, each over the padding of the one before.
  void concatenate(const Op& op) {
    const int64_t axis = op.as<ir::AxisAttributes>().axis;
    const size_t along = static_cast<size_t>(axis);
    bool zero = true;
    for (const Value operand : op.operands) zero = zero && zeros(operand);
    if (!is_padded(op.results[0], axis)) return set(op, emitted(op), zero);
    const int64_t rank = from_.type(op.results[0]).rank();
    const Dim capacity = room(shape(op.results[0])[along]);
    // Padding that is written must fit behind whatever lies before it.
    int64_t behind = 0;
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (is_padded(op.operands[i], axis))
        behind = std::max(behind, build_.shape(copier_[op.operands[i]])[along].hint());
    Dim longest = capacity + behind;
    const Dim first = build_.shape(copier_[op.operands[0]])[along];
    if (!provably_le(first, longest)) longest = longest + first;
    Value all = resized(copier_[op.operands[0]], axis, longest);
    Dim place = shape(op.operands[0])[along];
    Value start = size(place, DType::i64);
    for (size_t i = 1; i < op.operands.size(); ++i) {
      all = build_.dynamic_update_slice(all, copier_[op.operands[i]], at(rank, axis, start));
      start = build_.add(start, size(shape(op.operands[i])[along], DType::i64));
    }
    set(op, resized(all, axis, capacity), zero);
  }

  void slice(const Op& op) {
    const auto& slice = op.as<ir::SliceAttributes>();
    const Value old = op.operands[0];
    Value now = copier_[old];
    const int64_t rank = from_.type(old).rank();
    bool zero = zeros(old);
    Dims start(static_cast<size_t>(rank), 0), limit = build_.shape(now), stride(static_cast<size_t>(rank), 1);
    for (size_t axis = 0; axis < start.size(); ++axis) {
      if (is_padded(old, static_cast<int64_t>(axis)) || capacities_.depends(slice.start[axis]) ||
          capacities_.depends(slice.limit[axis]))
        continue;
      start[axis] = slice.start[axis], limit[axis] = slice.limit[axis], stride[axis] = slice.stride[axis];
    }
    now = build_.slice(now, start, limit, stride);
    for (int64_t axis = 0; axis < rank; ++axis) {
      const size_t i = static_cast<size_t>(axis);
      if (!is_padded(old, axis) && !capacities_.depends(slice.start[i]) && !capacities_.depends(slice.limit[i]))
        continue;
      want(provably_eq(slice.stride[i], 1), op, "a stride along an extent that changes");
      const Dim extent = room(shape(op.results[0])[i]);
      zero = zero && provably_eq(slice.start[i], 0) && provably_eq(slice.limit[i], shape(old)[i]);
      if (!provably_eq(slice.start[i], 0)) {
        now = resized(now, axis, build_.shape(now)[i] + extent);
        Dims sizes = build_.shape(now);
        sizes[i] = extent;
        now = build_.dynamic_slice(now, at(rank, axis, size(slice.start[i], DType::i64)), sizes);
      }
      now = resized(now, axis, extent);
    }
    set(op, now, zero);
  }

  void pad_op(const Op& op) {
    const auto& pad = op.as<ir::PadAttributes>();
    const Value old = op.operands[0], fill = copier_[op.operands[1]];
    const size_t rank = shape(old).size();
    std::vector<int64_t> axes;
    Dims low = pad.low, high = pad.high;
    for (size_t i = 0; i < rank; ++i) {
      const bool stays = provably_eq(pad.low[i], 0) && provably_eq(pad.high[i], 0) && provably_eq(pad.interior[i], 0);
      const Dim after = shape(op.results[0])[i];
      if (stays || (!is_padded(old, static_cast<int64_t>(i)) && !capacities_.depends(after))) continue;
      want(provably_eq(pad.interior[i], 0) && pad.low[i].is_constant() && provably_le(0, pad.low[i]) &&
               provably_le(0, pad.high[i]),
           op, "crops or spreads an extent that changes");
      axes.push_back(static_cast<int64_t>(i));
      const Dim have = build_.shape(copier_[old])[i] + low[i], need = room(after);
      high[i] = provably_le(have, need) ? need - have : Dim(0);
    }
    Value now = build_.pad(filled(old, axes, fill), fill, low, high, pad.interior);
    for (const int64_t axis : axes) now = resized(now, axis, room(shape(op.results[0])[static_cast<size_t>(axis)]));
    set(op, now);
  }

  // A start that leaves a window inside the run's own elements.
  Value clamped_start(Value start, Dim extent, Dim window) {
    const DType dtype = build_.dtype(start);
    const Value last = build_.subtract(size(extent, dtype), size(window, dtype));
    return build_.maximum(build_.minimum(start, last), build_.integer(dtype, 0));
  }

  // Of the operands from `first`: starts for windows of these sizes in op's operand 0. A window over all of a padded
  // extent starts at 0 by itself.
  std::vector<Value> starts(const Op& op, size_t first, const Dims& sizes) {
    std::vector<Value> starts;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Dim extent = shape(op.operands[0])[i];
      Value start = copier_[op.operands[first + i]];
      if (capacities_.depends(extent) && !provably_eq(extent, sizes[i])) {
        want(!capacities_.depends(sizes[i]), op, "a window that changes");
        start = clamped_start(start, extent, sizes[i]);
      }
      starts.push_back(start);
    }
    return starts;
  }

  void dynamic_slice(const Op& op) {
    const Dims& sizes = op.as<ir::DynamicSliceAttributes>().sizes;
    for (size_t i = 0; i < sizes.size(); ++i)
      want(!capacities_.depends(sizes[i]) || provably_eq(sizes[i], shape(op.operands[0])[i]), op,
           "a window that changes");
    const std::vector<Value> at = starts(op, 1, sizes);
    set(op, build_.dynamic_slice(copier_[op.operands[0]], at, room(sizes)), zeros(op.operands[0]));
  }

  void dynamic_update(const Op& op) {
    const std::vector<Value> at = starts(op, 2, shape(op.operands[1]));
    set(op, build_.dynamic_update_slice(copier_[op.operands[0]], copier_[op.operands[1]], at),
        zeros(op.operands[0]) && zeros(op.operands[1]));
  }

  void gather(const Op& op) {
    ir::GatherAttributes gather = op.as<ir::GatherAttributes>();
    const Dims& given = shape(op.operands[0]);
    Value indices = copier_[op.operands[1]];
    const DType dtype = build_.dtype(indices);
    // The last place a window may start at, by component of an index; none where memory says it as well.
    std::vector<Value> last;
    bool clamps = false;
    for (const int64_t axis : gather.start_index_map) {
      const size_t i = static_cast<size_t>(axis);
      const bool padded = capacities_.depends(given[i]);
      const bool whole = provably_eq(given[i], gather.slice_sizes[i]);
      want(whole || !capacities_.depends(gather.slice_sizes[i]), op, "a window that changes");
      clamps = clamps || (padded && !whole);
      last.push_back(build_.reshape(build_.subtract(size(given[i], dtype), size(gather.slice_sizes[i], dtype)), {1}));
    }
    for (size_t i = 0; i < given.size(); ++i)
      want(!capacities_.depends(gather.slice_sizes[i]) || provably_eq(given[i], gather.slice_sizes[i]), op,
           "a window that changes");
    if (clamps) {
      const bool is_vector = gather.index_vector_dim < build_.rank(indices);
      want(is_vector || last.size() == 1, op, "indices of another form");
      const Value limits = is_vector ? build_.broadcast_in_dim(build_.concatenate(last, 0), build_.shape(indices),
                                                               {gather.index_vector_dim})
                                     : build_.broadcast_in_dim(build_.reshape(last[0], {}), build_.shape(indices), {});
      indices = build_.minimum(indices, limits);
    }
    gather.slice_sizes = room(gather.slice_sizes);
    set(op, build_.gather(copier_[op.operands[0]], indices, std::move(gather)));
  }

  void dot(const Op& op) {
    const auto& dot = op.as<ir::DotGeneralAttributes>();
    const auto side = [&](size_t i, const std::vector<int64_t>& axes) {
      const Value old = op.operands[i];
      return zeros(old) ? copier_[old] : filled(old, axes, number(from_.type(old).dtype, 0));
    };
    set(op, build_.dot_general(side(0, dot.lhs_contracting), side(1, dot.rhs_contracting), dot));
  }

  Value identity(ReduceKind kind, DType dtype) {
    return is_float(dtype) ? build_.scalar(dtype, ir::identity_double(kind))
                           : build_.integer(dtype, ir::identity_integer(kind, dtype));
  }

  void reduce(const Op& op) {
    const auto& reduce = op.as<ir::ReduceAttributes>();
    const Value old = op.operands[0];
    const bool clean = reduce.kind == ReduceKind::add && zeros(old);
    const Value x = clean ? copier_[old] : filled(old, reduce.axes, identity(reduce.kind, from_.type(old).dtype));
    set(op, build_.reduce(x, reduce.kind, reduce.axes), clean);
  }

  // Along an extent that changes: nothing, or running sums from the start.
  void reduce_window(const Op& op) {
    ir::ReduceWindowAttributes window = op.as<ir::ReduceWindowAttributes>();
    const Value old = op.operands[0];
    for (size_t i = 0; i < window.window.size(); ++i) {
      if (!is_padded(old, static_cast<int64_t>(i))) {
        want(!capacities_.depends({window.window[i], window.pad_low[i], window.pad_high[i]}), op,
             "a window that changes");
        continue;
      }
      want(window.strides[i] == 1 && window.base_dilation[i] == 1 && window.window_dilation[i] == 1 &&
               provably_eq(window.pad_high[i], 0),
           op, "along an extent that changes");
      const bool one = provably_eq(window.window[i], 1) && provably_eq(window.pad_low[i], 0);
      if (one) continue;
      const Dim extent = shape(old)[i];
      want(provably_eq(window.window[i], extent) && provably_eq(window.pad_low[i], extent - 1), op,
           "along an extent that changes");
      window.window[i] = room(extent);
      window.pad_low[i] = room(extent) - 1;
    }
    set(op, build_.reduce_window(copier_[old], window));
  }

  void sort(const Op& op) {
    const auto& sort = op.as<ir::SortAttributes>();
    want(!is_padded(op.operands[0], sort.axis), op, "along an extent that changes");
    const std::vector<Value> sorted = build_.sort(copier_.mapped(op.operands), sort);
    for (size_t i = 0; i < sorted.size(); ++i) copier_.set(op.results[i], sorted[i]);
  }

  const Program& from_;
  const Capacities& capacities_;
  const std::vector<int64_t>& rooms_;
  Copier copier_;
  ir::Builder& build_;
  std::vector<bool> zeros_;  // by value of the old program
  Value sizes_;
  std::map<ExprId, Value> masks_;
};

}  // namespace

std::optional<Padded> padded_form(const Program& program, const Capacities& capacities,
                                  const std::vector<int64_t>& rooms, std::string& why) {
  try {
    return Padder(program, capacities, rooms).run();
  } catch (const Refusal& refusal) {
    why = refusal.why;
  } catch (const Error& error) {  // of a rule that says too little: the program with exact sizes remains
    why = error.what();
  }
  return std::nullopt;
}

}  // namespace transmuter::pjrt
