// Gradients of while (with a known trip count) and case. A region's gradient is a program of its own: with_vjp of the
// region, of which only the gradients are kept.
#include "ir/autodiff.h"
#include "ir/counted_loop.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"
#include "ir/primitives/vjp.h"

namespace transmuter::ir {
namespace {

bool is_differentiable(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

// A region's gradients alone: parameters are the region's and one gradient for each of `results`; results are the
// gradients with respect to `parameters`.
Program gradient_program(const Program& region, const std::vector<size_t>& results,
                         const std::vector<size_t>& parameters) {
  const Program whole = with_vjp(region, results, parameters);
  Copier copier(whole);
  for (const Op& op : whole.ops()) copier.copy(op);
  const auto first = whole.results().end() - static_cast<int64_t>(parameters.size());
  return dce(copier.build().finish(copier.mapped({first, whole.results().end()})));
}

std::vector<bool> read_parameters(const Program& program) {
  std::vector<bool> read(static_cast<size_t>(program.value_count())), out;
  for (const Op& op : program.ops()) {
    for (const Value operand : op.operands) read[operand.id] = true;
  }
  for (const Value result : program.results()) read[result.id] = true;
  for (const Parameter& parameter : program.parameters()) out.push_back(read[parameter.value.id]);
  return out;
}

// How the loop is taken apart. Indices are into the while's operands.
struct Loop {
  const Program& body;
  Dim trips;
  std::vector<size_t> carried, constant;  // float states that change, that do not
  std::vector<size_t> stacked;            // changing states that the body's gradient reads
  std::vector<size_t> fixed;              // unchanging states
  Program gradient;

  Loop(const Program& b, Dim n) : body(b), trips(n) {
    std::vector<size_t> differentiated;
    for (size_t i = 1; i < body.parameters().size(); ++i) {
      const bool same = body.results()[i] == body.parameters()[i].value;
      if (same) fixed.push_back(i);
      if (is_differentiable(body.type(body.results()[i]).dtype)) (same ? constant : carried).push_back(i);
    }
    differentiated = carried;
    differentiated.insert(differentiated.end(), constant.begin(), constant.end());
    gradient = gradient_program(body, carried, differentiated);
    const std::vector<bool> read = read_parameters(gradient);
    for (size_t i = 1; i < body.parameters().size(); ++i) {
      if (read[i] && std::find(fixed.begin(), fixed.end(), i) == fixed.end()) stacked.push_back(i);
    }
  }
};

std::vector<Value> at(std::span<const Value> values, const std::vector<size_t>& indices) {
  std::vector<Value> out;
  for (const size_t i : indices) out.push_back(values[i]);
  return out;
}

std::vector<Value> starts(Builder& build, Value t, Value stack) {
  std::vector<Value> out(static_cast<size_t>(build.rank(stack)), build.integer(DType::i64, 0));
  out[0] = t;
  return out;
}

Dims stack_shape(Dim extent, Dims shape) {
  shape.insert(shape.begin(), extent);
  return shape;
}

// Runs the loop once more and keeps what each round started with.
std::vector<Value> stacks(Builder& build, const Loop& loop, std::span<const Value> operands) {
  if (loop.stacked.empty()) return {};
  std::vector<size_t> changing;
  for (size_t i = 1; i < operands.size(); ++i) {
    if (std::find(loop.fixed.begin(), loop.fixed.end(), i) == loop.fixed.end()) changing.push_back(i);
  }
  std::vector<Value> state = at(operands, changing);
  for (const size_t i : loop.stacked) {
    const Type& type = build.type(operands[i]);
    state.push_back(build.splat(type.dtype, 0, stack_shape(loop.trips, type.shape)));
  }
  const std::vector<Value> out =
      counted_loop(build, loop.trips, state, at(operands, loop.fixed),
                   [&](Builder& b, Value t, std::span<const Value> now, std::span<const Value> fixed) {
                     std::vector<Value> arguments(operands.size());
                     arguments[0] = t;
                     for (size_t i = 0; i < changing.size(); ++i) arguments[changing[i]] = now[i];
                     for (size_t i = 0; i < loop.fixed.size(); ++i) arguments[loop.fixed[i]] = fixed[i];
                     std::vector<Value> next = at(inline_into(b, loop.body, arguments), changing);
                     for (size_t i = 0; i < loop.stacked.size(); ++i) {
                       const Value kept = arguments[loop.stacked[i]], stack = now[changing.size() + i];
                       const Value row = b.reshape(kept, stack_shape(1, b.shape(kept)));
                       next.push_back(b.dynamic_update_slice(stack, row, starts(b, t, stack)));
                     }
                     return next;
                   });
  return {out.begin() + static_cast<int64_t>(changing.size()), out.end()};
}

}  // namespace

// Runs the body's gradient from the last round to the first. The gradients of changing states are handed down, those of
// unchanging ones are summed up.
std::vector<Value> vjp::while_loop(VjpContext& ctx) {
  Builder& build = ctx.build;
  Op op = ctx.op;
  op.operands.assign(ctx.operands.begin(), ctx.operands.end());
  const std::optional<Dim> trips = trip_count(build, op);
  if (!trips) throw Error(ErrorCode::unsupported, "a while loop without a known trip count is not differentiable");
  const Loop loop(*op.regions[1], *trips);
  const std::vector<Value> kept = stacks(build, loop, ctx.operands);
  std::vector<size_t> summed = loop.carried;
  summed.insert(summed.end(), loop.constant.begin(), loop.constant.end());
  std::vector<Value> state, fixed = at(ctx.operands, loop.fixed);
  for (const size_t i : summed) state.push_back(ctx.gradients[i] ? ctx.gradients[i] : build.like(ctx.operands[i], 0));
  fixed.insert(fixed.end(), kept.begin(), kept.end());
  const std::vector<Value> out =
      counted_loop(build, *trips, state, fixed,
                   [&](Builder& b, Value round, std::span<const Value> now, std::span<const Value> outside) {
                     const Value t = b.subtract(b.dim_value(*trips - 1, DType::i64), round);
                     std::vector<Value> arguments(ctx.operands.size());
                     arguments[0] = t;
                     for (size_t i = 0; i < loop.fixed.size(); ++i) arguments[loop.fixed[i]] = outside[i];
                     for (size_t i = 0; i < loop.stacked.size(); ++i) {
                       const Value stack = outside[loop.fixed.size() + i];
                       Dims size = b.shape(stack);
                       size[0] = 1;
                       const Value row = b.dynamic_slice(stack, starts(b, t, stack), size);
                       arguments[loop.stacked[i]] = b.reshape(row, Dims(size.begin() + 1, size.end()));
                     }
                     for (size_t i = 0; i < loop.carried.size(); ++i) arguments.push_back(now[i]);
                     std::vector<Value> next = inline_into(b, loop.gradient, arguments);
                     for (size_t i = loop.carried.size(); i < next.size(); ++i) next[i] = b.add(now[i], next[i]);
                     return next;
                   });
  std::vector<Value> gradients(ctx.operands.size());
  for (size_t i = 0; i < summed.size(); ++i) gradients[summed[i]] = out[i];
  return gradients;
}

std::vector<Value> vjp::case_of(VjpContext& ctx) {
  Builder& build = ctx.build;
  std::vector<size_t> results, parameters;
  std::vector<Value> operands(ctx.operands.begin() + 1, ctx.operands.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (is_differentiable(build.dtype(operands[i]))) parameters.push_back(i);
  }
  for (size_t i = 0; i < ctx.gradients.size(); ++i) {
    if (!ctx.gradients[i]) continue;
    results.push_back(i);
    operands.push_back(ctx.gradients[i]);
  }
  std::vector<ProgramPtr> branches;
  for (const ProgramPtr& branch : ctx.op.regions)
    branches.push_back(std::make_shared<const Program>(gradient_program(*branch, results, parameters)));
  const std::vector<Value> out = build.case_of(ctx.operands[0], std::move(operands), std::move(branches));
  std::vector<Value> gradients(ctx.operands.size());
  for (size_t i = 0; i < parameters.size(); ++i) gradients[parameters[i] + 1] = out[i];
  return gradients;
}

}  // namespace transmuter::ir
