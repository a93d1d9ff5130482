// Vector loops of reduce.h for float, double, int32_t and int64_t.

#if defined(TRANSMUTER_CPU_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_REDUCE_INL_H_
#undef TRANSMUTER_CPU_REDUCE_INL_H_
#else
#define TRANSMUTER_CPU_REDUCE_INL_H_
#endif

#include <algorithm>

#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/kernels/reduce_plain.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <ReduceKind kKind, class D, class V>
HWY_INLINE V combine(D d, V a, V b) {
  if constexpr (kKind == ReduceKind::sum) {
    return hn::Add(a, b);
  } else if constexpr (kKind == ReduceKind::mul) {
    return hn::Mul(a, b);
  } else if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) {
    return kKind == ReduceKind::max ? hn::Max(a, b) : hn::Min(a, b);
  } else {
    return kKind == ReduceKind::max ? max_nan(d, a, b) : min_nan(d, a, b);
  }
}

// Vectors that one run of accumulators takes before its result goes into the wide total.
inline constexpr int64_t kRowRun = 128;
inline constexpr int64_t kColumnRun = 128;

template <ReduceKind kKind, class T>
HWY_INLINE Wide<T> reduce_row(const T* p, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  Wide<T> total = identity<kKind, Wide<T>>();
  int64_t i = 0;
  while (n - i >= lanes) {
    const int64_t end = i + std::min((n - i) / lanes, kRowRun) * lanes;
    const auto start = hn::Set(d, identity<kKind, T>());
    auto a = start, b = start, c = start, e = start;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      a = combine<kKind>(d, a, hn::LoadU(d, p + i));
      b = combine<kKind>(d, b, hn::LoadU(d, p + i + lanes));
      c = combine<kKind>(d, c, hn::LoadU(d, p + i + 2 * lanes));
      e = combine<kKind>(d, e, hn::LoadU(d, p + i + 3 * lanes));
    }
    for (; i < end; i += lanes) a = combine<kKind>(d, a, hn::LoadU(d, p + i));
    a = combine<kKind>(d, combine<kKind>(d, a, b), combine<kKind>(d, c, e));
    hn::Store(a, d, buffer);
    for (int64_t k = 0; k < lanes; ++k) total = join<kKind>(total, static_cast<Wide<T>>(buffer[k]));
  }
  for (; i < n; ++i) total = join<kKind>(total, static_cast<Wide<T>>(p[i]));
  return total;
}

// total[c] over `rows` rows of cols <= kColumnTile columns, `stride` apart.
template <ReduceKind kKind, class T>
HWY_INLINE void reduce_columns(const T* p, int64_t rows, int64_t stride, int64_t cols, Wide<T>* total) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T buffer[4 * hn::MaxLanes(d)];
  std::fill(total, total + cols, identity<kKind, Wide<T>>());
  const auto start = hn::Set(d, identity<kKind, T>());
  for (int64_t first = 0; first < rows; first += kColumnRun) {
    const int64_t end = std::min(rows, first + kColumnRun);
    int64_t c = 0;
    for (; c + 4 * lanes <= cols; c += 4 * lanes) {
      auto v0 = start, v1 = start, v2 = start, v3 = start;
      for (int64_t r = first; r < end; ++r) {
        const T* row = p + r * stride + c;
        v0 = combine<kKind>(d, v0, hn::LoadU(d, row));
        v1 = combine<kKind>(d, v1, hn::LoadU(d, row + lanes));
        v2 = combine<kKind>(d, v2, hn::LoadU(d, row + 2 * lanes));
        v3 = combine<kKind>(d, v3, hn::LoadU(d, row + 3 * lanes));
      }
      hn::Store(v0, d, buffer);
      hn::Store(v1, d, buffer + lanes);
      hn::Store(v2, d, buffer + 2 * lanes);
      hn::Store(v3, d, buffer + 3 * lanes);
      for (int64_t k = 0; k < 4 * lanes; ++k) total[c + k] = join<kKind>(total[c + k], static_cast<Wide<T>>(buffer[k]));
    }
    for (; c + lanes <= cols; c += lanes) {
      auto v = start;
      for (int64_t r = first; r < end; ++r) v = combine<kKind>(d, v, hn::LoadU(d, p + r * stride + c));
      hn::Store(v, d, buffer);
      for (int64_t k = 0; k < lanes; ++k) total[c + k] = join<kKind>(total[c + k], static_cast<Wide<T>>(buffer[k]));
    }
    for (int64_t r = first; r < end; ++r) {
      for (int64_t k = c; k < cols; ++k) total[k] = join<kKind>(total[k], static_cast<Wide<T>>(p[r * stride + k]));
    }
  }
}

// total[0, cols) of one piece: rows of columns, or one row (cols == 1, stride == 1).
template <class T>
void reduce_piece(ReduceKind kind, const T* p, int64_t rows, int64_t stride, int64_t cols, Wide<T>* total) {
  with_kind(kind, [&]<ReduceKind kKind>() HWY_ATTR {
    if constexpr (kKind == ReduceKind::mul && !hwy::IsFloat<T>()) {
      plain_piece<kKind>(p, rows, stride, cols, total);
    } else if (stride == 1 && cols == 1) {
      total[0] = reduce_row<kKind>(p, rows);
    } else {
      reduce_columns<kKind>(p, rows, stride, cols, total);
    }
  });
}
void reduce_f32(ReduceKind kind, const float* p, int64_t rows, int64_t stride, int64_t cols, double* total) {
  reduce_piece(kind, p, rows, stride, cols, total);
}
void reduce_f64(ReduceKind kind, const double* p, int64_t rows, int64_t stride, int64_t cols, double* total) {
  reduce_piece(kind, p, rows, stride, cols, total);
}
void reduce_i32(ReduceKind kind, const int32_t* p, int64_t rows, int64_t stride, int64_t cols, int32_t* total) {
  reduce_piece(kind, p, rows, stride, cols, total);
}
void reduce_i64(ReduceKind kind, const int64_t* p, int64_t rows, int64_t stride, int64_t cols, int64_t* total) {
  reduce_piece(kind, p, rows, stride, cols, total);
}

// Position of the first (or last) lane of p[0, n) that equals `value`, or is NaN when `value` is.
int64_t find_f32(const float* p, int64_t n, float value, bool last) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool nan = value != value;
  const auto same = [&](float x) { return nan ? x != x : x == value; };
  const auto wanted = hn::Set(d, value);
  const auto hit = [&](int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, p + i);
    return !hn::AllFalse(d, nan ? hn::IsNaN(v) : hn::Eq(v, wanted));
  };
  if (last) {
    int64_t i = n;
    while (i >= lanes && !hit(i - lanes)) i -= lanes;
    while (i > 0 && !same(p[i - 1])) --i;
    return i - 1;
  }
  int64_t i = 0;
  while (i + lanes <= n && !hit(i)) i += lanes;
  while (i < n && !same(p[i])) ++i;
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_REDUCE_INL_H_
