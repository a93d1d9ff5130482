// Attention for few rows (a step of a decoder): the lanes go along d, and the rows of a key head's group share what is
// loaded of k and v.

#if defined(TRANSMUTER_CPU_ATTENTION_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_ATTENTION_FEW_INL_H_
#undef TRANSMUTER_CPU_ATTENTION_FEW_INL_H_
#else
#define TRANSMUTER_CPU_ATTENTION_FEW_INL_H_
#endif

#include "backends/cpu/kernels/attention-inl.h"
#include "backends/cpu/kernels/sums-inl.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kDotKeys = 4;
// Rows at a time: their sums for kDotKeys keys (or as many vectors of values) fit the registers.
#if HWY_ARCH_X86 && HWY_TARGET < HWY_AVX2
inline constexpr int kDotRows = 4;
#else
inline constexpr int kDotRows = 2;
#endif

// score[r][j] = q[r] . k[j] for j in [0, n). q is padded with zeros to whole vectors, `pitch` apart.
template <int kRows>
HWY_NOINLINE void dot_scores(const float* HWY_RESTRICT q, int64_t pitch, const Tile& k, int64_t dim, int64_t n,
                             float* HWY_RESTRICT score) {
  const F32 d;
  int64_t j = 0;
  for (; j + kDotKeys <= n; j += kDotKeys) {
    VF32 sum[kRows][kDotKeys];
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TM_UNROLL
      for (int i = 0; i < kDotKeys; ++i) sum[r][i] = hn::Zero(d);
    }
    const float* row = k.data + j * k.row;
    for_vectors(dim, [&](int64_t c, auto memory) HWY_ATTR {
      VF32 key[kDotKeys];
      TM_UNROLL
      for (int i = 0; i < kDotKeys; ++i) key[i] = memory.load(row + i * k.row + c);
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF32 x = hn::LoadU(d, q + r * pitch + c);
        TM_UNROLL
        for (int i = 0; i < kDotKeys; ++i) sum[r][i] = hn::MulAdd(x, key[i], sum[r][i]);
      }
    });
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) store_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3], score + r * kKeyBlock + j);
  }
  for (; j < n; ++j) {
    for (int r = 0; r < kRows; ++r) {
      VF32 sum = hn::Zero(d);
      for_vectors(dim, [&](int64_t c, auto memory) HWY_ATTR {
        sum = hn::MulAdd(hn::LoadU(d, q + r * pitch + c), memory.load(k.data + j * k.row + c), sum);
      });
      score[r * kKeyBlock + j] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

// value[r] = value[r] * shrink[r] + sum over j of weight[r][j] v[j].
template <int kRows>
HWY_NOINLINE void add_values(const float* HWY_RESTRICT weight, const Tile& v, int64_t width, int64_t n,
                             const float* shrink, float* HWY_RESTRICT value, int64_t pitch) {
  const F32 d;
  constexpr int kVectors = 4;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + kVectors * lanes <= width; c += kVectors * lanes) {
    VF32 sum[kRows][kVectors];
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF32 factor = hn::Set(d, shrink[r]);
      TM_UNROLL
      for (int i = 0; i < kVectors; ++i) sum[r][i] = hn::Mul(hn::LoadU(d, value + r * pitch + c + i * lanes), factor);
    }
    for (int64_t j = 0; j < n; ++j) {
      VF32 x[kVectors];
      TM_UNROLL
      for (int i = 0; i < kVectors; ++i) x[i] = hn::LoadU(d, v.data + j * v.row + c + i * lanes);
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF32 w = hn::Set(d, weight[r * kKeyBlock + j]);
        TM_UNROLL
        for (int i = 0; i < kVectors; ++i) sum[r][i] = hn::MulAdd(w, x[i], sum[r][i]);
      }
    }
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TM_UNROLL
      for (int i = 0; i < kVectors; ++i) hn::StoreU(sum[r][i], d, value + r * pitch + c + i * lanes);
    }
  }
  for_vectors(width - c, [&](int64_t i, auto memory) HWY_ATTR {
    const int64_t at = c + i;
    VF32 sum[kRows];
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Mul(memory.load(value + r * pitch + at), hn::Set(d, shrink[r]));
    for (int64_t j = 0; j < n; ++j) {
      const VF32 x = memory.load(v.data + j * v.row + at);
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Set(d, weight[r * kKeyBlock + j]), x, sum[r]);
    }
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) memory.store(sum[r], value + r * pitch + at);
  });
}

// The mask of keys [first, first + n) on a row of scores.
HWY_INLINE void mask_scores(const Attention& a, int64_t at, int64_t n, float* score) {
  const F32 d;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const int64_t key = a.mask_strides[3];
  if (a.mask && key == 1) {
    for_vectors(n, [&](int64_t i, auto io)
                       HWY_ATTR { io.store(hn::Add(io.load(score + i), io.load(a.mask + at + i)), score + i); });
    return;
  }
  if (a.mask) {
    for (int64_t j = 0; j < n; ++j) score[j] += a.mask[at + j * key];
    return;
  }
  int64_t j = 0;
  if (key == 1) {
    const hn::Rebind<uint8_t, F32> d8;
    const hn::RebindToUnsigned<F32> du;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; j + lanes <= n; j += lanes) {
      const auto kept = hn::PromoteTo(du, hn::LoadU(d8, a.keep + at + j));
      const auto hides = hn::RebindMask(d, hn::Eq(kept, hn::Zero(du)));
      hn::StoreU(hn::IfThenElse(hides, hn::Set(d, kHidden), hn::LoadU(d, score + j)), d, score + j);
    }
  }
  for (; j < n; ++j) {
    if (!a.keep[at + j * key]) score[j] = kHidden;
  }
}

HWY_INLINE float top_of(const float* score, int64_t n) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const F32 d;
  VF32 top = hn::Set(d, kHidden);
  for_vectors(n, [&](int64_t i, auto io) HWY_ATTR { top = hn::Max(io.load(score + i, kHidden), top); });
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// Rows [row, row + kRows) of the task.
template <int kRows>
HWY_INLINE void few_rows(const Attention& a, const AttentionTask& t, int64_t row, const AttentionState& state,
                         float* memory) {
  const F32 d;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const int64_t q_pitch = round_up(a.dim, kMaxVector), pitch = value_pitch(a);
  float *q = memory, *score = q + kRows * q_pitch, *widened = score + kRows * kKeyBlock;
  float* value = state.value + row * pitch;
  KeyRange range[kRows], any{a.kv_len, 0};
  float top[kRows], shrink[kRows];
  double sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    int64_t query, head;
    split_row(a, t, row + r, query, head);
    range[r] = visible_keys(a, t.b, query);
    if (range[r].begin < range[r].end) any = {std::min(any.begin, range[r].begin), std::max(any.end, range[r].end)};
    // A sink counts once, in the first chunk of keys.
    const bool sink = a.sink && t.key_begin == 0;
    top[r] = sink ? a.sink[head] : kHidden;
    sum[r] = sink && !std::isinf(top[r]) ? 1.0 : 0.0;
    std::fill_n(value + r * pitch, pitch, 0.0f);
    const float* from = query_row(a, t, row + r);
    for (int64_t i = 0; i < q_pitch; ++i) q[r * q_pitch + i] = i < a.dim ? from[i * a.q_strides[3]] * a.scale : 0.0f;
  }
  const int64_t end = std::min(any.end, t.key_end);
  for (int64_t first = std::max(any.begin, t.key_begin); first < end; first += kKeyBlock) {
    const int64_t n = std::min(kKeyBlock, end - first);
    dot_scores<kRows>(q, q_pitch, keys_of(a, t, first, n, widened), a.dim, n, score);
    for (int r = 0; r < kRows; ++r) {
      float* s = score + r * kKeyBlock;
      if (a.softcap > 0) softcap_scores(a, s, n);
      if (a.mask || a.keep) mask_scores(a, mask_row(a, t, row + r) + first * a.mask_strides[3], n, s);
      for (int64_t j = 0; j < n && first + j < range[r].begin; ++j) s[j] = kHidden;
      for (int64_t j = n; j-- > 0 && first + j >= range[r].end;) s[j] = kHidden;
      const float before = top[r];
      top[r] = std::max(before, top_of(s, n));
      const VF32 center = hn::Set(d, top[r] == kHidden ? 0.0f : top[r]);
      shrink[r] = top[r] == kHidden || before == kHidden
                      ? 0.0f
                      : hn::GetLane(vec_exp_nonpositive(d, hn::Set(d, before - top[r])));
      sum[r] = sum[r] * shrink[r] + sum_vectors(n, [&](int64_t i, auto io) HWY_ATTR {
                 const VF32 e = vec_exp_nonpositive(d, hn::Sub(io.load(s + i, kHidden), center));
                 io.store(e, s + i);
                 return e;
               });
    }
    add_values<kRows>(score, values_of(a, t, first, n, widened), a.v_dim, n, shrink, value, pitch);
  }
  for (int r = 0; r < kRows; ++r) {
    state.top[row + r] = top[r];
    state.sum[row + r] = static_cast<float>(sum[r]);
  }
}

// The same as attention_task; k and v have unit strides along d, or are widened.
void attention_few_rows(const Attention& a, const AttentionTask& t, const AttentionState& state, float* memory) {
  int64_t row = 0;
  for (; row + kDotRows <= t.rows; row += kDotRows) few_rows<kDotRows>(a, t, row, state, memory);
#if HWY_ARCH_X86 && HWY_TARGET < HWY_AVX2
  if (t.rows - row == 3) {
    few_rows<3>(a, t, row, state, memory);
    row += 3;
  } else if (t.rows - row == 2) {
    few_rows<2>(a, t, row, state, memory);
    row += 2;
  }
#endif
  for (; row < t.rows; ++row) few_rows<1>(a, t, row, state, memory);
}

// Rows that fill at most half of a vector go along d instead.
bool attention_prefers_dots(int64_t rows) {
  return rows <= std::max<int64_t>(1, std::min<int64_t>(kFewRows, static_cast<int64_t>(hn::Lanes(F32())) / 2));
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_ATTENTION_FEW_INL_H_
