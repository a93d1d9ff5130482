// dot_general by the packed matrix product: any axes as strides, weights packed once, bias, activation and residual on
// the tile.
#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/planner.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// One loop of the product: an extent and what a step of it means in each operand.
struct Loop {
  int64_t extent, a, b, c, r;
};
using Loops = std::vector<Loop>;

// Drops extents of 1 and joins neighbours that run on in every operand.
Loops joined(const Loops& loops) {
  Loops out;
  for (const Loop& l : loops) {
    if (l.extent == 1) continue;
    if (!out.empty()) {
      Loop& o = out.back();
      if (o.a == l.a * l.extent && o.b == l.b * l.extent && o.c == l.c * l.extent && o.r == l.r * l.extent) {
        o = {o.extent * l.extent, l.a, l.b, l.c, l.r};
        continue;
      }
    }
    out.push_back(l);
  }
  return out;
}

struct Axes {
  std::vector<int64_t> lhs_free, rhs_free;
};

Axes free_axes(const ir::DotGeneralAttributes& d, int64_t lhs_rank, int64_t rhs_rank) {
  auto has = [](const std::vector<int64_t>& list, int64_t axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  };
  Axes axes;
  for (int64_t i = 0; i < lhs_rank; ++i) {
    if (!has(d.lhs_batching, i) && !has(d.lhs_contracting, i)) axes.lhs_free.push_back(i);
  }
  for (int64_t i = 0; i < rhs_rank; ++i) {
    if (!has(d.rhs_batching, i) && !has(d.rhs_contracting, i)) axes.rhs_free.push_back(i);
  }
  return axes;
}

class DotStep : public Step {
 public:
  DotStep(const ir::Op& op, FusedEpilogue epilogue, Axes axes) : op_(op), e_(epilogue), axes_(std::move(axes)) {
    reads = {op.operands[0], op.operands[1]};
    if (e_.bias) reads.push_back(e_.bias);
    if (e_.residual) reads.push_back(e_.residual);
    writes = {e_.result};
  }

  void use_packed(std::shared_ptr<const Packed> packed) {
    packed_ = std::move(packed);
    reads.erase(reads.begin() + 1);
  }
  void set_order(SmallVector<int64_t, 6> order) { order_ = order; }

  void bind(Binder& bind) const override {
    const auto& d = op_.as<ir::DotGeneralAttributes>();
    if (e_.bias) bind.dense(e_.bias);
    View a = bind.view(op_.operands[0]), b;
    if (!packed_) b = bind.view(op_.operands[1]);
    Loops inner = contracted(d, a, b);
    if (inner.size() > 1) {
      // The contracted axes do not run on: one side lies anew.
      bind.untouch();
      a = ordered_copy(bind, a, d.lhs_batching, axes_.lhs_free, d.lhs_contracting);
      if (!packed_)
        b = ordered_copy(bind, bind.view(op_.operands[1]), d.rhs_batching, axes_.rhs_free, d.rhs_contracting);
      inner = contracted(d, a, b);
      bind.untouch();
      bind.touch_again(a.buffer);
      if (!packed_) bind.touch_again(b.buffer);
    }
    if (e_.bias) bind.view(e_.bias);
    const View c = bind.allocate(e_.result, order_);
    View r = c;
    if (e_.residual) r = bind.view(e_.residual);
    GemmArgs args;
    if (product(c.shape) == 0) return bind.untouch();
    fill(bind, d, a, b, c, r, inner, args);
    const int32_t packed = packed_ ? bind.constant(packed_->bytes, 0) : -1;
    const View bias = e_.bias ? bind.view(e_.bias) : View{};
    const int32_t scratch = bind.scratch(static_cast<int64_t>(gemm_scratch_bytes(args, bind.threads())));
    double flops = 2.0 * static_cast<double>(args.m * args.n * args.k);
    for (int i = 0; i < args.batch_rank; ++i) flops *= static_cast<double>(args.batch[i]);
    const bool residual = static_cast<bool>(e_.residual);
    bind.launch(packed_ ? "gemm" : "gemm-batch", flops, [=](const RunContext& run) {
      GemmArgs g = args;
      g.a = run.at(a);
      g.b = packed >= 0 ? static_cast<const void*>(run.scratch<std::byte>(packed)) : run.at<void>(b);
      g.c = run.at(c);
      if (bias.buffer >= 0) g.epilogue.column_bias = run.at(bias);
      if (residual) g.epilogue.residual = run.at(r);
      gemm(g, run.scratch(scratch), run.pool);
    });
  }

 private:
  Loops contracted(const ir::DotGeneralAttributes& d, const View& a, const View& b) const {
    Loops loops;
    for (size_t i = 0; i < d.lhs_contracting.size(); ++i) {
      // A packed operand runs on by itself, in the order of the rhs axes.
      loops.push_back({a.dim(d.lhs_contracting[i]), a.stride(d.lhs_contracting[i]),
                       packed_ ? 0 : b.stride(d.rhs_contracting[i]), 0, 0});
    }
    if (!packed_) return joined(loops);
    int64_t stride = 1;
    for (size_t i = loops.size(); i-- > 0;) {
      loops[i].b = stride;
      stride *= loops[i].extent;
    }
    return joined(loops);
  }

  static View ordered_copy(Binder& bind, const View& x, const std::vector<int64_t>& batch,
                           const std::vector<int64_t>& free, const std::vector<int64_t>& contracting) {
    std::vector<int64_t> order = batch;
    order.insert(order.end(), free.begin(), free.end());
    order.insert(order.end(), contracting.begin(), contracting.end());
    bind.untouch();
    const View copy = bind.dense_copy(transposed(x, order));
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return transposed(copy, back);
  }

  void fill(Binder&, const ir::DotGeneralAttributes& d, const View& a, const View& b, const View& c, const View& r,
            const Loops& inner, GemmArgs& args) const {
    Loops batch, rows, columns;
    int64_t axis = 0;
    const int64_t matrix = packed_ ? static_cast<int64_t>(packed_->matrix_bytes / sizeof(float)) : 0;
    std::vector<int64_t> packed_strides(d.rhs_batching.size(), 0);
    if (packed_) {
      int64_t stride = matrix;
      for (size_t i = d.lhs_batching.size(); i-- > 0;) {
        packed_strides[i] = stride;
        stride *= a.dim(d.lhs_batching[i]);
      }
    }
    for (size_t i = 0; i < d.lhs_batching.size(); ++i, ++axis) {
      batch.push_back({a.dim(d.lhs_batching[i]), a.stride(d.lhs_batching[i]),
                       packed_ ? packed_strides[i] : b.stride(d.rhs_batching[i]), c.stride(axis), r.stride(axis)});
    }
    for (int64_t free : axes_.lhs_free) {
      rows.push_back({a.dim(free), a.stride(free), 0, c.stride(axis), r.stride(axis)});
      ++axis;
    }
    for (int64_t free : axes_.rhs_free) {
      // Packed columns run on in the order of the axes.
      columns.push_back({c.dim(axis), 0, packed_ ? c.stride(axis) : b.stride(free), c.stride(axis), r.stride(axis)});
      ++axis;
    }
    rows = joined(rows);
    columns = joined(columns);
    const Loop one{1, 0, 0, 0, 0};
    // What does not join runs as a batch; the longest run is the matrix axis.
    auto longest = [&](Loops& loops) {
      if (loops.empty()) return one;
      auto at = std::max_element(loops.begin(), loops.end(),
                                 [](const Loop& x, const Loop& y) { return x.extent < y.extent; });
      const Loop found = *at;
      loops.erase(at);
      batch.insert(batch.end(), loops.begin(), loops.end());
      return found;
    };
    const Loop row = longest(rows), column = longest(columns), k = inner.empty() ? one : inner[0];
    batch = joined(batch);
    args.m = row.extent;
    args.n = column.extent;
    args.k = k.extent;
    for (const Loop& l : inner) args.k = l.extent == 0 ? 0 : args.k;
    args.a_row = row.a;
    args.a_column = k.a;
    args.b_row = k.b;
    args.b_column = column.b;
    args.c_row = row.c;
    args.c_column = column.c;
    args.b_packed = packed_ != nullptr;
    args.epilogue.alpha = e_.alpha;
    args.epilogue.activation = e_.activation;
    args.epilogue.first = e_.first;
    args.epilogue.second = e_.second;
    args.epilogue.combine = e_.combine;
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

  const ir::Op& op_;
  FusedEpilogue e_;
  Axes axes_;
  std::shared_ptr<const Packed> packed_;
  SmallVector<int64_t, 6> order_;
};

// Packs a constant right-hand side: [batch] matrices of contracted x free, if each group of axes runs on in the weight.
std::shared_ptr<const Packed> pack(Planner& planner, const ir::Op& op, const Axes& axes) {
  ConstantView weight;
  if (!planner.constant_view(op.operands[1], weight)) return nullptr;
  const auto& d = op.as<ir::DotGeneralAttributes>();
  auto group = [&](const std::vector<int64_t>& list) {
    Loops loops;
    for (int64_t axis : list) loops.push_back({weight.view.dim(axis), weight.view.stride(axis), 0, 0, 0});
    return joined(loops);
  };
  const Loops batch = group(d.rhs_batching), inner = group(d.rhs_contracting), columns = group(axes.rhs_free);
  if (batch.size() > 1 || inner.size() > 1 || columns.size() > 1) {
    planner.refuse(op, "gemm with packed weights", "the weight's axes do not join");
    return nullptr;
  }
  auto extent = [](const Loops& l) { return l.empty() ? 1 : l[0].extent; };
  auto stride = [](const Loops& l) { return l.empty() ? 0 : l[0].a; };
  const int64_t k = extent(inner), n = extent(columns), count = extent(batch);
  if (k * n * count == 0) return nullptr;
  const Storage source = weight.tensor.dtype() == DType::f32   ? Storage::f32
                         : weight.tensor.dtype() == DType::f16 ? Storage::f16
                                                               : Storage::bf16;
  const std::string key = str("gemm ", reinterpret_cast<uintptr_t>(weight.tensor.bytes()), " ", weight.view.offset, " ",
                              k, " ", n, " ", count, " ", stride(inner), " ", stride(columns), " ", stride(batch));
  auto make = [&] {
    const size_t matrix_bytes = packed_b_bytes(k, n);
    auto packed = std::make_shared<Packed>(planner.packed_memory(), matrix_bytes * static_cast<size_t>(count));
    packed->matrix_bytes = matrix_bytes;
    const std::byte* bytes = planner.aligned_bytes(weight.tensor);
    const size_t width = static_cast<size_t>(bit_width(weight.tensor.dtype())) / 8;
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* from = bytes + weight.view.offset + static_cast<size_t>(i * stride(batch)) * width;
      pack_b(k, n, from, source, stride(inner), stride(columns), Storage::f32,
             packed->bytes + static_cast<size_t>(i) * matrix_bytes, planner.pool());
    }
    release_pages(weight.tensor.bytes(), weight.tensor.nbytes());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  return planner.has_lasting_address(op.operands[1]) ? planner.store().get<Packed>(key, weight.tensor, make) : make();
}

// A transpose that is the only reader gets its result dense if the product is stored in the transpose's order.
SmallVector<int64_t, 6> storage_order(const Planner& planner, ir::Value result) {
  SmallVector<int64_t, 6> order;
  const ir::Op* user = planner.only_user(result);
  if (!user || user->primitive != &ir::prim::transpose) return order;
  for (int64_t axis : user->as<ir::AxesAttributes>().axes) order.push_back(axis);
  // Columns must stay innermost, or every store is a scatter.
  if (order.back() != static_cast<int64_t>(order.size()) - 1) order.clear();
  return order;
}

}  // namespace

bool plan_dot_fused(Planner& planner, const ir::Op& op) {
  const auto& d = op.as<ir::DotGeneralAttributes>();
  const ir::Type& lhs = planner.type(op.operands[0]);
  const ir::Type& rhs = planner.type(op.operands[1]);
  if (lhs.dtype != DType::f32 || d.dtype != DType::f32) {
    planner.refuse(op, "gemm", str("computes f32, got ", name(lhs.dtype), " -> ", name(d.dtype)));
    return false;
  }
  Axes axes = free_axes(d, lhs.rank(), rhs.rank());
  std::shared_ptr<const Packed> packed;
  if (rhs.dtype == DType::f32 || rhs.dtype == DType::f16 || rhs.dtype == DType::bf16) packed = pack(planner, op, axes);
  if (!packed && rhs.dtype != DType::f32) {
    planner.refuse(op, "gemm", str("the right-hand side is ", name(rhs.dtype), " and no fixed weight"));
    return false;
  }
  // A bias runs along the one column axis, the last of the result; -1: there is no such axis.
  const int64_t feature_axis = axes.rhs_free.size() == 1 ? planner.type(op.results[0]).rank() - 1 : -1;
  const FusedEpilogue epilogue = match_epilogue(planner, op, feature_axis);
  auto step = std::make_unique<DotStep>(op, epilogue, axes);
  step->location = op.location;
  step->set_order(storage_order(planner, epilogue.result));
  if (packed) step->use_packed(std::move(packed));
  planner.absorb(op);
  planner.move_to(std::move(step), epilogue.last ? *epilogue.last : op);
  return true;
}

}  // namespace transmuter::cpu
