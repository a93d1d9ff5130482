#include "backends/cpu/kernels/nearest.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/target.h"
#include "base/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/nearest.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[2 i] = to[2 i + 1] = from[i], and in `twin` the same.
void double_words(const uint32_t* from, int64_t n, uint32_t* to, uint32_t* twin) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint64_t> d;
  const hn::Rebind<uint32_t, decltype(d)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::PromoteTo(d, hn::LoadU(narrow, from + i));
    const auto both = hn::Or(x, hn::ShiftLeft<32>(x));
    hn::StoreU(both, d, reinterpret_cast<uint64_t*>(to + 2 * i));
    hn::StoreU(both, d, reinterpret_cast<uint64_t*>(twin + 2 * i));
  }
#endif
  for (; i < n; ++i) to[2 * i] = to[2 * i + 1] = twin[2 * i] = twin[2 * i + 1] = from[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(double_words);

namespace {

constexpr int kMostAxes = 8;

// Each element twice.
bool doubles(const NearestAxis& axis) {
  if (!axis.index || axis.out != 2 * axis.in) return false;
  for (int64_t i = 0; i < axis.out; ++i)
    if (axis.index[i] != i / 2) return false;
  return true;
}

// Picks blocks of `block` elements along one line. Where each is doubled, `twin` (or `to` itself) becomes the same
// line.
template <class T>
void pick(const T* from, const NearestAxis& axis, bool doubled, int64_t block, T* to, T* twin) {
  if (!axis.index) {
    std::memcpy(to, from, static_cast<size_t>(axis.out * block) * sizeof(T));
  } else if (block == 1 && doubled) {
    if constexpr (std::is_same_v<T, uint32_t>) {
      HWY_DYNAMIC_DISPATCH(double_words)(from, axis.in, to, twin);
    } else {
      for (int64_t i = 0; i < axis.in; ++i) to[2 * i] = to[2 * i + 1] = from[i];
      if (twin != to) std::memcpy(twin, to, static_cast<size_t>(axis.out) * sizeof(T));
    }
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
    int64_t at[kMostAxes] = {}, rest = begin;
    for (int k = lines; k-- > 0; rest /= axes[k].out) at[k] = rest % axes[k].out;
    // The last of them moves at each line, those before it seldom.
    const auto source_of = [&](int first, int last, int64_t from) {
      for (int k = first; k < last; ++k) from = from * axes[k].in + (axes[k].index ? axes[k].index[at[k]] : at[k]);
      return from;
    };
    const int last = std::max(lines - 1, 0);
    int64_t outer = source_of(0, last, 0);
    int64_t from = source_of(last, lines, outer), before = -1;
    bool written = false;  // together with the line before
    for (int64_t line = begin; line < end; ++line) {
      if (lines > 0 && ++at[last] == axes[last].out) {
        at[last] = 0;
        for (int k = last; k-- > 0;) {
          if (++at[k] < axes[k].out) break;
          at[k] = 0;
        }
        outer = source_of(0, last, 0);
      }
      const int64_t next = line + 1 < end ? source_of(last, lines, outer) : -1;
      T* const to = out + line * to_line;
      const bool twins = doubled && block == 1 && next == from && from != before;
      if (!written && from == before) {
        std::memcpy(to, to - to_line, static_cast<size_t>(to_line) * sizeof(T));
      } else if (!written) {
        pick(in + from * from_line, along, doubled, block, to, twins ? to + to_line : to);
      }
      written = twins && !written;
      before = from;
      from = next;
    }
  });
}

}  // namespace

void resize_nearest(DType dtype, const void* in, void* out, int rank, const NearestAxis* axes, ThreadPool* pool) {
  init_target();
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
#endif  // HWY_ONCE
