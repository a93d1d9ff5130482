#include "backends/cpu/steps/copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/run/binder.h"
#include "base/dispatch.h"

namespace transmuter::cpu {
namespace {

// Axes of a copy: those of extent 1 are gone, neighbours that run on in both are one.
struct Plan {
  Extents shape, from, to;
};

Plan collapse(const View& from, const View& to) {
  Plan plan;
  for (size_t i = 0; i < from.shape.size(); ++i) {
    const int64_t extent = from.shape[i];
    if (extent == 1) continue;
    if (!plan.shape.empty() && plan.from.back() == from.strides[i] * extent &&
        plan.to.back() == to.strides[i] * extent) {
      plan.shape.back() *= extent;
      plan.from.back() = from.strides[i];
      plan.to.back() = to.strides[i];
      continue;
    }
    plan.shape.push_back(extent);
    plan.from.push_back(from.strides[i]);
    plan.to.push_back(to.strides[i]);
  }
  if (plan.shape.empty()) {
    plan.shape.push_back(1);
    plan.from.push_back(1);
    plan.to.push_back(1);
  }
  return plan;
}

template <class T>
void copy_row(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(n) * sizeof(T));
  } else if (from_stride == 0 && to_stride == 1) {
    const T value = *from;
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// Two inner axes of which one runs on in each: by blocks, so that both sides use whole cache lines.
template <class T>
void copy_block(const T* from, T* to, const Plan& plan, size_t a, size_t b) {
  constexpr int64_t kBlock = 16;
  const int64_t n = plan.shape[a], m = plan.shape[b];
  for (int64_t i0 = 0; i0 < n; i0 += kBlock) {
    const int64_t i1 = i0 + kBlock < n ? i0 + kBlock : n;
    for (int64_t j0 = 0; j0 < m; j0 += kBlock) {
      const int64_t j1 = j0 + kBlock < m ? j0 + kBlock : m;
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j)
          to[i * plan.to[a] + j * plan.to[b]] = from[i * plan.from[a] + j * plan.from[b]];
      }
    }
  }
}

template <class T>
void copy_all(const Plan& plan, const T* from, T* to, ThreadPool& pool) {
  const size_t rank = plan.shape.size();
  const bool blocked = rank >= 2 && plan.from.back() != 1 && plan.to.back() == 1;
  // With a blocked copy the axis that runs on in `from` becomes an inner one.
  size_t partner = rank - 1;
  if (blocked) {
    for (size_t i = 0; i + 1 < rank; ++i) {
      if (plan.from[i] == 1) partner = i;
    }
  }
  const bool pair = blocked && partner != rank - 1;
  Extents outer;
  SmallVector<int64_t, 6> axes;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (pair && i == partner) continue;
    axes.push_back(static_cast<int64_t>(i));
    rows *= plan.shape[i];
  }
  const int64_t row_size = plan.shape[rank - 1] * (pair ? plan.shape[partner] : 1);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, row_size));
  pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, from_offset = 0, to_offset = 0;
      for (size_t k = axes.size(); k-- > 0;) {
        const size_t axis = static_cast<size_t>(axes[k]);
        const int64_t position = rest % plan.shape[axis];
        rest /= plan.shape[axis];
        from_offset += position * plan.from[axis];
        to_offset += position * plan.to[axis];
      }
      if (pair) {
        copy_block(from + from_offset, to + to_offset, plan, partner, rank - 1);
      } else {
        copy_row(from + from_offset, plan.from[rank - 1], to + to_offset, plan.to[rank - 1], plan.shape[rank - 1]);
      }
    }
  });
}

}  // namespace

void launch_copy(Binder& bind, const View& from, const View& to) {
  if (from.size() == 0) {
    bind.untouch();
    return;
  }
  if (is_packed(from.dtype)) {
    const size_t bytes = byte_size(from.dtype, from.size());
    bind.launch("copy", 0,
                [=](const RunContext& run) { std::memcpy(run.at<std::byte>(to), run.at<std::byte>(from), bytes); });
    return;
  }
  bind.launch("copy", 0, [from, to, plan = collapse(from, to)](const RunContext& run) {
    dispatch_width(from.dtype, "copy",
                   [&]<class T>(TypeTag<T>) { copy_all<T>(plan, run.at<T>(from), run.at<T>(to), run.pool); });
  });
}

}  // namespace transmuter::cpu
