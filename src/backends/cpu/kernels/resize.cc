#include "backends/cpu/kernels/resize.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/scratch.h"
#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/resize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Result rows [begin, end) of all [outer, out] rows of `inner` elements.
void resize_rows(const float* in, float* out, int64_t inner, const ResizeTable& t, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t m = row % t.out;
    const float* block = in + row / t.out * t.in * inner;
    for_vectors(inner, [&](int64_t i, auto memory) HWY_ATTR {
      VF32 sum = hn::Mul(hn::Set(F32(), t.weight[static_cast<size_t>(m)]),
                         memory.load(block + t.index[static_cast<size_t>(m)] * inner + i));
      for (int64_t k = 1; k < t.taps; ++k) {
        const size_t at = static_cast<size_t>(k * t.out + m);
        sum = hn::MulAdd(hn::Set(F32(), t.weight[at]), memory.load(block + t.index[at] * inner + i), sum);
      }
      memory.store(sum, out + row * inner + i);
    });
  }
}

// Lines [begin, end) along the last axis: a result element in each lane.
void resize_lines(const float* in, float* out, const ResizeTable& t, int64_t begin, int64_t end) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t line = begin; line < end; ++line) {
    const float* from = in + line * t.in;
    float* to = out + line * t.out;
    int64_t m = 0;
    for (; m + lanes <= t.out; m += lanes) {
      VF32 sum = hn::Zero(d);
      for (int64_t k = 0; k < t.taps; ++k) {
        const size_t at = static_cast<size_t>(k * t.out + m);
        const auto index = hn::LoadU(di, t.index.data() + at);
        sum = hn::MulAdd(hn::LoadU(d, t.weight.data() + at), hn::GatherIndex(d, from, index), sum);
      }
      hn::StoreU(sum, d, to + m);
    }
    for (; m < t.out; ++m) {
      float sum = 0;
      for (int64_t k = 0; k < t.taps; ++k) {
        const size_t at = static_cast<size_t>(k * t.out + m);
        sum += t.weight[at] * from[t.index[at]];
      }
      to[m] = sum;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(resize_rows);
HWY_EXPORT(resize_lines);

void resize_axis(const float* in, float* out, int64_t outer, int64_t inner, const ResizeTable& table,
                 float extrapolation, ThreadPool* pool) {
  init_target();
  if (table.out == 0 || table.taps == 0) return;
  if (inner == 1) {
    parallel(pool, outer, grain_for(table.out * table.taps), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(resize_lines)(in, out, table, begin, end);
    });
  } else {
    parallel(pool, outer * table.out, grain_for(inner * table.taps), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(resize_rows)(in, out, inner, table, begin, end);
    });
  }
  if (table.outside.empty()) return;
  for (int64_t row = 0; row < outer * table.out; ++row) {
    if (table.outside[static_cast<size_t>(row % table.out)]) std::fill_n(out + row * inner, inner, extrapolation);
  }
}

void resize(const float* in, float* out, int rank, const int64_t* dims, const ResizeTable* const* tables,
            float extrapolation, ThreadPool* pool) {
  int64_t now[8];
  int order[8];
  int count = 0;
  int64_t size = 1;
  for (int k = 0; k < rank; ++k) {
    now[k] = dims[k];
    size *= dims[k];
    if (tables[k]) order[count++] = k;
  }
  if (count == 0) {
    std::copy_n(in, size, out);
    return;
  }
  if (size == 0) return;
  // Axes that shrink most come first: the other passes have less to do. Two buffers take turns.
  const auto ratio_less = [&](int a, int b) { return tables[a]->out * tables[b]->in < tables[b]->out * tables[a]->in; };
  for (int i = 1; i < count; ++i) {
    for (int k = i; k > 0 && ratio_less(order[k], order[k - 1]); --k) std::swap(order[k], order[k - 1]);
  }
  int64_t largest = 0, running = size;
  for (int i = 0; i + 1 < count; ++i) {
    running = running / tables[order[i]]->in * tables[order[i]]->out;
    largest = std::max(largest, running);
  }
  float* buffers = count > 1 ? region_floats(static_cast<size_t>(2 * largest)) : nullptr;
  const float* from = in;
  for (int i = 0; i < count; ++i) {
    const int axis = order[i];
    int64_t outer = 1, inner = 1;
    for (int k = 0; k < axis; ++k) outer *= now[k];
    for (int k = axis + 1; k < rank; ++k) inner *= now[k];
    float* to = i + 1 == count ? out : buffers + i % 2 * largest;
    resize_axis(from, to, outer, inner, *tables[axis], extrapolation, pool);
    now[axis] = tables[axis]->out;
    from = to;
  }
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
