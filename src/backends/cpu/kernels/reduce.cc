#include "backends/cpu/kernels/reduce.h"

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/scratch.h"
#include "backends/cpu/kernels/target.h"
#include "base/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/reduce-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(reduce_f32);
HWY_EXPORT(reduce_f64);
HWY_EXPORT(reduce_i32);
HWY_EXPORT(reduce_i64);
HWY_EXPORT(find_f32);

namespace {

constexpr int64_t kColumnTile = 256;       // columns of one task
constexpr int64_t kPieceElements = 32768;  // elements of one task of a long reduction

// Totals of one piece. Half types become float first.
template <class T>
void piece(ReduceKind kind, const T* p, int64_t rows, int64_t stride, int64_t cols, Wide<Compute<T>>* total) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(reduce_f32)(kind, p, rows, stride, cols, total);
  } else if constexpr (std::is_same_v<T, double>) {
    HWY_DYNAMIC_DISPATCH(reduce_f64)(kind, p, rows, stride, cols, total);
  } else if constexpr (std::is_same_v<T, int32_t>) {
    HWY_DYNAMIC_DISPATCH(reduce_i32)(kind, p, rows, stride, cols, total);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    HWY_DYNAMIC_DISPATCH(reduce_i64)(kind, p, rows, stride, cols, total);
  } else if constexpr (is_small_float<T>) {
    with_kind(kind, [&]<ReduceKind kKind>() {
      std::fill(total, total + cols, identity<kKind, double>());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) total[c] = join<kKind>(total[c], double{to_float(p[r * stride + c])});
      }
    });
  } else {
    with_kind(kind, [&]<ReduceKind kKind>() { plain_piece<kKind>(p, rows, stride, cols, total); });
  }
}

template <class T>
void reduce_typed(ReduceKind kind, const T* in, T* out, const ReduceShape& s, ThreadPool* pool) {
  using Total = Wide<Compute<T>>;
  if (s.outer == 0 || s.inner == 0) return;
  const auto finish = [&](int64_t at, const Total* total, int64_t cols) {
    for (int64_t c = 0; c < cols; ++c) out[at + c] = store<T>(static_cast<Compute<T>>(total[c]));
  };
  // The reduced axis is cut where a task would be long; where, depends on sizes alone.
  const int64_t tile = std::min(s.inner, kColumnTile);
  const int64_t tiles = (s.inner + tile - 1) / tile;
  const int64_t rows = std::max<int64_t>(1, kPieceElements / tile);
  const int64_t parts = s.outer * tiles >= 64 ? 1 : std::max<int64_t>(1, (s.reduce + rows - 1) / rows);
  const int64_t part_rows = parts == 1 ? s.reduce : rows;
  Total* partial = nullptr;
  if (parts > 1) {
    const size_t count = static_cast<size_t>(parts * s.outer * s.inner);
    partial = static_cast<Total*>(thread_scratch(ScratchSlot::region, count * sizeof(Total)));
  }
  parallel(pool, s.outer * tiles * parts, grain_for(part_rows * tile), [&](int64_t begin, int64_t end) {
    Total total[kColumnTile];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task % parts, column = task / parts % tiles * tile, o = task / parts / tiles;
      const int64_t first = part * part_rows, count = std::min(part_rows, s.reduce - first);
      const int64_t cols = std::min(tile, s.inner - column);
      const T* p = in + (o * s.reduce + first) * s.inner + column;
      const int64_t at = o * s.inner + column;
      if (partial) {
        piece(kind, p, count, s.inner, cols, partial + part * s.outer * s.inner + at);
      } else {
        piece(kind, p, count, s.inner, cols, total);
        finish(at, total, cols);
      }
    }
  });
  if (!partial) return;
  with_kind(kind, [&]<ReduceKind kKind>() {
    for (int64_t i = 0; i < s.outer * s.inner; ++i) {
      Total total = partial[i];
      for (int64_t part = 1; part < parts; ++part) {
        total = join<kKind>(total, partial[part * s.outer * s.inner + i]);
      }
      finish(i, &total, 1);
    }
  });
}

template <class C>
bool better(bool largest, C candidate, C best) {
  if constexpr (std::is_floating_point_v<C>) {
    if (best != best) return false;
    if (candidate != candidate) return true;
  }
  return largest ? candidate > best : candidate < best;
}

template <class T>
void arg_typed(bool largest, bool last, const T* in, int64_t* out, const ReduceShape& s, ThreadPool* pool) {
  parallel(pool, s.outer, grain_for(s.reduce * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* block = in + o * s.reduce * s.inner;
      if constexpr (std::is_same_v<T, float>) {
        if (s.inner == 1) {
          double best;
          HWY_DYNAMIC_DISPATCH(reduce_f32)
          (largest ? ReduceKind::max : ReduceKind::min, block, s.reduce, 1, 1, &best);
          out[o] = HWY_DYNAMIC_DISPATCH(find_f32)(block, s.reduce, static_cast<float>(best), last);
          continue;
        }
      }
      int64_t* row = out + o * s.inner;
      std::fill(row, row + s.inner, int64_t{0});
      for (int64_t r = 1; r < s.reduce; ++r) {
        for (int64_t c = 0; c < s.inner; ++c) {
          const auto candidate = load(block[r * s.inner + c]), best = load(block[row[c] * s.inner + c]);
          const bool tie = candidate == best || (candidate != candidate && best != best);
          if (better(largest, candidate, best) || (last && tie)) row[c] = r;
        }
      }
    }
  });
}

}  // namespace

void reduce(ReduceKind kind, DType dtype, const void* in, void* out, const ReduceShape& shape, ThreadPool* pool) {
  init_target();
  if (dtype == DType::boolean) {
    if (shape.reduce == 0) {
      std::fill_n(static_cast<uint8_t*>(out), shape.outer * shape.inner,
                  kind == ReduceKind::min ? uint8_t{1} : uint8_t{0});
      return;
    }
    dtype = DType::u8;
  }
  dispatch_numeric(dtype, "reduce", [&]<class T>(TypeTag<T>) {
    reduce_typed(kind, static_cast<const T*>(in), static_cast<T*>(out), shape, pool);
  });
}

void arg_reduce(bool largest, bool last, DType dtype, const void* in, int64_t* out, const ReduceShape& shape,
                ThreadPool* pool) {
  init_target();
  if (dtype == DType::boolean) dtype = DType::u8;
  dispatch_numeric(dtype, "arg_reduce",
                   [&]<class T>(TypeTag<T>) { arg_typed(largest, last, static_cast<const T*>(in), out, shape, pool); });
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
