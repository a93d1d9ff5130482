// dot_general by the packed matrix product: any axes as strides, weights packed once, bias, activation and residual on
// the tile.
#include "backends/cpu/steps/dot_step.h"

#include <algorithm>

#include "backends/cpu/kernels/rounded.h"
#include "base/strings.h"

namespace transmuter::cpu {

DotLoops joined(const DotLoops& loops) {
  DotLoops out;
  for (const DotLoop& l : loops) {
    if (l.extent == 1) continue;
    if (!out.empty()) {
      DotLoop& o = out.back();
      if (o.a == l.a * l.extent && o.b == l.b * l.extent && o.c == l.c * l.extent && o.r == l.r * l.extent) {
        o = {o.extent * l.extent, l.a, l.b, l.c, l.r};
        continue;
      }
    }
    out.push_back(l);
  }
  return out;
}

FreeAxes free_axes(const ir::DotGeneralAttributes& d, int64_t lhs_rank, int64_t rhs_rank) {
  auto has = [](const std::vector<int64_t>& list, int64_t axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  };
  FreeAxes axes;
  for (int64_t i = 0; i < lhs_rank; ++i) {
    if (!has(d.lhs_batching, i) && !has(d.lhs_contracting, i)) axes.lhs.push_back(i);
  }
  for (int64_t i = 0; i < rhs_rank; ++i) {
    if (!has(d.rhs_batching, i) && !has(d.rhs_contracting, i)) axes.rhs.push_back(i);
  }
  return axes;
}

namespace {

View ordered_copy(Binder& bind, const View& x, const std::vector<int64_t>& batch, const std::vector<int64_t>& free,
                  const std::vector<int64_t>& contracting) {
  std::vector<int64_t> order = batch;
  order.insert(order.end(), free.begin(), free.end());
  order.insert(order.end(), contracting.begin(), contracting.end());
  bind.untouch();
  const View copy = bind.dense_copy(transposed(x, order));
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return transposed(copy, back);
}

}  // namespace

DotStep::DotStep(const ir::Op& op, ir::DotGeneralAttributes d, FusedEpilogue epilogue, FreeAxes axes, PackedOperand rhs)
    : lhs_(op.operands[0]),
      rhs_value_(op.operands[1]),
      d_(std::move(d)),
      e_(epilogue),
      axes_(std::move(axes)),
      rhs_(std::move(rhs)) {
  reads = {op.operands[0]};
  if (!rhs_.packed) reads.push_back(op.operands[1]);
  if (e_.bias) reads.push_back(e_.bias);
  if (e_.residual) reads.push_back(e_.residual);
  writes = {e_.result};
}

bool DotStep::prepare(Binder& bind, Bound& out) const {
  if (e_.bias) bind.dense(e_.bias);
  View a = bind.view(lhs_), b;
  if (!rhs_.packed) b = bind.view(rhs_value_);
  DotLoops inner = contracted(a, b);
  if (inner.size() > 1) {
    // The contracted axes do not run on: one side lies anew.
    bind.untouch();
    a = ordered_copy(bind, a, d_.lhs_batching, axes_.lhs, d_.lhs_contracting);
    if (!rhs_.packed) b = ordered_copy(bind, bind.view(rhs_value_), d_.rhs_batching, axes_.rhs, d_.rhs_contracting);
    inner = contracted(a, b);
    bind.untouch();
    bind.touch_again(a.buffer);
    if (!rhs_.packed) bind.touch_again(b.buffer);
  }
  if (e_.bias) out.bias = bind.view(e_.bias);
  const View c = bind.allocate(e_.result, order_);
  View r = c;
  if (e_.residual) out.residual = r = bind.view(e_.residual);
  if (product(c.shape) == 0) return false;
  fill(a, b, c, r, inner, out.args);
  out.a = a;
  out.b = b;
  out.c = c;
  if (rhs_.packed) out.packed = bind.constant(rhs_.packed->bytes, 0);
  out.flops = 2.0 * static_cast<double>(out.args.m * out.args.n * out.args.k);
  for (int i = 0; i < out.args.batch_rank; ++i) out.flops *= static_cast<double>(out.args.batch[i]);
  return true;
}

GemmArgs DotStep::Bound::with_pointers(const RunContext& run) const {
  GemmArgs g = args;
  g.a = run.at(a);
  g.b = packed >= 0 ? static_cast<const void*>(run.scratch<std::byte>(packed)) : run.at<void>(b);
  g.c = run.at(c);
  if (bias.buffer >= 0) g.epilogue.column_bias = run.at(bias);
  if (residual.buffer >= 0) g.epilogue.residual = run.at(residual);
  return g;
}

void DotStep::bind(Binder& bind) const {
  Bound bound;
  if (!prepare(bind, bound)) return bind.untouch();
  if (rhs_.rounded) {
    const size_t bytes = rounded_gemm_scratch_bytes({&bound.args, 1}, bind.threads());
    const int32_t scratch = bind.scratch(static_cast<int64_t>(bytes));
    bind.launch("gemm-rounded", bound.flops, [=](const RunContext& run) {
      const GemmArgs args = bound.with_pointers(run);
      rounded_gemm({&args, 1}, run.scratch(scratch), run.pool);
    });
    return;
  }
  const int32_t scratch = bind.scratch(static_cast<int64_t>(gemm_scratch_bytes(bound.args, bind.threads())));
  bind.launch(rhs_.packed ? "gemm" : "gemm-batch", bound.flops,
              [=](const RunContext& run) { gemm(bound.with_pointers(run), run.scratch(scratch), run.pool); });
}

DotLoops DotStep::contracted(const View& a, const View& b) const {
  DotLoops loops;
  for (size_t i = 0; i < d_.lhs_contracting.size(); ++i) {
    // A packed operand runs on by itself, in the order of the rhs axes.
    loops.push_back({a.dim(d_.lhs_contracting[i]), a.stride(d_.lhs_contracting[i]),
                     rhs_.packed ? 0 : b.stride(d_.rhs_contracting[i]), 0, 0});
  }
  if (!rhs_.packed) return joined(loops);
  int64_t stride = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    loops[i].b = stride;
    stride *= loops[i].extent;
  }
  return joined(loops);
}

void DotStep::fill(const View& a, const View& b, const View& c, const View& r, const DotLoops& inner,
                   GemmArgs& args) const {
  DotLoops batch, rows, columns;
  int64_t axis = 0;
  const int64_t matrix =
      rhs_.packed ? static_cast<int64_t>(rhs_.packed->matrix_bytes / (rhs_.storage == Storage::f32 ? 4 : 2)) : 0;
  std::vector<int64_t> packed_strides(d_.rhs_batching.size(), 0);
  if (rhs_.packed) {
    int64_t stride = matrix;
    for (size_t i = d_.lhs_batching.size(); i-- > 0;) {
      packed_strides[i] = stride;
      stride *= a.dim(d_.lhs_batching[i]);
    }
  }
  for (size_t i = 0; i < d_.lhs_batching.size(); ++i, ++axis) {
    batch.push_back({a.dim(d_.lhs_batching[i]), a.stride(d_.lhs_batching[i]),
                     rhs_.packed ? packed_strides[i] : b.stride(d_.rhs_batching[i]), c.stride(axis), r.stride(axis)});
  }
  for (int64_t free : axes_.lhs) {
    rows.push_back({a.dim(free), a.stride(free), 0, c.stride(axis), r.stride(axis)});
    ++axis;
  }
  for (int64_t free : axes_.rhs) {
    // Packed columns run on in the order of the axes.
    columns.push_back({c.dim(axis), 0, rhs_.packed ? c.stride(axis) : b.stride(free), c.stride(axis), r.stride(axis)});
    ++axis;
  }
  rows = joined(rows);
  columns = joined(columns);
  const DotLoop one{1, 0, 0, 0, 0};
  // What does not join runs as a batch; the longest run is the matrix axis.
  auto longest = [&](DotLoops& loops) {
    if (loops.empty()) return one;
    auto at = std::max_element(loops.begin(), loops.end(),
                               [](const DotLoop& x, const DotLoop& y) { return x.extent < y.extent; });
    const DotLoop found = *at;
    loops.erase(at);
    batch.insert(batch.end(), loops.begin(), loops.end());
    return found;
  };
  const DotLoop row = longest(rows), column = longest(columns), k = inner.empty() ? one : inner[0];
  batch = joined(batch);
  args.m = row.extent;
  args.n = column.extent;
  args.k = k.extent;
  for (const DotLoop& l : inner) args.k = l.extent == 0 ? 0 : args.k;
  args.a_row = row.a;
  args.a_column = k.a;
  args.b_row = k.b;
  args.b_column = column.b;
  args.c_row = row.c;
  args.c_column = column.c;
  args.b_packed = rhs_.packed != nullptr;
  args.b_storage = rhs_.storage;
  args.b_bits = rhs_.bits;
  args.epilogue = e_.arguments();
  args.epilogue.residual_row = row.r;
  args.epilogue.residual_column = column.r;
  if (batch.size() > static_cast<size_t>(GemmArgs::kMaxBatchRank)) {
    throw Error(ErrorCode::unsupported, str("dot_general: ", batch.size(), " batch axes that do not join"));
  }
  args.batch_rank = static_cast<int>(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    args.batch[i] = batch[i].extent;
    args.a_batch[i] = batch[i].a;
    args.b_batch[i] = batch[i].b;
    args.c_batch[i] = batch[i].c;
    args.residual_batch[i] = batch[i].r;
  }
}

}  // namespace transmuter::cpu
