#include "backends/cpu/kernels/scan.h"

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/reduce_plain.h"
#include "base/dispatch.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kTile = 64;  // columns of a task

template <class T>
double widen(T value) requires(is_small_float<T>) {
  return to_float(value);
}
template <class T>
Wide<T> widen(T value) requires(!is_small_float<T>) {
  return value;
}

template <ReduceKind kKind, class T>
void columns(const T* in, T* out, int64_t n, int64_t stride, int64_t cols, bool exclusive, bool reverse) {
  using Total = decltype(widen(T{}));
  Total total[kTile];
  std::fill_n(total, cols, identity<kKind, Total>());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = (reverse ? n - 1 - i : i) * stride;
    for (int64_t c = 0; c < cols; ++c) {
      const Total next = join<kKind>(total[c], widen(in[row + c]));
      out[row + c] = store<T>(static_cast<Compute<T>>(exclusive ? total[c] : next));
      total[c] = next;
    }
  }
}

}  // namespace

void cumulative(ReduceKind kind, DType dtype, const void* in, void* out, const ReduceShape& s, bool exclusive,
                bool reverse, ThreadPool* pool) {
  const int64_t tile = std::min(s.inner, kTile), tiles = tile ? (s.inner + tile - 1) / tile : 0;
  dispatch_numeric(dtype, "cumulative", [&]<class T>(TypeTag<T>) {
    parallel(pool, s.outer * tiles, grain_for(s.reduce * tile), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t column = task % tiles * tile, at = task / tiles * s.reduce * s.inner + column;
        const T* from = static_cast<const T*>(in) + at;
        T* to = static_cast<T*>(out) + at;
        const int64_t cols = std::min(tile, s.inner - column);
        if (kind == ReduceKind::sum) {
          columns<ReduceKind::sum>(from, to, s.reduce, s.inner, cols, exclusive, reverse);
        } else {
          columns<ReduceKind::mul>(from, to, s.reduce, s.inner, cols, exclusive, reverse);
        }
      }
    });
  });
}

}  // namespace transmuter::cpu
