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
  float *q, *score, *mask, *value, *begin, *end, *alpha;
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

// v[first, first + n) in panels of value_vectors vectors, each [n][panel width], zero beyond v_dim.
HWY_INLINE void pack_values(const Attention& a, const AttentionTask& t, const AttentionWork& w, int64_t first,
                            int64_t n) {
  const int64_t panel = kBlocks.value_vectors * static_cast<int64_t>(hn::Lanes(F32()));
  const float* v = a.v + t.b * a.v_strides[0] + t.kv_head * a.v_strides[1] + first * a.v_strides[2];
  for (int64_t j = 0; j < n; ++j) {
    const float* row = v + j * a.v_strides[2];
    for (int64_t c = 0; c < w.columns; c += panel) {
      const int64_t width = std::min(panel, w.columns - c), real = std::min(panel, a.v_dim - c);
      float* to = w.value + c * n + j * width;
      if (a.v_strides[3] == 1) {
        if (real == width) {
          for (int64_t i = 0; i < width; i += static_cast<int64_t>(hn::Lanes(F32()))) {
            hn::StoreU(hn::LoadU(F32(), row + c + i), F32(), to + i);
          }
          continue;
        }
        memcpy(to, row + c, static_cast<size_t>(real) * sizeof(float));
      } else {
        for (int64_t i = 0; i < real; ++i) to[i] = row[(c + i) * a.v_strides[3]];
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
  const float* k = a.k + t.b * a.k_strides[0] + t.kv_head * a.k_strides[1] + first * a.k_strides[2];
  for (int64_t c = 0; c < w.pitch; c += kBlocks.score_vectors * lanes) {
    const int64_t vectors = std::min<int64_t>(kBlocks.score_vectors, (w.pitch - c) / lanes);
    micro_width<kBlocks.score_rows, false>(vectors, k, a.k_strides[2], a.k_strides[3], w.q + c, w.pitch, a.dim,
                                           w.score + c, w.pitch, n, false);
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
  const bool direct = a.v_strides[3] == 1 && a.v_dim == w.columns && t.rows <= 8;
  if (!direct) pack_values(a, t, w, first, n);
  const float* v = a.v + t.b * a.v_strides[0] + t.kv_head * a.v_strides[1] + first * a.v_strides[2];
  for (int64_t c = 0; c < w.columns; c += kBlocks.value_vectors * lanes) {
    const int64_t vectors = std::min<int64_t>(kBlocks.value_vectors, (w.columns - c) / lanes);
    micro_width<kBlocks.value_rows, true>(vectors, w.score, 1, w.pitch, direct ? v + c : w.value + c * n,
                                          direct ? a.v_strides[2] : vectors * lanes, n, state.value + c, pitch, t.rows,
                                          true);
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

// One row of scores by dot products along d, for tasks with too few rows to fill a vector.
HWY_INLINE void dot_scores(const Attention& a, const float* q, const float* k, int64_t n, float* score) {
  const F32 d;
  const int64_t stride = a.k_strides[2];
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    VF32 s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const float* row = k + j * stride;
    for_vectors(a.dim, [&](int64_t i, auto memory) HWY_ATTR {
      const VF32 x = memory.load(q + i);
      s0 = hn::MulAdd(x, memory.load(row + i), s0);
      s1 = hn::MulAdd(x, memory.load(row + stride + i), s1);
      s2 = hn::MulAdd(x, memory.load(row + 2 * stride + i), s2);
      s3 = hn::MulAdd(x, memory.load(row + 3 * stride + i), s3);
    });
    score[j] = hn::GetLane(hn::SumOfLanes(d, s0));
    score[j + 1] = hn::GetLane(hn::SumOfLanes(d, s1));
    score[j + 2] = hn::GetLane(hn::SumOfLanes(d, s2));
    score[j + 3] = hn::GetLane(hn::SumOfLanes(d, s3));
  }
  for (; j < n; ++j) {
    VF32 s = hn::Zero(d);
    for_vectors(a.dim, [&](int64_t i, auto memory)
                           HWY_ATTR { s = hn::MulAdd(memory.load(q + i), memory.load(k + j * stride + i), s); });
    score[j] = hn::GetLane(hn::SumOfLanes(d, s));
  }
}

// The same as attention_task with the lanes along d; k and v have unit strides there.
void attention_few_rows(const Attention& a, const AttentionTask& t, const AttentionState& state, float* memory) {
  const F32 d;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  float *q = memory, *score = q + kRowBlock * a.dim;
  for (int64_t r = 0; r < t.rows; ++r) {
    int64_t query, head;
    split_row(a, t, r, query, head);
    const bool sink = a.sink && t.key_begin == 0;
    float top = sink ? a.sink[head] : kHidden;
    double sum = sink && !std::isinf(top) ? 1.0 : 0.0;
    float* value = state.value + r * value_pitch(a);
    std::fill_n(value, value_pitch(a), 0.0f);
    const KeyRange range = visible_keys(a, t.b, query);
    const int64_t end = std::min(range.end, t.key_end);
    const float* from = query_row(a, t, r);
    for (int64_t i = 0; i < a.dim; ++i) q[i] = from[i * a.q_strides[3]] * a.scale;
    for (int64_t first = std::max(range.begin, t.key_begin); first < end; first += kKeyBlock) {
      const int64_t n = std::min(kKeyBlock, end - first);
      dot_scores(a, q, a.k + t.b * a.k_strides[0] + t.kv_head * a.k_strides[1] + first * a.k_strides[2], n, score);
      if (a.softcap > 0) softcap_scores(a, score, n);
      const int64_t at = a.mask || a.keep ? mask_row(a, t, r) + first * a.mask_strides[3] : 0;
      const float before = top;
      for (int64_t j = 0; j < n; ++j) {
        if (a.mask) score[j] += a.mask[at + j * a.mask_strides[3]];
        if (a.keep && !a.keep[at + j * a.mask_strides[3]]) score[j] = kHidden;
        top = std::max(top, score[j]);
      }
      const VF32 center = hn::Set(d, top == kHidden ? 0.0f : top);
      const float alpha =
          top == kHidden || before == kHidden ? 0.0f : hn::GetLane(vec_exp_nonpositive(d, hn::Set(d, before - top)));
      sum = sum * alpha + sum_vectors(n, [&](int64_t i, auto io) HWY_ATTR {
              const VF32 e = vec_exp_nonpositive(d, hn::Sub(io.load(score + i, kHidden), center));
              io.store(e, score + i);
              return e;
            });
      const float* v = a.v + t.b * a.v_strides[0] + t.kv_head * a.v_strides[1] + first * a.v_strides[2];
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), stride = a.v_strides[2];
      const VF32 shrink = hn::Set(d, alpha);
      int64_t c = 0;
      for (; c + 4 * lanes <= a.v_dim; c += 4 * lanes) {
        float* to = value + c;
        VF32 v0 = hn::Mul(hn::LoadU(d, to), shrink), v1 = hn::Mul(hn::LoadU(d, to + lanes), shrink);
        VF32 v2 = hn::Mul(hn::LoadU(d, to + 2 * lanes), shrink), v3 = hn::Mul(hn::LoadU(d, to + 3 * lanes), shrink);
        for (int64_t j = 0; j < n; ++j) {
          const VF32 p = hn::Set(d, score[j]);
          const float* row = v + j * stride + c;
          v0 = hn::MulAdd(p, hn::LoadU(d, row), v0);
          v1 = hn::MulAdd(p, hn::LoadU(d, row + lanes), v1);
          v2 = hn::MulAdd(p, hn::LoadU(d, row + 2 * lanes), v2);
          v3 = hn::MulAdd(p, hn::LoadU(d, row + 3 * lanes), v3);
        }
        hn::StoreU(v0, d, to);
        hn::StoreU(v1, d, to + lanes);
        hn::StoreU(v2, d, to + 2 * lanes);
        hn::StoreU(v3, d, to + 3 * lanes);
      }
      for_vectors(a.v_dim - c, [&](int64_t i, auto io) HWY_ATTR {
        VF32 x = hn::Mul(io.load(value + c + i), shrink);
        for (int64_t j = 0; j < n; ++j) x = hn::MulAdd(hn::Set(d, score[j]), io.load(v + j * stride + c + i), x);
        io.store(x, value + c + i);
      });
    }
    state.top[r] = top;
    state.sum[r] = static_cast<float>(sum);
  }
}

// Rows that fill at most a quarter of a vector go along d instead.
bool attention_prefers_dots(int64_t rows) { return rows * 4 <= static_cast<int64_t>(hn::Lanes(F32())); }

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_ATTENTION_INL_H_
