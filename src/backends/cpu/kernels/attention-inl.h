// The loops of attention.h. Scores are kept transposed, [key][row]: then k is read as it lies (as the broadcast
// operand), the softmax runs down the keys with a row in each lane and no horizontal step, and the exponentials are
// already packed for the product with v.

#if defined(TRANSMUTER_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_ATTENTION_INL_H_
#undef TRANSMUTER_CPU_ATTENTION_INL_H_
#else
#define TRANSMUTER_CPU_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/attention_task.h"
#include "backends/cpu/kernels/half-inl.h"
#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "backends/cpu/kernels/transpose-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Register blocks: accumulators + one row of vectors + a broadcast fit the registers.
#undef TRANSMUTER_BLOCKS
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4
#define TRANSMUTER_BLOCKS 4, 2, 4, 2
#elif HWY_ARCH_X86 && HWY_TARGET < HWY_AVX2
#define TRANSMUTER_BLOCKS 8, 3, 6, 4
#elif HWY_ARCH_X86
#define TRANSMUTER_BLOCKS 6, 2, 6, 2
#else
#define TRANSMUTER_BLOCKS 8, 2, 8, 2
#endif
struct Blocks {
  int score_rows, score_vectors, value_rows, value_vectors;
};
inline constexpr Blocks kBlocks{TRANSMUTER_BLOCKS};

// c[i][j] (+)= sum over k of a[i ai + k ak] b[k bk + j], kRows rows by kVectors vectors.
template <int kRows, int kVectors, bool kUnit>
HWY_INLINE void micro(const float* HWY_RESTRICT a, int64_t ai, int64_t ak, const float* HWY_RESTRICT b, int64_t bk,
                      int64_t n, float* HWY_RESTRICT c, int64_t ldc, bool add) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t row = kUnit ? 1 : ai;
  VF32 acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) acc[i][j] = add ? hn::LoadU(d, c + i * ldc + j * lanes) : hn::Zero(d);
  }
  for (int64_t k = 0; k < n; ++k) {
    VF32 bv[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) bv[j] = hn::LoadU(d, b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const VF32 av = hn::Set(d, a[i * row]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
    }
    a += ak;
    b += bk;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) hn::StoreU(acc[i][j], d, c + i * ldc + j * lanes);
  }
}

template <int kRows, int kVectors, bool kUnit>
HWY_NOINLINE void micro_rows(const float* a, int64_t ai, int64_t ak, const float* b, int64_t bk, int64_t n, float* c,
                             int64_t ldc, int64_t rows, bool add) {
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows)
    micro<kRows, kVectors, kUnit>(a + i * ai, ai, ak, b, bk, n, c + i * ldc, ldc, add);
  constexpr int kHalf = kRows / 2;
  for (; i + kHalf <= rows; i += kHalf)
    micro<kHalf, kVectors, kUnit>(a + i * ai, ai, ak, b, bk, n, c + i * ldc, ldc, add);
  for (; i < rows; ++i) micro<1, kVectors, kUnit>(a + i * ai, ai, ak, b, bk, n, c + i * ldc, ldc, add);
}

template <int kRows, bool kUnit>
HWY_INLINE void micro_width(int64_t vectors, const float* a, int64_t ai, int64_t ak, const float* b, int64_t bk,
                            int64_t n, float* c, int64_t ldc, int64_t rows, bool add) {
  switch (vectors) {
    case 1:
      return micro_rows<kRows, 1, kUnit>(a, ai, ak, b, bk, n, c, ldc, rows, add);
    case 2:
      return micro_rows<kRows, 2, kUnit>(a, ai, ak, b, bk, n, c, ldc, rows, add);
#if HWY_ARCH_X86 && HWY_TARGET < HWY_AVX2
    case 3:
      return micro_rows<kRows, 3, kUnit>(a, ai, ak, b, bk, n, c, ldc, rows, add);
    default:
      return micro_rows<kRows, 4, kUnit>(a, ai, ak, b, bk, n, c, ldc, rows, add);
#endif
  }
}

// The task's view of its memory.
struct AttentionWork {
  float *q, *score, *mask, *value, *begin, *end, *alpha, *widened;
  int64_t pitch;    // rows rounded up to whole vectors: the width of q and score
  int64_t columns;  // v_dim rounded up likewise
};

HWY_INLINE void split_row(const Attention& a, const AttentionTask& t, int64_t r, int64_t& query, int64_t& head) {
  const int64_t group = a.q_heads / a.kv_heads;
  query = (t.first_row + r) / group;
  head = t.kv_head * group + (t.first_row + r) % group;
}
HWY_INLINE const float* query_row(const Attention& a, const AttentionTask& t, int64_t r) {
  int64_t query, head;
  split_row(a, t, r, query, head);
  return a.q + t.b * a.q_strides[0] + head * a.q_strides[1] + query * a.q_strides[2];
}
HWY_INLINE int64_t mask_row(const Attention& a, const AttentionTask& t, int64_t r) {
  int64_t query, head;
  split_row(a, t, r, query, head);
  return t.b * a.mask_strides[0] + head * a.mask_strides[1] + query * a.mask_strides[2];
}

// q^T times scale, [dim][pitch], zero beyond the rows.
HWY_INLINE void pack_queries(const Attention& a, const AttentionTask& t, const AttentionWork& w) {
  int64_t r = 0;
  if (a.q_strides[3] == 1) {
    for (; r + 4 <= t.rows; r += 4) {
      const float* rows[4];
      for (int64_t i = 0; i < 4; ++i) rows[i] = query_row(a, t, r + i);
      transpose_four(rows, a.dim, w.q + r, w.pitch);
    }
  }
  for (; r < w.pitch; ++r) {
    const float* row = r < t.rows ? query_row(a, t, r) : nullptr;
    for (int64_t k = 0; k < a.dim; ++k) w.q[k * w.pitch + r] = row ? row[k * a.q_strides[3]] : 0.0f;
  }
  const F32 d;
  const VF32 scale = hn::Set(d, a.scale);
  for (int64_t i = 0; i < a.dim * w.pitch; i += static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::Mul(hn::LoadU(d, w.q + i), scale), d, w.q + i);
  }
}

// Rows of k or v in f32: as they lie, or widened into memory.
struct Tile {
  const float* data;
  int64_t row, column;
};

template <class Load>
HWY_INLINE void widen_rows(const uint16_t* x, int64_t row, int64_t column, int64_t n, int64_t width, float* out,
                           int64_t pitch, const Load& load) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < n; ++j) {
    const uint16_t* from = x + j * row;
    float* to = out + j * pitch;
    int64_t i = 0;
    if (column == 1) {
      for (; i + lanes <= width; i += lanes) hn::StoreU(load(d, from + i), d, to + i);
    }
    const hn::CappedTag<float, 1> one;
    for (; i < width; ++i) hn::StoreU(load(one, from + i * column), one, to + i);
  }
}

// Rows [first, first + n) of a head of k or v.
HWY_INLINE Tile rows_of(const void* x, DType dtype, const int64_t* strides, const AttentionTask& t, int64_t first,
                        int64_t n, int64_t width, float* memory) {
  const int64_t at = t.b * strides[0] + t.kv_head * strides[1] + first * strides[2];
  if (dtype == DType::f32) return {static_cast<const float*>(x) + at, strides[2], strides[3]};
  const int64_t pitch = round_up(width, kMaxVector);
  const auto* halves = static_cast<const uint16_t*>(x) + at;
  if (dtype == DType::f16) {
    widen_rows(halves, strides[2], strides[3], n, width, memory, pitch,
               [](auto d, const uint16_t* p) HWY_ATTR { return load_f16(d, p); });
  } else {
    widen_rows(halves, strides[2], strides[3], n, width, memory, pitch,
               [](auto d, const uint16_t* p) HWY_ATTR { return load_bf16(d, p); });
  }
  return {memory, pitch, 1};
}
HWY_INLINE Tile keys_of(const Attention& a, const AttentionTask& t, int64_t first, int64_t n, float* memory) {
  return rows_of(a.k, a.kv_dtype, a.k_strides, t, first, n, a.dim, memory);
}
HWY_INLINE Tile values_of(const Attention& a, const AttentionTask& t, int64_t first, int64_t n, float* memory) {
  return rows_of(a.v, a.kv_dtype, a.v_strides, t, first, n, a.v_dim, memory);
}

// n rows of v in panels of value_vectors vectors, each [n][panel width], zero beyond v_dim.
HWY_INLINE void pack_values(const Attention& a, const Tile& v, const AttentionWork& w, int64_t n) {
  const int64_t panel = kBlocks.value_vectors * static_cast<int64_t>(hn::Lanes(F32()));
  for (int64_t j = 0; j < n; ++j) {
    const float* row = v.data + j * v.row;
    for (int64_t c = 0; c < w.columns; c += panel) {
      const int64_t width = std::min(panel, w.columns - c), real = std::min(panel, a.v_dim - c);
      float* to = w.value + c * n + j * width;
      if (v.column == 1) {
        if (real == width) {
          for (int64_t i = 0; i < width; i += static_cast<int64_t>(hn::Lanes(F32()))) {
            hn::StoreU(hn::LoadU(F32(), row + c + i), F32(), to + i);
          }
          continue;
        }
        memcpy(to, row + c, static_cast<size_t>(real) * sizeof(float));
      } else {
        for (int64_t i = 0; i < real; ++i) to[i] = row[(c + i) * v.column];
      }
      for (int64_t i = real; i < width; ++i) to[i] = 0.0f;
    }
  }
}

// Adds the mask of keys [first, first + n) to the scores.
HWY_INLINE void add_mask(const Attention& a, const AttentionTask& t, const AttentionWork& w, int64_t first, int64_t n) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), key = a.mask_strides[3];
  const bool shared = a.mask_strides[2] == 0 && (a.mask_strides[1] == 0 || a.q_heads == a.kv_heads);
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const int64_t at = mask_row(a, t, 0) + first * key;
  if (shared) {  // one value a key
    for (int64_t j = 0; j < n; ++j) {
      const float m = a.mask ? a.mask[at + j * key] : a.keep[at + j * key] ? 0.0f : kHidden;
      if (m == 0.0f) continue;
      const VF32 v = hn::Set(d, m);
      float* s = w.score + j * w.pitch;
      for (int64_t c = 0; c < w.pitch; c += lanes) hn::StoreU(hn::Add(hn::LoadU(d, s + c), v), d, s + c);
    }
    return;
  }
  int64_t r = 0;
  if (a.mask && key == 1) {
    for (; r + 4 <= t.rows; r += 4) {
      const float* rows[4];
      for (int64_t i = 0; i < 4; ++i) rows[i] = a.mask + mask_row(a, t, r + i) + first;
      transpose_four(rows, n, w.mask + r, w.pitch);
    }
  }
  for (; r < w.pitch; ++r) {
    const int64_t row = mask_row(a, t, std::min(r, t.rows - 1)) + first * key;
    for (int64_t j = 0; j < n; ++j) {
      w.mask[j * w.pitch + r] = a.mask ? a.mask[row + j * key] : a.keep[row + j * key] ? 0.0f : kHidden;
    }
  }
  for (int64_t i = 0; i < n * w.pitch; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, w.score + i), hn::LoadU(d, w.mask + i)), d, w.score + i);
  }
}

HWY_INLINE void softcap_scores(const Attention& a, float* s, int64_t n) {
  const F32 d;
  const VF32 cap = hn::Set(d, a.softcap), inverse = hn::Set(d, 1.0f / a.softcap);
  for_vectors(n, [&](int64_t i, auto memory) HWY_ATTR {
    memory.store(hn::Mul(cap, vec_tanh(d, hn::Mul(memory.load(s + i), inverse))), s + i);
  });
}

// Scores to exponentials; the state's top and sum move on; alpha is what older sums and values shrink by.
HWY_INLINE void exponentials(const AttentionWork& w, const AttentionState& state, int64_t first, int64_t n, bool limits,
                             bool& shrinks) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VF32 hidden = hn::Set(d, -std::numeric_limits<float>::infinity()), one = hn::Set(d, 1.0f);
  shrinks = false;
  for (int64_t c = 0; c < w.pitch; c += lanes) {
    float* s = w.score + c;
    const VF32 before = hn::LoadU(d, state.top + c);
    VF32 top = before;
    if (limits) {
      const VF32 begin = hn::LoadU(d, w.begin + c), end = hn::LoadU(d, w.end + c);
      for (int64_t j = 0; j < n; ++j) {
        const VF32 key = hn::Set(d, static_cast<float>(first + j));
        const auto seen = hn::And(hn::Ge(key, begin), hn::Lt(key, end));
        const VF32 v = hn::IfThenElse(seen, hn::LoadU(d, s + j * w.pitch), hidden);
        hn::StoreU(v, d, s + j * w.pitch);
        top = hn::Max(v, top);
      }
    } else {
      VF32 other = top;
      int64_t j = 0;
      for (; j + 2 <= n; j += 2) {
        top = hn::Max(hn::LoadU(d, s + j * w.pitch), top);
        other = hn::Max(hn::LoadU(d, s + (j + 1) * w.pitch), other);
      }
      if (j < n) top = hn::Max(hn::LoadU(d, s + j * w.pitch), top);
      top = hn::Max(top, other);
    }
    // Rows that have seen nothing yet: any finite centre will do.
    const VF32 center = hn::IfThenZeroElse(hn::Eq(top, hidden), top);
    const VF32 alpha = vec_exp_nonpositive(d, hn::Sub(before, center));
    VF32 sum = hn::Zero(d);
    for (int64_t j = 0; j < n; ++j) {
      const VF32 e = vec_exp_nonpositive(d, hn::Sub(hn::LoadU(d, s + j * w.pitch), center));
      hn::StoreU(e, d, s + j * w.pitch);
      sum = hn::Add(sum, e);
    }
    hn::StoreU(top, d, state.top + c);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, state.sum + c), alpha, sum), d, state.sum + c);
    hn::StoreU(alpha, d, w.alpha + c);
    shrinks = shrinks || !hn::AllTrue(d, hn::Eq(alpha, one));
  }
}

HWY_INLINE void tile_products(const Attention& a, const AttentionTask& t, const AttentionWork& w,
                              const AttentionState& state, int64_t first, int64_t n, bool limits) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), pitch = value_pitch(a);
  const Tile k = keys_of(a, t, first, n, w.widened);
  for (int64_t c = 0; c < w.pitch; c += kBlocks.score_vectors * lanes) {
    const int64_t vectors = std::min<int64_t>(kBlocks.score_vectors, (w.pitch - c) / lanes);
    micro_width<kBlocks.score_rows, false>(vectors, k.data, k.row, k.column, w.q + c, w.pitch, a.dim, w.score + c,
                                           w.pitch, n, false);
  }
  if (a.softcap > 0) softcap_scores(a, w.score, n * w.pitch);
  if (a.mask || a.keep) add_mask(a, t, w, first, n);
  bool shrinks;
  exponentials(w, state, first, n, limits, shrinks);
  if (shrinks) {
    for (int64_t r = 0; r < t.rows; ++r) {
      const VF32 alpha = hn::Set(d, w.alpha[r]);
      float* row = state.value + r * pitch;
      for (int64_t c = 0; c < w.columns; c += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + c), alpha), d, row + c);
    }
  }
  // Few rows use v once: not worth a copy unless its rows aren't whole vectors.
  const Tile v = values_of(a, t, first, n, w.widened);
  const bool direct = v.column == 1 && a.v_dim == w.columns && t.rows <= 8;
  if (!direct) pack_values(a, v, w, n);
  for (int64_t c = 0; c < w.columns; c += kBlocks.value_vectors * lanes) {
    const int64_t vectors = std::min<int64_t>(kBlocks.value_vectors, (w.columns - c) / lanes);
    micro_width<kBlocks.value_rows, true>(vectors, w.score, 1, w.pitch, direct ? v.data + c : w.value + c * n,
                                          direct ? v.row : vectors * lanes, n, state.value + c, pitch, t.rows, true);
  }
}

// One task: `memory` holds task_floats_needed, the state starts here.
void attention_task(const Attention& a, const AttentionTask& t, const AttentionState& state, float* memory) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32()));
  AttentionWork w;
  w.pitch = round_up(t.rows, lanes);
  w.columns = round_up(a.v_dim, lanes);
  w.q = memory;
  w.score = w.q + kRowBlock * a.dim;
  w.mask = w.score + kRowBlock * kKeyBlock;
  w.value = w.mask + kRowBlock * kKeyBlock;
  w.begin = w.value + kKeyBlock * value_pitch(a);
  w.end = w.begin + kRowBlock;
  w.alpha = w.end + kRowBlock;
  w.widened = w.alpha + kRowBlock;
  KeyRange any{a.kv_len, 0}, all{0, a.kv_len};  // keys that some row sees, and that every row sees
  for (int64_t r = 0; r < w.pitch; ++r) {
    int64_t query, head;
    split_row(a, t, std::min(r, t.rows - 1), query, head);
    const KeyRange range = visible_keys(a, t.b, query);
    w.begin[r] = static_cast<float>(range.begin);
    w.end[r] = static_cast<float>(range.end);
    if (range.begin < range.end) any = {std::min(any.begin, range.begin), std::max(any.end, range.end)};
    all = {std::max(all.begin, range.begin), std::min(all.end, range.end)};
    // A sink counts once, in the first chunk of keys.
    const bool sink = a.sink && t.key_begin == 0;
    state.top[r] = sink ? a.sink[head] : -std::numeric_limits<float>::infinity();
    state.sum[r] = sink && !std::isinf(state.top[r]) ? 1.0f : 0.0f;
  }
  std::fill_n(state.value, t.rows * value_pitch(a), 0.0f);
  any = {std::max(any.begin, t.key_begin), std::min(any.end, t.key_end)};
  if (any.begin >= any.end) return;
  pack_queries(a, t, w);
  for (int64_t first = any.begin; first < any.end; first += kKeyBlock) {
    const int64_t n = std::min(kKeyBlock, any.end - first);
    tile_products(a, t, w, state, first, n, first < all.begin || first + n > all.end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_ATTENTION_INL_H_
