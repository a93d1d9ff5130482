// The tape: one loop over whole vectors for each operation. Registers are kTileLanes long, so there are no tails; a
// tile whose length isn't a whole number of vectors is loaded by copying and stored by copying.

#if defined(TRANSMUTER_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_TILE_INL_H_
#undef TRANSMUTER_CPU_TILE_INL_H_
#else
#define TRANSMUTER_CPU_TILE_INL_H_
#endif

#include <algorithm>

#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/tile.h"
#include "backends/cpu/kernels/tile_memory-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Fn>
HWY_INLINE void unary(const float* a, float* out, size_t n, Fn fn) {
  const TileTag d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(fn(d, hn::LoadU(d, a + i)), d, out + i);
}
template <class Fn>
HWY_INLINE void binary(const float* a, const float* b, float* out, size_t n, Fn fn) {
  const TileTag d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(fn(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
}
template <class Fn>
HWY_INLINE void ternary(const float* a, const float* b, const float* c, float* out, size_t n, Fn fn) {
  const TileTag d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(fn(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, out + i);
  }
}

template <class D, class M>
HWY_INLINE hn::Vec<D> mask_value(D d, M mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, 1.0f));
}

template <class D, class V>
HWY_INLINE V vec_sign(D d, V x) {
  const V unit = hn::Or(hn::Set(d, 1.0f), hn::And(x, hn::SignBit(d)));
  return hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Zero(d)), unit, x);
}
template <class D, class V>
HWY_INLINE V vec_round_away(D d, V x) {
  const V t = hn::Trunc(x);
  const auto up = hn::Ge(hn::Abs(hn::Sub(x, t)), hn::Set(d, 0.5f));
  const V one = hn::CopySign(hn::Set(d, 1.0f), x);
  return hn::IfThenElse(up, hn::Add(t, one), t);
}
template <class D, class V>
HWY_INLINE V vec_gelu(D d, V x) {
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half, vec_erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half);
}
template <class D, class V>
HWY_INLINE V vec_gelu_tanh(D d, V x) {
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  const V cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
  return hn::MulAdd(half, vec_tanh(d, hn::Mul(cubic, hn::Set(d, 0.79788456f))), half);
}
template <class D, class V>
HWY_INLINE V vec_softplus(D d, V x) {
  const V tail = vec_log1p(d, vec_exp(d, hn::Neg(hn::Abs(x))));
  return hn::Add(max_nan(d, x, hn::Zero(d)), tail);
}

HWY_NOINLINE void compute_unary(const TileStep& step, const float* a, float* o, size_t n) {
  switch (step.op) {
    case TileOp::neg:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Neg(x); });
    case TileOp::abs:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Abs(x); });
    case TileOp::sign:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_sign(d, x); });
    case TileOp::sqrt:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Sqrt(x); });
    case TileOp::rsqrt:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)); });
    case TileOp::reciprocal:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return hn::Div(hn::Set(d, 1.0f), x); });
    case TileOp::square:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Mul(x, x); });
    case TileOp::exp:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_exp(d, x); });
    case TileOp::expm1:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_expm1(d, x); });
    case TileOp::log:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_log(d, x); });
    case TileOp::log1p:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_log1p(d, x); });
    case TileOp::tanh:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_tanh(d, x); });
    case TileOp::erf:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_erf(d, x); });
    case TileOp::logistic:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_logistic(d, x); });
    case TileOp::sin:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_sin(d, x); });
    case TileOp::cos:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_cos(d, x); });
    case TileOp::floor:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Floor(x); });
    case TileOp::ceil:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Ceil(x); });
    case TileOp::trunc:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Trunc(x); });
    case TileOp::round_nearest_even:
      return unary(a, o, n, [](auto, auto x) HWY_ATTR { return hn::Round(x); });
    case TileOp::round_nearest_afz:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_round_away(d, x); });
    case TileOp::is_finite:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR {
        return mask_value(d, hn::Lt(hn::Abs(x), hn::Set(d, std::numeric_limits<float>::infinity())));
      });
    case TileOp::is_nan:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return mask_value(d, hn::IsNaN(x)); });
    case TileOp::logical_not:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return mask_value(d, hn::Eq(x, hn::Zero(d))); });
    case TileOp::gelu:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_gelu(d, x); });
    case TileOp::gelu_tanh:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_gelu_tanh(d, x); });
    case TileOp::silu:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return hn::Mul(x, vec_logistic(d, x)); });
    case TileOp::relu:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return max_nan(d, x, hn::Zero(d)); });
    case TileOp::softplus:
      return unary(a, o, n, [](auto d, auto x) HWY_ATTR { return vec_softplus(d, x); });
    case TileOp::add_imm:
      return unary(a, o, n, [v = step.imm](auto d, auto x) HWY_ATTR { return hn::Add(x, hn::Set(d, v)); });
    case TileOp::mul_imm:
      return unary(a, o, n, [v = step.imm](auto d, auto x) HWY_ATTR { return hn::Mul(x, hn::Set(d, v)); });
    default:  // clamp_imm
      return unary(a, o, n, [lo = step.imm, hi = step.imm2](auto d, auto x) HWY_ATTR {
        return max_nan(d, min_nan(d, x, hn::Set(d, hi)), hn::Set(d, lo));
      });
  }
}

HWY_NOINLINE void compute_binary(TileOp op, const float* a, const float* b, float* o, size_t n) {
  switch (op) {
    case TileOp::add:
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
    case TileOp::sub:
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Sub(x, y); });
    case TileOp::mul:
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Mul(x, y); });
    case TileOp::div:
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Div(x, y); });
    case TileOp::max:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return max_nan(d, x, y); });
    case TileOp::min:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return min_nan(d, x, y); });
    case TileOp::pow:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return vec_pow(d, x, y); });
    case TileOp::remainder:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return vec_remainder(d, x, y); });
    case TileOp::eq:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return mask_value(d, hn::Eq(x, y)); });
    case TileOp::ne:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return mask_value(d, hn::Not(hn::Eq(x, y))); });
    case TileOp::lt:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return mask_value(d, hn::Lt(x, y)); });
    case TileOp::le:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return mask_value(d, hn::Le(x, y)); });
    case TileOp::gt:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return mask_value(d, hn::Gt(x, y)); });
    case TileOp::ge:
      return binary(a, b, o, n, [](auto d, auto x, auto y) HWY_ATTR { return mask_value(d, hn::Ge(x, y)); });
    case TileOp::logical_and:
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Mul(x, y); });
    case TileOp::logical_or:
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Max(x, y); });
    default:  // logical_xor
      return binary(a, b, o, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Abs(hn::Sub(x, y)); });
  }
}

HWY_NOINLINE void compute_ternary(TileOp op, const float* a, const float* b, const float* c, float* o, size_t n) {
  switch (op) {
    case TileOp::fma:
      return ternary(a, b, c, o, n, [](auto, auto x, auto y, auto z) HWY_ATTR { return hn::MulAdd(x, y, z); });
    case TileOp::select:
      return ternary(a, b, c, o, n, [](auto d, auto x, auto y, auto z) HWY_ATTR {
        return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), z, y);
      });
    default:  // clamp
      return ternary(a, b, c, o, n,
                     [](auto d, auto lo, auto x, auto hi) HWY_ATTR { return min_nan(d, max_nan(d, x, lo), hi); });
  }
}

// How an input is read over the whole iteration space.
enum class Access : uint8_t { flat, scalar, walk };

struct TileRun {
  const int64_t* dims;
  int rank;
  bool in_place;                 // an output is an input's memory: nothing is read late or written early
  size_t n = 0;                  // lanes of this tile
  size_t padded = 0;             // rounded up to whole vectors
  int64_t begin = 0;             // linear index of the tile
  int64_t coords[kTileMaxDims];  // of its first element, when some input walks
  const float* src[kTileRegisters];
  float* own[kTileRegisters];
};

HWY_INLINE Access access_of(const TileInput& input, const int64_t* dims, int rank) {
  bool flat = true, scalar = true;
  int64_t dense = 1;
  for (int k = rank - 1; k >= 0; --k) {
    if (dims[k] == 1) continue;
    flat = flat && input.strides[k] == dense;
    scalar = scalar && input.strides[k] == 0;
    dense *= dims[k];
  }
  return scalar ? Access::scalar : flat ? Access::flat : Access::walk;
}

HWY_INLINE void load_walk(const TileRun& run, const TileInput& input, size_t width, float* to) {
  int64_t at[kTileMaxDims];
  int64_t offset = 0;
  const int inner = run.rank - 1;
  for (int k = 0; k < run.rank; ++k) {
    at[k] = run.coords[k];
    offset += at[k] * input.strides[k];
  }
  for (size_t done = 0; done < run.n;) {
    const size_t len = std::min(run.n - done, static_cast<size_t>(run.dims[inner] - at[inner]));
    load_run(input.dtype, width, static_cast<const char*>(input.data) + offset * static_cast<int64_t>(width),
             input.strides[inner], to + done, len);
    done += len;
    at[inner] += static_cast<int64_t>(len);
    offset += static_cast<int64_t>(len) * input.strides[inner];
    for (int k = inner; k > 0 && at[k] == run.dims[k]; --k) {
      offset += input.strides[k - 1] - at[k] * input.strides[k];
      at[k] = 0;
      ++at[k - 1];
    }
  }
}

HWY_INLINE void load_step(TileRun& run, const TileStep& step, const TileInput& input, Access access) {
  const size_t width = static_cast<size_t>(bit_width(input.dtype)) / 8;
  const char* bytes = static_cast<const char*>(input.data);
  float* own = run.own[step.dst];
  run.src[step.dst] = own;
  if (access == Access::scalar) {
    load_run(input.dtype, width, bytes, 0, own, kTileLanes);
    return;
  }
  const bool late = !run.in_place && input.dtype == DType::f32 && run.n == run.padded;
  if (access == Access::flat) {
    bytes += run.begin * static_cast<int64_t>(width);
    if (late) {
      run.src[step.dst] = reinterpret_cast<const float*>(bytes);
      return;
    }
    widen_run(input.dtype, bytes, own, run.n);
  } else {
    const int inner = run.rank - 1;
    if (late && input.strides[inner] == 1 && run.coords[inner] + static_cast<int64_t>(run.n) <= run.dims[inner]) {
      int64_t offset = 0;
      for (int k = 0; k < run.rank; ++k) offset += run.coords[k] * input.strides[k];
      run.src[step.dst] = reinterpret_cast<const float*>(bytes) + offset;
      return;
    }
    load_walk(run, input, width, own);
  }
  fill(own + run.n, run.padded - run.n, 0.0f);
}

HWY_INLINE void run_steps(TileRun& run, const TileProgram& program, const TileInput* inputs, const Access* access,
                          const TileOutput* outputs, const uint8_t* hoisted, const int8_t* direct, bool first) {
  const size_t count = program.steps.size();
  for (size_t s = 0; s < count; ++s) {
    const TileStep& step = program.steps[s];
    if (hoisted[s] && !first) continue;
    if (step.op == TileOp::load) {
      load_step(run, step, inputs[step.a], access[step.a]);
      continue;
    }
    if (step.op == TileOp::constant) {
      fill(run.own[step.dst], kTileLanes, step.imm);
      run.src[step.dst] = run.own[step.dst];
      continue;
    }
    if (step.op == TileOp::store) {
      const TileOutput& output = outputs[step.b];
      const int64_t width = bit_width(output.dtype) / 8;
      char* to = static_cast<char*>(output.data) + run.begin * width;
      if (run.src[step.a] != reinterpret_cast<const float*>(to)) narrow_run(output.dtype, run.src[step.a], to, run.n);
      continue;
    }
    float* out = run.own[step.dst];
    if (direct[s] >= 0 && run.n == run.padded) out = static_cast<float*>(outputs[direct[s]].data) + run.begin;
    const float* a = run.src[step.a];
    if (step.op < TileOp::add) {
      compute_unary(step, a, out, run.padded);
    } else if (step.op < TileOp::fma) {
      compute_binary(step.op, a, run.src[step.b], out, run.padded);
    } else {
      compute_ternary(step.op, a, run.src[step.b], run.src[step.c], out, run.padded);
    }
    run.src[step.dst] = out;
  }
}

void tile_range(const TileProgram& program, const int64_t* dims, int rank, const TileInput* inputs,
                const TileOutput* outputs, int64_t begin, int64_t end) {
  HWY_ALIGN float registers[kTileRegisters * kTileLanes];
  const size_t count = program.steps.size();
  TileRun run;
  run.dims = dims;
  run.rank = rank;
  run.in_place = false;
  for (int r = 0; r < kTileRegisters; ++r) run.src[r] = run.own[r] = registers + r * kTileLanes;

  // What each step may do: be done once a range, or write its result straight to memory.
  uint8_t hoisted[kTileMaxSteps] = {}, writers[kTileRegisters] = {};
  int8_t direct[kTileMaxSteps];
  int last_writer[kTileRegisters];
  std::fill(last_writer, last_writer + kTileRegisters, -1);
  Access access[kTileMaxSteps] = {};
  bool walks = false;
  for (size_t s = 0; s < count; ++s) {
    const TileStep& step = program.steps[s];
    direct[s] = -1;
    if (step.op == TileOp::store) {
      for (size_t q = 0; q < count; ++q) {
        const TileStep& other = program.steps[q];
        if (other.op == TileOp::load && inputs[other.a].data == outputs[step.b].data) run.in_place = true;
      }
      continue;
    }
    writers[step.dst] = static_cast<uint8_t>(writers[step.dst] + 1);
    if (step.op == TileOp::load) {
      access[step.a] = access_of(inputs[step.a], dims, rank);
      walks = walks || access[step.a] == Access::walk;
    }
  }
  for (size_t s = 0; s < count; ++s) {
    const TileStep& step = program.steps[s];
    if (step.op == TileOp::store) {
      const int w = last_writer[step.a];
      if (!run.in_place && outputs[step.b].dtype == DType::f32 && w >= 0 && direct[w] < 0 &&
          program.steps[static_cast<size_t>(w)].op > TileOp::constant) {
        direct[w] = static_cast<int8_t>(step.b);
      }
      continue;
    }
    last_writer[step.dst] = static_cast<int>(s);
    hoisted[s] = writers[step.dst] == 1 &&
                 (step.op == TileOp::constant || (step.op == TileOp::load && access[step.a] == Access::scalar));
  }

  // Tiles don't cross rows when rows are long, so that broadcast rows are read in place; they split a row evenly.
  const int64_t inner = rank > 0 ? dims[rank - 1] : 1;
  int64_t piece = kTileLanes;
  const bool by_row = walks && inner >= kTileLanes / 2;
  if (by_row) {
    const int64_t pieces = (inner + kTileLanes - 1) / kTileLanes;
    piece = std::min<int64_t>(kTileLanes, ((inner + pieces - 1) / pieces + 15) / 16 * 16);
  }
  const size_t lanes = hn::Lanes(TileTag());
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(piece, end - at);
    if (walks) {
      int64_t rest = at;
      for (int k = rank - 1; k >= 0; --k) {
        run.coords[k] = rest % dims[k];
        rest /= dims[k];
      }
      if (by_row) n = std::min(n, inner - run.coords[rank - 1]);
    }
    run.begin = at;
    run.n = static_cast<size_t>(n);
    run.padded = (run.n + lanes - 1) / lanes * lanes;
    run_steps(run, program, inputs, access, outputs, hoisted, direct, at == begin);
    at += n;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_TILE_INL_H_
