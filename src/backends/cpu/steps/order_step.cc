// Selections, sorts by one key, and running sums and products, along the middle of [outer, reduce, inner].
#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/scan.h"
#include "backends/cpu/kernels/sort.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/reduce_shape.h"
#include "backends/cpu/steps/takes.h"
#include "base/dispatch.h"
#include "ir/composites/composites.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// What dispatch_real takes.
bool has_order(DType dtype) {
  return !is_packed(dtype) &&
         (dtype == DType::boolean || is_integer(dtype) || (is_float(dtype) && bit_width(dtype) > 8));
}

class TopkStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::TopkAttributes>();
    const int64_t k = bind.value(a.k);
    const View x = bind.dense(op_.operands[0]);
    const View values = bind.allocate(op_.results[0]), positions = bind.allocate(op_.results[1]);
    if (values.size() == 0) return bind.untouch();
    bind.launch("topk", static_cast<double>(x.size()),
                [largest = a.largest, k, shape = reduce_shape(x, a.axis), x = Place(x), values = Place(values),
                 positions = Place(positions)](const RunContext& run) {
                  top_k(largest, x.dtype, run.at<void>(x), shape, k, run.at<void>(values), run.at<int64_t>(positions),
                        &run.pool);
                });
  }
};

// The other operands follow the key's positions.
class SortStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::SortAttributes>();
    struct Follower {
      Place from, to;
    };
    SmallVector<Follower, 4> followers;
    const View key = bind.dense(op_.operands[0]);
    for (size_t i = 1; i < op_.operands.size(); ++i) followers.push_back({bind.dense(op_.operands[i]), {}});
    // dense() may have launched copies: everything is touched again for this launch.
    bind.touch_again(key.buffer);
    for (const Follower& f : followers) bind.touch_again(f.from.buffer);
    const View sorted = bind.allocate(op_.results[0]);
    for (size_t i = 0; i < followers.size(); ++i) followers[i].to = bind.allocate(op_.results[i + 1]);
    if (key.size() == 0) return bind.untouch();
    const int32_t scratch = followers.empty() ? -1 : bind.scratch(key.size() * int64_t{sizeof(int64_t)});
    bind.launch("sort", static_cast<double>(key.size()),
                [largest = a.descending, shape = reduce_shape(key, a.axis), scratch, followers, key = Place(key),
                 sorted = Place(sorted)](const RunContext& run) {
                  int64_t* positions = scratch < 0 ? nullptr : run.scratch<int64_t>(scratch);
                  top_k(largest, key.dtype, run.at<void>(key), shape, shape.reduce, run.at<void>(sorted), positions,
                        &run.pool);
                  for (const Follower& f : followers) {
                    dispatch_width(f.to.dtype, "sort", [&]<class T>(TypeTag<T>) {
                      follow(run.at<const T>(f.from), positions, shape, run.at<T>(f.to), run.pool);
                    });
                  }
                });
  }

 private:
  template <class T>
  static void follow(const T* from, const int64_t* positions, const ReduceShape& s, T* to, ThreadPool& pool) {
    const int64_t line = s.reduce * s.inner;
    parallel(&pool, s.outer * s.reduce, grain_for(s.inner), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* block = from + row / s.reduce * line;
        for (int64_t c = 0, at = row * s.inner; c < s.inner; ++c, ++at) to[at] = block[positions[at] * s.inner + c];
      }
    });
  }
};

class CumulativeStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::CumulativeAttributes>();
    const View x = bind.dense(op_.operands[0]);
    const View to = bind.allocate_over(op_.results[0], x);
    if (to.size() == 0) return bind.untouch();
    const ReduceKind kind = a.kind == ir::ReduceKind::add ? ReduceKind::sum : ReduceKind::mul;
    bind.launch("cumulative", static_cast<double>(x.size()),
                [kind, exclusive = a.exclusive, reverse = a.reverse, shape = reduce_shape(x, a.axis), x = Place(x),
                 to = Place(to)](const RunContext& run) {
                  cumulative(kind, x.dtype, run.at<void>(x), run.at<void>(to), shape, exclusive, reverse, &run.pool);
                });
  }
};

}  // namespace

bool topk_takes(const ir::Program& program, const ir::Op& op) {
  return op.primitive == &ir::composite::topk && has_order(program.type(op.operands[0]).dtype);
}

std::unique_ptr<Step> plan_order(Planner& planner, const ir::Op& op) {
  const bool selects = op.primitive == &ir::composite::topk, sorts = op.primitive == &ir::prim::sort,
             adds = op.primitive == &ir::composite::cumulative;
  if (!selects && !sorts && !adds) return nullptr;
  const DType dtype = planner.type(op.operands[0]).dtype;
  const char* reason = nullptr;
  if (!has_order(dtype) || (adds && dtype == DType::boolean)) reason = "dtype";
  if (sorts) {
    const auto& a = op.as<ir::SortAttributes>();
    if (a.keys != 1) reason = "several keys";
    if (a.nan_last && a.descending && is_float(dtype)) reason = "NaN comes after the least";
    for (const ir::Value v : op.operands)
      if (is_packed(planner.type(v).dtype)) reason = "elements of less than a byte";
  }
  if (reason) {
    planner.refuse(op, "order", reason);
    return nullptr;
  }
  if (selects) return std::make_unique<TopkStep>(op);
  if (sorts) return std::make_unique<SortStep>(op);
  return std::make_unique<CumulativeStep>(op);
}

}  // namespace transmuter::cpu
