// dot_general: StableHLO dot_general over real numbers. Result axes: batch, lhs free, rhs free. Operand dtypes may
// differ. The reference sums floats in double, integers wrap around in the result's dtype.
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/matmul.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  const auto& dot = ctx.as<DotGeneralAttributes>();
  check_operand_count(ctx, 2);
  const Type &a = ctx.operands[0], &b = ctx.operands[1];
  ctx.check(dot.lhs_batching.size() == dot.rhs_batching.size(), "C1", "as many lhs as rhs batching axes");
  ctx.check(dot.lhs_contracting.size() == dot.rhs_contracting.size(), "C2", "as many lhs as rhs contracting axes");
  check_axes(ctx, joined(dot.lhs_batching, dot.lhs_contracting), a.rank(), "C3", "lhs axes");
  check_axes(ctx, joined(dot.rhs_batching, dot.rhs_contracting), b.rank(), "C4", "rhs axes");
  const Dims a_batch = pick(a.shape, dot.lhs_batching), b_batch = pick(b.shape, dot.rhs_batching);
  for (size_t i = 0; i < a_batch.size(); ++i) check_same_extent(ctx, a_batch[i], b_batch[i], "C9", "batching extents");
  const Dims a_inner = pick(a.shape, dot.lhs_contracting), b_inner = pick(b.shape, dot.rhs_contracting);
  for (size_t i = 0; i < a_inner.size(); ++i)
    check_same_extent(ctx, a_inner[i], b_inner[i], "C10", "contracting extents");
  ctx.check(contraction_takes(a.dtype, b.dtype, dot.dtype), "C13", "no product of ", name(a.dtype), " and ",
            name(b.dtype), " into ", name(dot.dtype));
  Dims shape = a_batch;
  for (const Dim d : pick(a.shape, other_axes(a.rank(), dot.lhs_batching, dot.lhs_contracting))) shape.push_back(d);
  for (const Dim d : pick(b.shape, other_axes(b.rank(), dot.rhs_batching, dot.rhs_contracting))) shape.push_back(d);
  return {{dot.dtype, std::move(shape)}};
}

// The elements with their axes in the given order, dense.
template <class T>
std::vector<T> arranged(const Tensor& tensor, const std::vector<int64_t>& order) {
  std::vector<T> flat = elements_as<T>(tensor);
  if (std::is_sorted(order.begin(), order.end())) return flat;
  std::vector<T> out(flat.size());
  T* to = out.data();
  walk<1>(pick(tensor.shape(), order), {pick(row_major_strides(tensor.shape()), order)},
          [&](const auto& at) { *to++ = flat[static_cast<size_t>(at[0])]; });
  return out;
}

void evaluate(EvaluateContext& ctx) {
  const auto& dot = ctx.as<DotGeneralAttributes>();
  const Tensor &lhs = ctx.operands[0], &rhs = ctx.operands[1];
  const auto lhs_free = other_axes(lhs.rank(), dot.lhs_batching, dot.lhs_contracting);
  const auto rhs_free = other_axes(rhs.rank(), dot.rhs_batching, dot.rhs_contracting);
  const int64_t batch = element_count(pick(lhs.shape(), dot.lhs_batching));
  const int64_t m = element_count(pick(lhs.shape(), lhs_free)), n = element_count(pick(rhs.shape(), rhs_free));
  const int64_t k = element_count(pick(lhs.shape(), dot.lhs_contracting));
  Tensor& result = ctx.make_result();
  dispatch_product(lhs.dtype(), rhs.dtype(), result.dtype(), "dot_general", [&]<class T>(TypeTag<T>) {
    const auto a = arranged<T>(lhs, joined(joined(dot.lhs_batching, lhs_free), dot.lhs_contracting));
    const auto b = arranged<T>(rhs, joined(joined(dot.rhs_batching, dot.rhs_contracting), rhs_free));
    std::vector<T> c(static_cast<size_t>(batch * m * n));
    std::vector<T> panel(static_cast<size_t>(k * kPanel)), sums(static_cast<size_t>(m * kPanel));
    for (int64_t s = 0; s < batch; ++s) {
      for (int64_t first = 0; first < n; first += kPanel) {
        const int64_t width = std::min(kPanel, n - first);
        for (int64_t p = 0; p < k; ++p) std::copy_n(&b[(s * k + p) * n + first], width, &panel[p * kPanel]);
        multiply_panel(a.data() + s * m * k, panel.data(), m, k, sums.data());
        for (int64_t i = 0; i < m; ++i) std::copy_n(&sums[i * kPanel], width, &c[(s * m + i) * n + first]);
      }
    }
    store_products(c, result);
  });
}

// The gradient of one operand: the result's gradient times the other operand, axes put back in the operand's order.
Value gradient_of(VjpContext& ctx, bool of_lhs) {
  const auto& dot = ctx.op.as<DotGeneralAttributes>();
  const auto& my_batching = of_lhs ? dot.lhs_batching : dot.rhs_batching;
  const auto& my_contracting = of_lhs ? dot.lhs_contracting : dot.rhs_contracting;
  const auto& its_batching = of_lhs ? dot.rhs_batching : dot.lhs_batching;
  const auto& its_contracting = of_lhs ? dot.rhs_contracting : dot.lhs_contracting;
  const Value mine = ctx.operands[of_lhs ? 0 : 1], other = ctx.operands[of_lhs ? 1 : 0];
  const DType dtype = ctx.build.dtype(mine);
  if (!is_float(dtype)) return {};
  const auto my_free = other_axes(ctx.build.rank(mine), my_batching, my_contracting);
  const auto its_free = other_axes(ctx.build.rank(other), its_batching, its_contracting);
  // Where the other operand's free axes lie in the result.
  const int64_t first = static_cast<int64_t>(my_batching.size() + (of_lhs ? my_free.size() : 0));
  DotGeneralAttributes product;
  product.dtype = dtype;
  for (size_t i = 0; i < my_batching.size(); ++i) product.lhs_batching.push_back(static_cast<int64_t>(i));
  product.rhs_batching = its_batching;
  for (size_t i = 0; i < its_free.size(); ++i) product.lhs_contracting.push_back(first + static_cast<int64_t>(i));
  product.rhs_contracting = its_free;
  const Value gradient = ctx.build.dot_general(ctx.gradients[0], other, product);
  // Its axes: batching, my free ones, then the contracted ones in ascending order of the other operand's axes.
  std::vector<int64_t> order = joined(my_batching, my_free);
  std::vector<int64_t> ascending = its_contracting;
  std::sort(ascending.begin(), ascending.end());
  for (const int64_t axis : ascending) {
    const auto pair = std::find(its_contracting.begin(), its_contracting.end(), axis) - its_contracting.begin();
    order.push_back(my_contracting[static_cast<size_t>(pair)]);
  }
  return ctx.build.transpose(gradient, inverse_permutation(order));
}

std::vector<Value> vjp(VjpContext& ctx) { return {gradient_of(ctx, true), gradient_of(ctx, false)}; }

PrintedOp print(const PrintContext& ctx) {
  const auto& dot = ctx.op.as<DotGeneralAttributes>();
  PrintedOp out;
  out.attributes =
      str("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = ", dot.lhs_batching,
          ", rhs_batching_dimensions = ", dot.rhs_batching, ", lhs_contracting_dimensions = ", dot.lhs_contracting,
          ", rhs_contracting_dimensions = ", dot.rhs_contracting, ">");
  return out;
}

}  // namespace

const Primitive prim::dot_general{
    .name = "dot_general", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::dot_general(Value a, Value b, DotGeneralAttributes attributes) {
  return emit1(prim::dot_general, {a, b}, std::make_shared<DotGeneralAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
