#include "backends/cpu/kernels/softmax.h"

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/softmax.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/softmax-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_columns);
HWY_EXPORT(softmax_masked_rows);

namespace {

void run(const float* in, float* out, const ReduceShape& s, bool log, ThreadPool* pool) {
  init_target();
  if (s.reduce == 0) return;
  if (s.inner == 1) {
    parallel(pool, s.outer, grain_for(s.reduce), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(softmax_rows)(in + begin * s.reduce, out + begin * s.reduce, end - begin, s.reduce, log);
    });
    return;
  }
  const int64_t tile = std::min<int64_t>(s.inner, 64), tiles = (s.inner + tile - 1) / tile;
  parallel(pool, s.outer * tiles, grain_for(s.reduce * tile), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % tiles * tile, at = task / tiles * s.reduce * s.inner + column;
      HWY_DYNAMIC_DISPATCH(softmax_columns)
      (in + at, out + at, s.reduce, s.inner, std::min(tile, s.inner - column), log);
    }
  });
}

}  // namespace

void softmax(const float* in, float* out, const ReduceShape& shape, ThreadPool* pool) {
  run(in, out, shape, false, pool);
}
void log_softmax(const float* in, float* out, const ReduceShape& shape, ThreadPool* pool) {
  run(in, out, shape, true, pool);
}

void masked_softmax(const float* in, float* out, int64_t rows, int64_t cols, float scale, const SoftmaxMask& mask,
                    ThreadPool* pool) {
  init_target();
  static constexpr float kNoMask = 0.0f;
  SoftmaxMask used = mask;
  if (!used.data) {
    used = SoftmaxMask{&kNoMask, {1, 1, 1, 1}, {0, 0, 0, 0}, 0};
  }
  if (cols == 0) return;
  parallel(pool, rows, grain_for(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(softmax_masked_rows)(in, out, begin, end, cols, scale, used);
  });
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
