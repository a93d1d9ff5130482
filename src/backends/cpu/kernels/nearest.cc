#include "backends/cpu/kernels/nearest.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/parallel.h"
#include "base/dispatch.h"

namespace transmuter::cpu {
namespace {

constexpr int kMostAxes = 8;

// Each element twice.
bool doubles(const NearestAxis& axis) {
  if (!axis.index || axis.out != 2 * axis.in) return false;
  for (int64_t i = 0; i < axis.out; ++i)
    if (axis.index[i] != i / 2) return false;
  return true;
}

// Picks blocks of `block` elements along one line.
template <class T>
void pick(const T* from, const NearestAxis& axis, bool doubled, int64_t block, T* to) {
  if (!axis.index) {
    std::memcpy(to, from, static_cast<size_t>(axis.out * block) * sizeof(T));
  } else if (block == 1 && doubled) {
    for (int64_t i = 0; i < axis.in; ++i) to[2 * i] = to[2 * i + 1] = from[i];
  } else if (block == 1) {
    for (int64_t i = 0; i < axis.out; ++i) to[i] = from[axis.index[i]];
  } else {
    for (int64_t i = 0; i < axis.out; ++i)
      std::memcpy(to + i * block, from + axis.index[i] * block, static_cast<size_t>(block) * sizeof(T));
  }
}

// `lines` axes say which line, axes[lines] runs along it, what is behind it stays: blocks.
template <class T>
void pick_lines(const T* in, T* out, int lines, const NearestAxis* axes, int64_t block, ThreadPool* pool) {
  const NearestAxis& along = axes[lines];
  const int64_t from_line = along.in * block, to_line = along.out * block;
  const bool doubled = doubles(along);
  int64_t count = 1;
  for (int k = 0; k < lines; ++k) count *= axes[k].out;
  parallel(pool, count, grain_for(to_line), [&](int64_t begin, int64_t end) {
    int64_t at[kMostAxes] = {}, before = -1, rest = begin;
    for (int k = lines; k-- > 0; rest /= axes[k].out) at[k] = rest % axes[k].out;
    for (int64_t line = begin; line < end; ++line) {
      int64_t from = 0;
      for (int k = 0; k < lines; ++k) from = from * axes[k].in + (axes[k].index ? axes[k].index[at[k]] : at[k]);
      for (int k = lines; k-- > 0;) {
        if (++at[k] < axes[k].out) break;
        at[k] = 0;
      }
      T* to = out + line * to_line;
      if (from == before) {
        std::memcpy(to, to - to_line, static_cast<size_t>(to_line) * sizeof(T));
      } else {
        pick(in + from * from_line, along, doubled, block, to);
      }
      before = from;
    }
  });
}

}  // namespace

void resize_nearest(DType dtype, const void* in, void* out, int rank, const NearestAxis* axes, ThreadPool* pool) {
  int64_t size = 1, block = 1;
  for (int k = 0; k < rank; ++k) size *= axes[k].out;
  if (size == 0) return;
  int lines = rank - 1;
  while (lines > 0 && !axes[lines].index) block *= axes[lines--].out;
  dispatch_width(dtype, "resize", [&]<class T>(TypeTag<T>) {
    pick_lines(static_cast<const T*>(in), static_cast<T*>(out), lines, axes, block, pool);
  });
}

}  // namespace transmuter::cpu
