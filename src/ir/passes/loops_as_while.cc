#include "ir/passes/loops_as_while.h"

#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ir/passes/copier.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {
namespace {

// One loop, taken apart.
struct Loop {
  const LoopAttributes& attributes;
  const Program& body;
  size_t carried, stacked, first_row;

  explicit Loop(const Op& op)
      : attributes(op.as<LoopAttributes>()),
        body(*op.regions[0]),
        carried(static_cast<size_t>(attributes.carried)),
        stacked(attributes.row_axes.size()),
        first_row(carried + attributes.has_condition) {}

  const Type& parameter(size_t k) const { return body.type(body.parameters()[k + 1].value); }
  const Type& result(size_t k) const { return body.type(body.results()[k]); }

  bool keeps_sizes(const Program& program, const Op& op) const {
    if (attributes.has_condition && stacked > 0) return false;
    const std::vector<int32_t> inside = symbols_defined_in(body);
    for (size_t k = 0; k < carried; ++k) {
      const Dims& before = program.type(op.operands[k + attributes.has_condition]).shape;
      if (!provably_same(before, parameter(k).shape)) return false;
      if (!provably_same(before, result(k + attributes.has_condition).shape)) return false;
    }
    for (size_t k = 0; k < stacked; ++k) {
      if (attributes.row_axes[k] >= 0) return false;
      for (const Dim extent : result(first_row + k).shape)
        if (reads_symbol(extent, inside)) return false;
    }
    return true;
  }

  std::vector<Value> trip(Builder& build, Value t, std::span<const Value> states, std::span<const Value> fixed) const {
    std::vector<Value> arguments{t};
    arguments.insert(arguments.end(), states.begin(), states.begin() + static_cast<ptrdiff_t>(carried));
    arguments.insert(arguments.end(), fixed.begin(), fixed.end());
    return inline_into(build, body, arguments);
  }
};

std::vector<Value> counted(Builder& build, const Loop& loop, std::vector<Value> states,
                           const std::vector<Value>& fixed) {
  const Dim trips = max(loop.attributes.trips[0], 0);
  const Dim room = max(trips, 1);  // the body writes a row, also where it never runs
  for (size_t k = 0; k < loop.stacked; ++k) {
    const Type& row = loop.result(loop.first_row + k);
    Dims shape = row.shape;
    shape.insert(shape.begin(), room);
    states.push_back(build.splat(row.dtype, 0, std::move(shape)));
  }
  std::vector<Value> results =
      counted_loop(build, trips, states, fixed,
                   [&](Builder& b, Value t, std::span<const Value> now, std::span<const Value> outside) {
                     std::vector<Value> next = loop.trip(b, t, now, outside);
                     for (size_t k = loop.carried; k < next.size(); ++k) next[k] = with_row(b, now[k], next[k], t);
                     return next;
                   });
  if (!provably_eq(room, trips))
    for (size_t k = loop.carried; k < results.size(); ++k) results[k] = build.slice_axis(results[k], 0, 0, trips);
  return results;
}

// Its states are (t, go on, states..., what is read from outside...).
std::vector<Value> conditional(Builder& build, const Loop& loop, Value first, const std::vector<Value>& states,
                               const std::vector<Value>& fixed) {
  std::vector<Value> state{first};
  state.insert(state.end(), states.begin(), states.end());
  CountedRegion region(build, state, fixed);
  const std::vector<Value> next =
      loop.trip(region.build, region.t, std::span<const Value>(region.state).subspan(1), region.fixed);
  std::vector<Value> results{region.build.add(region.t, region.build.integer(DType::i64, 1))};
  results.insert(results.end(), next.begin(), next.end());
  results.insert(results.end(), region.fixed.begin(), region.fixed.end());
  const auto body = std::make_shared<const Program>(region.build.finish(std::move(results)));

  CountedRegion test(build, state, fixed);
  Value more = test.state[0];
  if (!loop.attributes.trips.empty()) {
    const Value trips = test.build.dim_value(loop.attributes.trips[0], DType::i64);
    more = test.build.logical_and(more, test.build.compare(test.t, trips, CompareDirection::lt));
  }
  const auto condition = std::make_shared<const Program>(test.build.finish({more}));

  std::vector<Value> operands{build.integer(DType::i64, 0)};
  operands.insert(operands.end(), state.begin(), state.end());
  operands.insert(operands.end(), fixed.begin(), fixed.end());
  const std::vector<Value> out = build.while_loop(std::move(operands), condition, body);
  return {out.begin() + 2, out.begin() + 2 + static_cast<ptrdiff_t>(states.size())};
}

}  // namespace

Program loops_as_while(const Program& program) {
  Copier copier(program);
  for (const Op& op : program.ops()) {
    copier.locate(op);
    Op changed = op;
    changed.regions = changed_regions(op, loops_as_while);
    if (op.primitive == &composite::loop) {
      const Loop loop(changed);
      if (loop.keeps_sizes(program, op)) {
        const std::vector<Value> operands = copier.mapped(op.operands);
        const auto state = operands.begin() + loop.attributes.has_condition;
        const auto first_fixed = state + static_cast<ptrdiff_t>(loop.carried);
        const std::vector<Value> states(state, first_fixed), fixed(first_fixed, operands.end());
        const std::vector<Value> results = loop.attributes.has_condition
                                               ? conditional(copier.build(), loop, operands[0], states, fixed)
                                               : counted(copier.build(), loop, states, fixed);
        for (size_t i = 0; i < op.results.size(); ++i) copier.set(op.results[i], results[i]);
        continue;
      }
    }
    copier.copy(changed);
  }
  return copier.finish();
}

}  // namespace transmuter::ir
