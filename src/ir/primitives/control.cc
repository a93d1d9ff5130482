// while_loop and case_of: StableHLO while and case. Regions are programs over their own parameters; what they need of
// the outside is an operand. case_of takes the last branch for an index out of range.
#include <algorithm>

#include "ir/builder.h"
#include "ir/composites/composites.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/vjp.h"

namespace transmuter::ir {
namespace {

void check_type(const InferContext& ctx, const Type& is, const Type& wanted, const char* constraint, const char* what) {
  ctx.check(is.dtype == wanted.dtype && is.rank() == wanted.rank(), constraint, what, " has type ", to_string(is),
            ", not ", to_string(wanted));
  for (size_t i = 0; i < is.shape.size(); ++i) check_same_extent(ctx, is.shape[i], wanted.shape[i], constraint, what);
}

void check_parameters(const InferContext& ctx, const Program& region, std::span<const Type> operands,
                      const char* constraint) {
  ctx.check(region.parameters().size() == operands.size(), constraint, "a region takes ", region.parameters().size(),
            " parameters, not ", operands.size());
  for (size_t i = 0; i < operands.size(); ++i)
    check_type(ctx, region.type(region.parameters()[i].value), operands[i], constraint, "a region parameter");
}

std::vector<Type> infer_while(const InferContext& ctx) {
  ctx.check(ctx.regions.size() == 2, "C0", "takes a condition and a body");
  const Program &condition = *ctx.regions[0], &body = *ctx.regions[1];
  check_parameters(ctx, condition, ctx.operands, "C1");
  ctx.check(condition.results().size() == 1, "C1", "the condition gives one value");
  const Type& truth = condition.type(condition.results()[0]);
  ctx.check(truth.dtype == DType::boolean && truth.shape.empty(), "C1", "the condition gives a 0-d bool");
  check_parameters(ctx, body, ctx.operands, "C2");
  ctx.check(body.results().size() == ctx.operands.size(), "C2", "the body gives ", body.results().size(),
            " values, not ", ctx.operands.size());
  for (size_t i = 0; i < ctx.operands.size(); ++i)
    check_type(ctx, body.type(body.results()[i]), ctx.operands[i], "C2", "a result of the body");
  return {ctx.operands.begin(), ctx.operands.end()};
}

void evaluate_while(EvaluateContext& ctx) {
  std::vector<Tensor> state(ctx.operands.begin(), ctx.operands.end());
  while (*ctx.run_region(0, state)[0].data<bool>()) state = ctx.run_region(1, state);
  ctx.results = std::move(state);
}

// An extent that hangs on the branch taken is a symbol, defined when the op has run.
Dim fresh_extent(const InferContext& ctx, Dim a, Dim b) {
  ShapeScope* scope = ShapeScope::current();
  ctx.check(scope != nullptr, "C3", "a result is of different sizes in the branches");
  return scope->data_value(std::max(a.hint(), b.hint()),
                           {std::min(interval(a).low, interval(b).low), std::max(interval(a).high, interval(b).high)});
}

std::vector<Type> infer_case(const InferContext& ctx) {
  ctx.check(!ctx.regions.empty(), "C1", "takes at least one branch");
  ctx.check(!ctx.operands.empty() && ctx.operands[0].shape.empty() && ctx.operands[0].dtype == DType::i32, "C0",
            "the index must be a 0-d int32");
  std::vector<Type> types;
  for (size_t i = 0; i < ctx.regions.size(); ++i) {
    const Program& branch = *ctx.regions[i];
    check_parameters(ctx, branch, ctx.operands.subspan(1), "C2");
    if (i == 0) {
      for (const Value result : branch.results()) types.push_back(branch.type(result));
      continue;
    }
    ctx.check(branch.results().size() == types.size(), "C3", "the branches give different numbers of values");
    for (size_t r = 0; r < types.size(); ++r) {
      const Type& other = branch.type(branch.results()[r]);
      ctx.check(other.dtype == types[r].dtype && other.rank() == types[r].rank(), "C3", "a result is ",
                to_string(types[r]), " in one branch and ", to_string(other), " in another");
      for (size_t axis = 0; axis < types[r].shape.size(); ++axis) {
        Dim& extent = types[r].shape[axis];
        if (!provably_eq(extent, other.shape[axis])) extent = fresh_extent(ctx, extent, other.shape[axis]);
      }
    }
  }
  // What a branch alone defines means nothing outside.
  for (const ProgramPtr& branch : ctx.regions) {
    const std::vector<int32_t> inside = symbols_defined_in(*branch);
    if (inside.empty()) continue;
    for (Type& type : types) {
      for (Dim& extent : type.shape)
        if (reads_symbol(extent, inside)) extent = fresh_extent(ctx, extent, extent);
    }
  }
  return types;
}

void evaluate_case(EvaluateContext& ctx) {
  const int32_t index = *ctx.operands[0].data<int32_t>();
  const int32_t last = static_cast<int32_t>(ctx.op.regions.size()) - 1;
  const size_t taken = static_cast<size_t>(index < 0 || index > last ? last : index);
  const std::span<const Tensor> operands = ctx.operands.subspan(1);
  const Dims none;
  const auto* attributes = static_cast<const CaseAttributes*>(ctx.op.attributes.get());
  RegionBindings region(*ctx.op.regions[taken], attributes ? attributes->entries.at(taken) : none);
  ctx.results = ctx.run_region(taken, operands, region.enter(ctx.bindings, operands));
  region.check();
  for (size_t r = 0; r < ctx.results.size(); ++r) define_extents(ctx, r, ctx.results[r].shape());
}

}  // namespace

const Primitive prim::while_loop{
    .name = "while", .infer = infer_while, .evaluate = evaluate_while, .vjp = vjp::while_loop};
const Primitive prim::case_of{.name = "case", .infer = infer_case, .evaluate = evaluate_case, .vjp = vjp::case_of};

std::vector<Value> Builder::while_loop(std::vector<Value> state, ProgramPtr condition, ProgramPtr body) {
  return emit(prim::while_loop, std::move(state), nullptr, {std::move(condition), std::move(body)});
}

std::vector<Value> Builder::case_of(Value index, std::vector<Value> operands, std::vector<ProgramPtr> branches,
                                    std::vector<Dims> entries) {
  operands.insert(operands.begin(), index);
  const bool any = std::any_of(entries.begin(), entries.end(), [](const Dims& entry) { return !entry.empty(); });
  std::shared_ptr<CaseAttributes> attributes;
  if (any) {
    attributes = std::make_shared<CaseAttributes>();
    attributes->entries = std::move(entries);
  }
  return emit(prim::case_of, std::move(operands), std::move(attributes), std::move(branches));
}

}  // namespace transmuter::ir
