// Loops of recurrent.h.

#if defined(TRANSMUTER_CPU_RECURRENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_RECURRENT_INL_H_
#undef TRANSMUTER_CPU_RECURRENT_INL_H_
#else
#define TRANSMUTER_CPU_RECURRENT_INL_H_
#endif

#include <algorithm>

#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/recurrent.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_NOINLINE VF32 activate(const CellFunction& fn, VF32 x) {
  const F32 d;
  const VF32 zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const VF32 alpha = hn::Set(d, fn.alpha), beta = hn::Set(d, fn.beta);
  switch (fn.kind) {
    case CellActivation::sigmoid:
      return vec_logistic(d, x);
    case CellActivation::tanh:
      return vec_tanh(d, x);
    case CellActivation::relu:
      return max_nan(d, x, zero);
    case CellActivation::affine:
      return hn::MulAdd(alpha, x, beta);
    case CellActivation::leaky_relu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x);
    case CellActivation::thresholded_relu:
      return hn::IfThenElse(hn::Le(x, alpha), zero, x);
    case CellActivation::scaled_tanh:
      return hn::Mul(alpha, vec_tanh(d, hn::Mul(beta, x)));
    case CellActivation::hard_sigmoid:
      return max_nan(d, min_nan(d, hn::MulAdd(alpha, x, beta), one), zero);
    case CellActivation::elu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, vec_expm1(d, x)), x);
    case CellActivation::softsign:
      return hn::Div(x, hn::Add(one, hn::Abs(x)));
    default:  // softplus
      return hn::Add(max_nan(d, x, zero), vec_log1p(d, vec_exp(d, hn::Neg(hn::Abs(x)))));
  }
}

// The gates of one row.
struct GateRow {
  const float* x;
  const float* h;  // may be null
  int64_t hidden;
  float clip;

  GateRow(const CellStep& s, int64_t row)
      : x(s.x_gates + row * s.x_pitch),
        h(s.h_gates ? s.h_gates + row * s.h_pitch : nullptr),
        hidden(s.hidden),
        clip(s.clip) {}

  template <class Memory>
  HWY_INLINE VF32 sum(int64_t gate, int64_t i, Memory memory) const {
    const VF32 v = memory.load(x + gate * hidden + i);
    return h ? hn::Add(v, memory.load(h + gate * hidden + i)) : v;
  }
  HWY_INLINE VF32 bound(VF32 v) const { return clip > 0 ? clamp_nan(F32(), v, -clip, clip) : v; }
};

// Calls active(row) for running sequences; others keep h and give zeros.
template <class Fn>
HWY_INLINE void for_rows(const CellStep& s, const Fn& active) {
  for (int64_t r = 0; r < s.rows; ++r) {
    if (!s.lengths || s.step < s.lengths[r]) {
      active(r);
      continue;
    }
    if (s.h != s.h_prev) std::copy_n(s.h_prev + r * s.hidden, s.hidden, s.h + r * s.hidden);
    if (s.y) std::fill_n(s.y + r * s.y_pitch, s.hidden, 0.0f);
  }
}

template <class Memory>
HWY_INLINE void put(const CellStep& s, int64_t row, int64_t i, VF32 h, Memory memory) {
  memory.store(h, s.h + row * s.hidden + i);
  if (s.y) memory.store(h, s.y + row * s.y_pitch + i);
}

void rnn_rows(const CellStep& s, const CellFunction& f) {
  for_rows(s, [&](int64_t r) HWY_ATTR {
    const GateRow gates(s, r);
    for_vectors(s.hidden, [&](int64_t i, auto memory)
                              HWY_ATTR { put(s, r, i, activate(f, gates.bound(gates.sum(0, i, memory))), memory); });
  });
}

void lstm_rows(const CellStep& s, const LstmCell& lstm) {
  const int64_t n = s.hidden;
  for (int64_t r = 0; r < s.rows && lstm.c != lstm.c_prev; ++r) {
    if (s.lengths && s.step >= s.lengths[r]) std::copy_n(lstm.c_prev + r * n, n, lstm.c + r * n);
  }
  for_rows(s, [&](int64_t r) HWY_ATTR {
    const GateRow gates(s, r);
    for_vectors(n, [&](int64_t i, auto memory) HWY_ATTR {
      const VF32 before = memory.load(lstm.c_prev + r * n + i);
      VF32 in = gates.sum(0, i, memory), out = gates.sum(1, i, memory), forget = gates.sum(2, i, memory);
      if (lstm.peephole) {
        in = hn::MulAdd(memory.load(lstm.peephole + i), before, in);
        forget = hn::MulAdd(memory.load(lstm.peephole + 2 * n + i), before, forget);
      }
      in = activate(lstm.f, gates.bound(in));
      forget = lstm.input_forget ? hn::Sub(hn::Set(F32(), 1.0f), in) : activate(lstm.f, gates.bound(forget));
      const VF32 candidate = activate(lstm.g, gates.bound(gates.sum(3, i, memory)));
      const VF32 c = hn::MulAdd(forget, before, hn::Mul(in, candidate));
      if (lstm.peephole) out = hn::MulAdd(memory.load(lstm.peephole + n + i), c, out);
      out = activate(lstm.f, gates.bound(out));
      memory.store(c, lstm.c + r * n + i);
      put(s, r, i, hn::Mul(out, activate(lstm.h, c)), memory);
    });
  });
}

// (1 - z) candidate + z before
HWY_INLINE VF32 gru_mix(VF32 z, VF32 candidate, VF32 before) {
  return hn::MulAdd(z, hn::Sub(before, candidate), candidate);
}

void gru_rows(const CellStep& s, const CellFunction& f, const CellFunction& g) {
  for_rows(s, [&](int64_t r) HWY_ATTR {
    const GateRow gates(s, r);
    for_vectors(s.hidden, [&](int64_t i, auto memory) HWY_ATTR {
      const VF32 z = activate(f, gates.bound(gates.sum(0, i, memory)));
      const VF32 reset = activate(f, gates.bound(gates.sum(1, i, memory)));
      VF32 pre = memory.load(gates.x + 2 * s.hidden + i);
      if (gates.h) pre = hn::MulAdd(reset, memory.load(gates.h + 2 * s.hidden + i), pre);
      const VF32 candidate = activate(g, gates.bound(pre));
      put(s, r, i, gru_mix(z, candidate, memory.load(s.h_prev + r * s.hidden + i)), memory);
    });
  });
}

void gru_reset_rows(const CellStep& s, const CellFunction& f, float* z, float* reset_h) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const GateRow gates(s, r);
    const int64_t row = r * s.hidden;
    for_vectors(s.hidden, [&](int64_t i, auto memory) HWY_ATTR {
      memory.store(activate(f, gates.bound(gates.sum(0, i, memory))), z + row + i);
      const VF32 reset = activate(f, gates.bound(gates.sum(1, i, memory)));
      memory.store(hn::Mul(reset, memory.load(s.h_prev + row + i)), reset_h + row + i);
    });
  }
}

void gru_output_rows(const CellStep& s, const CellFunction& g, const float* z, const float* product) {
  for_rows(s, [&](int64_t r) HWY_ATTR {
    const GateRow gates(s, r);
    const int64_t row = r * s.hidden;
    for_vectors(s.hidden, [&](int64_t i, auto memory) HWY_ATTR {
      VF32 pre = memory.load(gates.x + 2 * s.hidden + i);
      if (product) pre = hn::Add(pre, memory.load(product + row + i));
      const VF32 candidate = activate(g, gates.bound(pre));
      put(s, r, i, gru_mix(memory.load(z + row + i), candidate, memory.load(s.h_prev + row + i)), memory);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_RECURRENT_INL_H_
