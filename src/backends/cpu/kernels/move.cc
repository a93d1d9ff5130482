#include "backends/cpu/kernels/move.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/target.h"
#include "backends/cpu/kernels/tile.h"
#include "base/dispatch.h"
#include "base/strings.h"
#include "tensor/cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {

// out[a out_stride + c] = in[a + c in_stride], a < rows, c < cols, of 32-bit elements.
void transpose_words(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride, int64_t rows,
                     int64_t cols) {
  int64_t c = 0;
#if TRANSMUTER_TRANSPOSES_SQUARES
  // Whole squares write whole cache lines, or halves.
  for (; c + kSquare <= cols; c += kSquare) {
    int64_t a = 0;
    for (; a + kSquare <= rows; a += kSquare)
      transpose_square(in + a + c * in_stride, in_stride, out + a * out_stride + c, out_stride);
    for (; a < rows; ++a) {
      for (int64_t k = c; k < c + kSquare; ++k) out[a * out_stride + k] = in[a + k * in_stride];
    }
  }
#endif
  constexpr int64_t kBlock = 64;  // rows of the output written before the next columns
  for (int64_t first = 0; first < rows && c < cols; first += kBlock) {
    const int64_t n = std::min(kBlock, rows - first);
    int64_t k = c;
    for (; k + 4 <= cols; k += 4) {
      const uint32_t* from = in + first + k * in_stride;
      const uint32_t* const four[] = {from, from + in_stride, from + 2 * in_stride, from + 3 * in_stride};
      transpose_four(four, n, out + first * out_stride + k, out_stride);
    }
    for (; k < cols; ++k) {
      for (int64_t a = first; a < first + n; ++a) out[a * out_stride + k] = in[a + k * in_stride];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(transpose_words);

namespace {

struct Wide16 {
  uint64_t words[2];
};

template <class Fn>
void with_width(int width, const Fn& fn) {
  switch (width) {
    case 1:
      return fn(TypeTag<uint8_t>{});
    case 2:
      return fn(TypeTag<uint16_t>{});
    case 4:
      return fn(TypeTag<uint32_t>{});
    case 8:
      return fn(TypeTag<uint64_t>{});
    case 16:
      return fn(TypeTag<Wide16>{});
    default:
      throw Error(ErrorCode::internal, str("no element is ", width, " bytes wide"));
  }
}

struct Axis {
  int64_t n, in, out;
};

// Dims that matter, outermost in the output first, neighbours merged where both sides allow.
int normalise(int rank, const int64_t* dims, const int64_t* in, const int64_t* out, Axis* axes) {
  int count = 0;
  for (int k = 0; k < rank; ++k) {
    if (dims[k] != 1) axes[count++] = {dims[k], in[k], out[k]};
  }
  std::stable_sort(axes, axes + count, [](const Axis& a, const Axis& b) { return std::abs(a.out) > std::abs(b.out); });
  int merged = 0;
  for (int k = 0; k < count; ++k) {
    if (merged > 0) {
      Axis& last = axes[merged - 1];
      if (last.in == axes[k].in * axes[k].n && last.out == axes[k].out * axes[k].n) {
        last = {last.n * axes[k].n, axes[k].in, axes[k].out};
        continue;
      }
    }
    axes[merged++] = axes[k];
  }
  return merged;
}

enum class Core { rows, fills, transposes, strided };

template <class T>
void copy_transposed(const T* in, T* out, const Axis& mid, const Axis& inner) {
  if constexpr (std::is_same_v<T, uint32_t>) {
    HWY_DYNAMIC_DISPATCH(transpose_words)(in, inner.in, out, mid.out, mid.n, inner.n);
    return;
  }
  constexpr int64_t kBlock = 16;
  for (int64_t a0 = 0; a0 < mid.n; a0 += kBlock) {
    const int64_t a1 = std::min(mid.n, a0 + kBlock);
    for (int64_t c0 = 0; c0 < inner.n; c0 += kBlock) {
      const int64_t c1 = std::min(inner.n, c0 + kBlock);
      for (int64_t a = a0; a < a1; ++a) {
        for (int64_t c = c0; c < c1; ++c) out[a * mid.out + c] = in[a + c * inner.in];
      }
    }
  }
}

template <class T>
void copy_core(Core core, const T* in, T* out, const Axis& mid, const Axis& inner) {
  if (core == Core::transposes) return copy_transposed(in, out, mid, inner);
  for (int64_t m = 0; m < mid.n; ++m) {
    const T* from = in + m * mid.in;
    T* to = out + m * mid.out;
    if (core == Core::rows) {
      if (inner.n * static_cast<int64_t>(sizeof(T)) <= 32) {
        for (int64_t i = 0; i < inner.n; ++i) to[i] = from[i];
      } else {
        memcpy(to, from, static_cast<size_t>(inner.n) * sizeof(T));
      }
    } else if (core == Core::fills) {
      std::fill_n(to, inner.n, *from);
    } else {
      for (int64_t i = 0; i < inner.n; ++i) to[i * inner.out] = from[i * inner.in];
    }
  }
}

template <class T>
void copy_typed(int rank, const int64_t* dims, const T* in, const int64_t* in_strides, T* out,
                const int64_t* out_strides, ThreadPool* pool) {
  Axis axes[kMoveMaxDims];
  int count = normalise(rank, dims, in_strides, out_strides, axes);
  if (count == 0) {
    *out = *in;
    return;
  }
  const Axis inner = axes[--count];
  Axis mid{1, 0, 0};
  Core core = Core::strided;
  if (inner.out == 1) {
    core = inner.in == 1 ? Core::rows : inner.in == 0 ? Core::fills : Core::strided;
    for (int k = 0; core == Core::strided && k < count; ++k) {
      if (axes[k].in != 1) continue;
      core = Core::transposes;
      mid = axes[k];
      std::copy(axes + k + 1, axes + count, axes + k);
      --count;
    }
  }
  if (core != Core::transposes && count > 0) mid = axes[--count];
  int64_t outer = 1;
  for (int k = 0; k < count; ++k) outer *= axes[k].n;
  // A task is about 16384 elements: whole cores, or a piece of one.
  constexpr int64_t kTask = 16384, kTransposedRow = 64;
  const int64_t cols = std::min(inner.n, core == Core::transposes ? kTransposedRow : kTask);
  const int64_t rows = std::min(mid.n, std::max<int64_t>(1, kTask / cols));
  const int64_t across = (inner.n + cols - 1) / cols, down = (mid.n + rows - 1) / rows;
  parallel(pool, outer * down * across, grain_for(rows * cols, kTask), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t c = task % across * cols, m = task / across % down * rows;
      int64_t rest = task / across / down;
      int64_t from = m * mid.in + c * inner.in, to = m * mid.out + c * inner.out;
      for (int k = count - 1; k >= 0; --k) {
        from += rest % axes[k].n * axes[k].in;
        to += rest % axes[k].n * axes[k].out;
        rest /= axes[k].n;
      }
      copy_core(core, in + from, out + to, Axis{std::min(rows, mid.n - m), mid.in, mid.out},
                Axis{std::min(cols, inner.n - c), inner.in, inner.out});
    }
  });
}

// Into [0, extent); where that changes one, `outside` says so.
struct Clamp {
  int64_t extent, from_end;  // from_end: what a negative index counts from
  bool outside = false;
  int64_t operator()(int64_t index) {
    index += (index >> 63) & from_end;
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) {
      outside = true;
      return index < 0 ? 0 : extent - 1;
    }
    return index;
  }
};

// body(begin, end, clamp) for parts of n; what any says of `outside` is written to it.
template <class Fn>
void with_clamps(ThreadPool* pool, int64_t n, int64_t grain, const Clamp& clamp, bool* outside, const Fn& body) {
  std::atomic<bool> any{false};
  parallel(pool, n, grain, [&](int64_t begin, int64_t end) {
    Clamp own = clamp;
    body(begin, end, own);
    if (own.outside) any.store(true, std::memory_order_relaxed);
  });
  if (outside) *outside = any;
}

template <class T, class I>
void gather_typed(const T* in, int64_t outer, int64_t axis, int64_t inner, const I* indices, int64_t count, bool wrap,
                  T* out, ThreadPool* pool, bool* outside) {
  with_clamps(pool, outer * count, grain_for(inner), {axis, wrap ? axis : 0}, outside,
              [&](int64_t begin, int64_t end, Clamp& clamp) {
                for (int64_t row = begin; row < end;) {
                  const T* const block = in + row / count * axis * inner;
                  for (const int64_t stop = std::min(end, (row / count + 1) * count), first = row / count * count;
                       row < stop; ++row) {
                    const T* from = block + clamp(indices[row - first]) * inner;
                    if (inner == 1) {
                      out[row] = *from;
                    } else {
                      memcpy(out + row * inner, from, static_cast<size_t>(inner) * sizeof(T));
                    }
                  }
                }
              });
}

template <class T, class I>
void gather_elements_typed(int rank, const int64_t* dims, const T* in, const int64_t* strides, int axis, int64_t extent,
                           const I* indices, bool wrap, T* out, ThreadPool* pool, bool* outside) {
  const int64_t cols = rank ? dims[rank - 1] : 1;
  int64_t lines = 1;
  for (int k = 0; k + 1 < rank; ++k) lines *= dims[k];
  // Along a line: what a place and what an index are worth.
  const int64_t place = axis == rank - 1 ? 0 : strides[rank - 1], step = strides[axis];
  with_clamps(pool, lines, grain_for(cols), {extent, wrap ? extent : 0}, outside,
              [&](int64_t begin, int64_t end, Clamp& clamp) {
                for (int64_t line = begin; line < end; ++line) {
                  const T* from = in;
                  int64_t rest = line;
                  for (int k = rank - 2; k >= 0; rest /= dims[k--])
                    if (k != axis) from += rest % dims[k] * strides[k];
                  const I* const index = indices + line * cols;
                  T* const to = out + line * cols;
                  Clamp own = clamp;  // where the loop can see that nothing else writes it
                  if (place == 0 && step == 1) {
                    for (int64_t i = 0; i < cols; ++i) to[i] = from[own(index[i])];
                  } else {
                    for (int64_t i = 0; i < cols; ++i) to[i] = from[i * place + own(index[i]) * step];
                  }
                  clamp.outside = own.outside;
                }
              });
}

template <class Fn>
void with_index(DType dtype, const void* indices, const Fn& fn) {
  dtype == DType::i32 ? fn(static_cast<const int32_t*>(indices)) : fn(static_cast<const int64_t*>(indices));
}

bool fast_conversion(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::boolean ||
         dtype == DType::u8 || dtype == DType::i32;
}

}  // namespace

void copy_strided(int width, int rank, const int64_t* dims, const void* in, const int64_t* in_strides, void* out,
                  const int64_t* out_strides, ThreadPool* pool) {
  init_target();
  for (int k = 0; k < rank; ++k) {
    if (dims[k] == 0) return;
  }
  with_width(width, [&]<class T>(TypeTag<T>) {
    copy_typed(rank, dims, static_cast<const T*>(in), in_strides, static_cast<T*>(out), out_strides, pool);
  });
}

void transpose(int width, int rank, const int64_t* dims, const int64_t* permutation, const void* in, void* out,
               ThreadPool* pool) {
  int64_t dense[kMoveMaxDims], sizes[kMoveMaxDims], from[kMoveMaxDims], to[kMoveMaxDims];
  int64_t step = 1;
  for (int k = rank - 1; k >= 0; --k) {
    dense[k] = step;
    step *= dims[k];
  }
  step = 1;
  for (int k = rank - 1; k >= 0; --k) {
    sizes[k] = dims[permutation[k]];
    from[k] = dense[permutation[k]];
    to[k] = step;
    step *= sizes[k];
  }
  copy_strided(width, rank, sizes, in, from, out, to, pool);
}

void fill(int width, const void* value, void* out, int64_t count, ThreadPool* pool) {
  const int64_t zero = 0, one = 1;
  copy_strided(width, 1, &count, value, &zero, out, &one, pool);
}

void gather_rows(int width, const void* in, int64_t outer, int64_t axis, int64_t inner, DType index_dtype,
                 const void* indices, int64_t count, bool wrap, void* out, ThreadPool* pool, bool* outside) {
  if (outside) *outside = false;
  if (outer == 0 || count == 0 || inner == 0) return;
  with_width(width, [&]<class T>(TypeTag<T>) {
    with_index(index_dtype, indices, [&](const auto* index) {
      gather_typed(static_cast<const T*>(in), outer, axis, inner, index, count, wrap, static_cast<T*>(out), pool,
                   outside);
    });
  });
}

void gather_elements(int width, int rank, const int64_t* dims, const void* in, const int64_t* in_strides, int axis,
                     int64_t extent, DType index_dtype, const void* indices, bool wrap, void* out, ThreadPool* pool,
                     bool* outside) {
  with_width(width, [&]<class T>(TypeTag<T>) {
    with_index(index_dtype, indices, [&](const auto* index) {
      gather_elements_typed(rank, dims, static_cast<const T*>(in), in_strides, axis, extent, index, wrap,
                            static_cast<T*>(out), pool, outside);
    });
  });
}

void convert(DType from, const void* in, DType to, void* out, int64_t count, ThreadPool* pool) {
  const int64_t from_width = bit_width(from) / 8, to_width = bit_width(to) / 8;
  // The tape converts these with vectors; bytes and i32 only to and from f32, which is exact or rounds once.
  const bool tape = (from == DType::f32 && fast_conversion(to)) || (to == DType::f32 && fast_conversion(from));
  parallel(pool, count, 32768, [&](int64_t begin, int64_t end) {
    const void* source = static_cast<const char*>(in) + begin * from_width;
    void* target = static_cast<char*>(out) + begin * to_width;
    if (from == to) {
      memcpy(target, source, static_cast<size_t>((end - begin) * from_width));
    } else if (tape) {
      static const TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0}, {.op = TileOp::store, .a = 0, .b = 0}}};
      const int64_t n = end - begin;
      const TileInput input{source, from, {1}};
      const TileOutput output{target, to};
      run_tile(program, &n, 1, &input, &output, 0, n);
    } else {
      convert_elements(from, source, to, target, end - begin);
    }
  });
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
