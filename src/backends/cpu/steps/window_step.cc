// Gathers and scatters of windows at positions that only the run knows, with batching axes (GatherElements, GatherND,
// GridSample's corners, ScatterND), and padding. What they walk is laid out while a plan is bound: a run allocates
// nothing.
#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/copy.h"
#include "base/dispatch.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/index_windows.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kGrain = 4096;  // elements that are worth a task

// Where windows lie. "Windowed" is gather's result and scatter's updates; strides are in elements.
struct WindowMap {
  struct Axis {
    int64_t size, index, windowed, operand;
  };
  struct Component {  // of an index vector
    int64_t step, stride, last;
  };
  SmallVector<Axis, 6> batch;   // of windows, in the indices' order
  SmallVector<Axis, 6> window;  // inside one
  SmallVector<Component, 4> components;
  int64_t windows = 1, elements = 1;

  // `sizes`: of a window, by operand axis.
  WindowMap(const ir::IndexWindows& map, const View& operand, const View& indices, const View& windowed,
            const std::vector<int64_t>& sizes) {
    const std::vector<int64_t> axes = map.indices_batch_dims(indices.rank());
    const std::vector<int64_t> batch_axes = ir::other_axes(windowed.rank(), map.window_dims);
    for (size_t i = 0; i < axes.size(); ++i) {
      Axis axis{indices.dim(axes[i]), indices.stride(axes[i]), windowed.stride(batch_axes[i]), 0};
      for (size_t k = 0; k < map.operand_batching_dims.size(); ++k)
        if (map.indices_batching_dims[k] == axes[i]) axis.operand += operand.stride(map.operand_batching_dims[k]);
      windows *= axis.size;
      batch.push_back(axis);
    }
    const std::vector<int64_t> along = map.operand_window_dims(operand.rank());
    for (size_t i = 0; i < along.size(); ++i) {
      const int64_t size = sizes[static_cast<size_t>(along[i])];
      elements *= size;
      if (size != 1) window.push_back({size, 0, windowed.stride(map.window_dims[i]), operand.stride(along[i])});
    }
    const bool scalar = map.index_vector_dim == indices.rank();
    for (size_t i = 0; i < map.index_map.size(); ++i) {
      const int64_t axis = map.index_map[i];
      components.push_back({scalar ? 0 : indices.stride(map.index_vector_dim) * static_cast<int64_t>(i),
                            operand.stride(axis), operand.dim(axis) - sizes[static_cast<size_t>(axis)]});
    }
  }

  // fn(operand element, windowed element) for `count` windows from `first` on. `clamps`: starts are moved inside; else
  // windows that do not lie inside are left out.
  template <bool clamps, class Index, class Fn>
  void walk(const Index* indices, int64_t first, int64_t count, const Fn& fn) const {
    SmallVector<int64_t, 6> at;
    int64_t index = 0, windowed = 0, operand = 0, rest = first;
    for (size_t i = 0; i < batch.size(); ++i) at.push_back(0);
    for (size_t i = batch.size(); i-- > 0;) {
      at[i] = rest % batch[i].size;
      rest /= batch[i].size;
      index += at[i] * batch[i].index;
      windowed += at[i] * batch[i].windowed;
      operand += at[i] * batch[i].operand;
    }
    for (int64_t n = 0; n < count; ++n) {
      int64_t start = operand;
      bool inside = true;
      for (const Component& c : components) {
        int64_t value = static_cast<int64_t>(indices[index + c.step]);
        if (clamps) value = std::clamp<int64_t>(value, 0, c.last);
        inside = inside && value >= 0 && value <= c.last;
        start += value * c.stride;
      }
      if (clamps || inside) fn(start, windowed);
      for (size_t i = batch.size(); i-- > 0;) {
        index += batch[i].index;
        windowed += batch[i].windowed;
        operand += batch[i].operand;
        if (++at[i] < batch[i].size) break;
        index -= at[i] * batch[i].index;
        windowed -= at[i] * batch[i].windowed;
        operand -= at[i] * batch[i].operand;
        at[i] = 0;
      }
    }
  }

  // Single elements, each found by one index: lines of them along the last batch axis.
  bool is_lines() const { return window.size() == 0 && components.size() == 1 && batch.size() > 0; }

  template <class T, class Index>
  void gather_lines(const Index* indices, const T* from, T* to, int64_t begin, int64_t end) const {
    const Axis& along = batch[batch.size() - 1];
    const Component c = components[0];
    for (int64_t line = begin; line < end; ++line) {
      int64_t index = 0, windowed = 0, operand = 0, rest = line;
      for (size_t i = batch.size() - 1; i-- > 0;) {
        const int64_t at = rest % batch[i].size;
        rest /= batch[i].size;
        index += at * batch[i].index;
        windowed += at * batch[i].windowed;
        operand += at * batch[i].operand;
      }
      const Index* position = indices + index;
      const T* x = from + operand;
      T* y = to + windowed;
      const auto pick = [&](int64_t i) {
        const int64_t value = std::clamp<int64_t>(static_cast<int64_t>(position[i * along.index]), 0, c.last);
        return x[i * along.operand + value * c.stride];
      };
      if (along.windowed == 1) {
        for (int64_t i = 0; i < along.size; ++i) y[i] = pick(i);
      } else {
        for (int64_t i = 0; i < along.size; ++i) y[i * along.windowed] = pick(i);
      }
    }
  }

  // fn(operand element, windowed element, elements, operand stride, windowed stride) for the innermost runs of a
  // window.
  template <class Fn>
  void runs(int64_t operand, int64_t windowed, size_t axis, const Fn& fn) const {
    if (window.size() <= axis) return fn(operand, windowed, int64_t{1}, int64_t{1}, int64_t{1});
    const Axis& a = window[axis];
    if (axis + 1 == window.size()) return fn(operand, windowed, a.size, a.operand, a.windowed);
    for (int64_t i = 0; i < a.size; ++i) runs(operand + i * a.operand, windowed + i * a.windowed, axis + 1, fn);
  }
};

template <class T>
void copy_run(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

template <class Fn>
void with_indices(DType dtype, const Fn& fn) {
  if (dtype == DType::i32)
    fn(TypeTag<int32_t>{});
  else
    fn(TypeTag<int64_t>{});
}

class GatherStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::GatherAttributes>();
    bind.dense(op_.operands[1]);
    const View x = bind.view(op_.operands[0]), indices = bind.view(op_.operands[1]);
    const View to = bind.allocate(op_.results[0]);
    if (to.size() == 0) return bind.untouch();
    const bool nowhere = x.size() == 0;
    const WindowMap map(ir::IndexWindows(a), x, indices, to, bind.values(a.slice_sizes));
    bind.launch("gather", 0,
                [map, nowhere, x = Place(x), indices = Place(indices), to = Place(to)](const RunContext& run) {
                  if (nowhere) throw Error(ErrorCode::invalid_input, "gather: an index into an empty operand");
                  dispatch_width(x.dtype, "gather", [&]<class T>(TypeTag<T>) {
                    with_indices(indices.dtype, [&]<class Index>(TypeTag<Index>) {
                      gather(map, run.at<const T>(x), run.at<const Index>(indices), run.at<T>(to), run.pool);
                    });
                  });
                });
  }

 private:
  template <class T, class Index>
  static void gather(const WindowMap& map, const T* from, const Index* indices, T* to, ThreadPool& pool) {
    if (map.is_lines()) {
      const int64_t length = map.batch[map.batch.size() - 1].size;
      pool.parallel_for(map.windows / length, std::max<int64_t>(1, kGrain / length),
                        [&](int64_t begin, int64_t end) { map.gather_lines(indices, from, to, begin, end); });
      return;
    }
    const int64_t grain = std::max<int64_t>(1, kGrain / map.elements);
    pool.parallel_for(map.windows, grain, [&](int64_t begin, int64_t end) {
      if (map.window.size() == 0) {
        map.walk<true>(indices, begin, end - begin, [&](int64_t x, int64_t y) { to[y] = from[x]; });
        return;
      }
      map.walk<true>(indices, begin, end - begin, [&](int64_t x, int64_t y) {
        map.runs(x, y, 0, [&](int64_t first, int64_t result, int64_t count, int64_t stride, int64_t result_stride) {
          copy_run(from + first, stride, to + result, result_stride, count);
        });
      });
    });
  }
};

// Later windows replace earlier ones: one after another.
class ScatterStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const ir::IndexWindows windows(op_.as<ir::ScatterAttributes>());
    bind.dense(op_.operands[1]);
    const View x = bind.view(op_.operands[0]);
    const View to = bind.allocate(op_.results[0]);
    launch_copy(bind, x, to);
    const View indices = bind.view(op_.operands[1]), updates = bind.view(op_.operands[2]);
    bind.touch_again(to.buffer);
    if (updates.size() == 0) return bind.untouch();
    std::vector<int64_t> sizes(static_cast<size_t>(x.rank()), 1);
    const std::vector<int64_t> along = windows.operand_window_dims(x.rank());
    for (size_t i = 0; i < along.size(); ++i)
      sizes[static_cast<size_t>(along[i])] = updates.dim(windows.window_dims[i]);
    const WindowMap map(windows, to, indices, updates, sizes);
    bind.launch(
        "scatter", 0, [map, indices = Place(indices), updates = Place(updates), to = Place(to)](const RunContext& run) {
          dispatch_width(to.dtype, "scatter", [&]<class T>(TypeTag<T>) {
            const T* from = run.at<const T>(updates);
            T* result = run.at<T>(to);
            with_indices(indices.dtype, [&]<class Index>(TypeTag<Index>) {
              map.walk<false>(run.at<const Index>(indices), 0, map.windows, [&](int64_t x, int64_t y) {
                map.runs(x, y, 0, [&](int64_t first, int64_t update, int64_t count, int64_t stride, int64_t step) {
                  copy_run(from + update, step, result + first, stride, count);
                });
              });
            });
          });
        });
  }
};

// The value everywhere, then the operand inside; negative padding crops it.
class PadStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::PadAttributes>();
    View from = bind.view(op_.operands[0]);
    const View value = bind.view(op_.operands[1]);
    const View to = bind.allocate(op_.results[0], axis_order(from));
    const int64_t count = to.size(), width = bit_width(to.dtype) / 8;
    if (count == 0) return bind.untouch();
    bind.launch("fill", 0, [count, value = Place(value), to = Place(to)](const RunContext& run) {
      dispatch_width(to.dtype, "pad", [&]<class T>(TypeTag<T>) {
        T* result = run.at<T>(to);
        const T with = *run.at<const T>(value);
        run.pool.parallel_for(count, 4 * kGrain,
                              [&](int64_t begin, int64_t end) { std::fill(result + begin, result + end, with); });
      });
    });
    View part = to;
    for (size_t i = 0; i < from.shape.size(); ++i) {
      const int64_t low = bind.value(a.low[i]), step = bind.value(a.interior[i]) + 1, extent = from.shape[i];
      // Elements that have a place in the result: low + k * step in [0, result extent).
      const int64_t first = low < 0 ? (-low + step - 1) / step : 0;
      const int64_t end = std::min(extent, to.shape[i] - low <= 0 ? 0 : (to.shape[i] - low - 1) / step + 1);
      if (first >= end) return;
      from.offset += first * from.strides[i] * width;
      part.offset += (low + first * step) * to.strides[i] * width;
      from.shape[i] = part.shape[i] = end - first;
      part.strides[i] = to.strides[i] * step;
    }
    bind.touch_again(from.buffer);
    bind.touch_again(to.buffer);
    launch_copy(bind, from, part);
  }
};

}  // namespace

std::unique_ptr<Step> plan_windows(Planner& planner, const ir::Op& op) {
  const bool gathers = op.primitive == &ir::prim::gather, scatters = op.primitive == &ir::prim::scatter;
  if (!gathers && !scatters && op.primitive != &ir::prim::pad) return nullptr;
  const char* reason = nullptr;
  if (is_packed(planner.type(op.results[0]).dtype)) reason = "elements of less than a byte";
  if (gathers || scatters) {
    const DType indices = planner.type(op.operands[1]).dtype;
    if (indices != DType::i64 && indices != DType::i32) reason = "indices are neither i32 nor i64";
  }
  if (scatters && op.as<ir::ScatterAttributes>().kind != ir::ScatterAttributes::Kind::set)
    reason = "updates are combined with what is there";
  if (reason) {
    planner.refuse(op, "windows", reason);
    return nullptr;
  }
  if (gathers) return std::make_unique<GatherStep>(op);
  if (scatters) return std::make_unique<ScatterStep>(op);
  return std::make_unique<PadStep>(op);
}

}  // namespace transmuter::cpu
