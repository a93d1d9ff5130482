// The tape in f64 and integers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/tile.h"
#include "base/dispatch.h"
#include "tensor/cast.h"

namespace transmuter::cpu {
namespace {

template <class T>
inline constexpr bool is_int = std::is_integral_v<T>;
template <class T>
uint64_t bits(T x) {
  return static_cast<uint64_t>(x);
}

template <class T>
T divide(T a, T b) {
  if constexpr (is_int<T>) {
    if (b == T{0}) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - bits(a));  // the least by -1 wraps
  }
  return static_cast<T>(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  if constexpr (!is_int<T>) {
    return std::fmod(a, b);
  } else {
    if (b == T{0}) return a;
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
  }
}
template <class T>
T power(T a, T b) {
  if constexpr (!is_int<T>) {
    return std::pow(a, b);
  } else {
    if (b < T{0}) {  // a fraction unless a is 1 or -1; it truncates
      if (a == T{1}) return a;
      return a == static_cast<T>(-1) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
    }
    uint64_t base = bits(a), out = 1;
    for (uint64_t e = bits(b); e != 0; e >>= 1, base *= base) {
      if (e & 1) out *= base;
    }
    return static_cast<T>(out);
  }
}
template <class T>
T maximum(T a, T b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}
template <class T>
T minimum(T a, T b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
}
template <class T>
T add(T a, T b) {
  if constexpr (is_int<T>) {
    return static_cast<T>(bits(a) + bits(b));
  } else {
    return a + b;
  }
}
template <class T>
T multiply(T a, T b) {
  if constexpr (is_int<T>) {
    return static_cast<T>(bits(a) * bits(b));
  } else {
    return a * b;
  }
}
template <class T>
T negate(T a) {
  if constexpr (is_int<T>) {
    return static_cast<T>(0 - bits(a));
  } else {
    return -a;
  }
}

// A whole tile has a constant length, which lets the compiler vectorise.
template <class Fn>
void each(size_t n, const Fn& fn) {
  if (n == kTileLanes) {
    for (size_t i = 0; i < kTileLanes; ++i) fn(i);
  } else {
    for (size_t i = 0; i < n; ++i) fn(i);
  }
}

// Operations of floats alone; false when op isn't one.
template <class T>
bool compute_float(const TileStep& s, const T* a, T* o, size_t n) {
  const auto run = [&](auto fn) {
    for (size_t i = 0; i < n; ++i) o[i] = fn(a[i]);
    return true;
  };
  switch (s.op) {
    case TileOp::sqrt:
      return run([](T x) { return std::sqrt(x); });
    case TileOp::rsqrt:
      return run([](T x) { return 1 / std::sqrt(x); });
    case TileOp::reciprocal:
      return run([](T x) { return 1 / x; });
    case TileOp::exp:
      return run([](T x) { return std::exp(x); });
    case TileOp::expm1:
      return run([](T x) { return std::expm1(x); });
    case TileOp::log:
      return run([](T x) { return std::log(x); });
    case TileOp::log1p:
      return run([](T x) { return std::log1p(x); });
    case TileOp::tanh:
      return run([](T x) { return std::tanh(x); });
    case TileOp::erf:
      return run([](T x) { return std::erf(x); });
    case TileOp::logistic:
      return run([](T x) { return 1 / (1 + std::exp(-x)); });
    case TileOp::sin:
      return run([](T x) { return std::sin(x); });
    case TileOp::cos:
      return run([](T x) { return std::cos(x); });
    case TileOp::floor:
      return run([](T x) { return std::floor(x); });
    case TileOp::ceil:
      return run([](T x) { return std::ceil(x); });
    case TileOp::trunc:
      return run([](T x) { return std::trunc(x); });
    case TileOp::round_nearest_even:
      return run([](T x) { return std::nearbyint(x); });
    case TileOp::round_nearest_afz:
      return run([](T x) { return std::round(x); });
    case TileOp::is_finite:
      return run([](T x) { return std::isfinite(x) ? T{1} : T{0}; });
    case TileOp::is_nan:
      return run([](T x) { return std::isnan(x) ? T{1} : T{0}; });
    case TileOp::gelu:
      return run([](T x) { return x / 2 * (1 + std::erf(x * T{0.70710678118654752440})); });
    case TileOp::gelu_tanh:
      return run(
          [](T x) { return x / 2 * (1 + std::tanh(T{0.79788456080286535588} * (x + T{0.044715} * x * x * x))); });
    case TileOp::silu:
      return run([](T x) { return x / (1 + std::exp(-x)); });
    case TileOp::softplus:
      return run([](T x) { return maximum(x, T{0}) + std::log1p(std::exp(-std::fabs(x))); });
    default:
      return false;
  }
}

template <class T>
bool compute(const TileStep& s, const T* a, const T* b, const T* c, T* o, size_t n) {
  const auto one = [&](auto fn) {
    each(n, [&](size_t i) { o[i] = fn(a[i]); });
    return true;
  };
  const auto two = [&](auto fn) {
    each(n, [&](size_t i) { o[i] = fn(a[i], b[i]); });
    return true;
  };
  const auto three = [&](auto fn) {
    each(n, [&](size_t i) { o[i] = fn(a[i], b[i], c[i]); });
    return true;
  };
  const T imm = transmuter::convert<T>(s.imm), imm2 = transmuter::convert<T>(s.imm2);
  switch (s.op) {
    case TileOp::neg:
      return one([](T x) { return negate(x); });
    case TileOp::abs:
      return one([](T x) {
        if constexpr (is_int<T>)
          return x < T{0} ? negate(x) : x;
        else
          return std::fabs(x);
      });
    case TileOp::sign:
      return one([](T x) { return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : x; });
    case TileOp::square:
      return one([](T x) { return multiply(x, x); });
    case TileOp::logical_not:
      return one([](T x) { return x == T{0} ? T{1} : T{0}; });
    case TileOp::relu:
      return one([](T x) { return maximum(x, T{0}); });
    case TileOp::add_imm:
      return one([imm](T x) { return add(x, imm); });
    case TileOp::mul_imm:
      return one([imm](T x) { return multiply(x, imm); });
    case TileOp::clamp_imm:
      return one([imm, imm2](T x) { return maximum(minimum(x, imm2), imm); });
    case TileOp::add:
      return two([](T x, T y) { return add(x, y); });
    case TileOp::sub:
      return two([](T x, T y) { return is_int<T> ? add(x, negate(y)) : static_cast<T>(x - y); });
    case TileOp::mul:
      return two([](T x, T y) { return multiply(x, y); });
    case TileOp::div:
      return two([](T x, T y) { return divide(x, y); });
    case TileOp::max:
      return two([](T x, T y) { return maximum(x, y); });
    case TileOp::min:
      return two([](T x, T y) { return minimum(x, y); });
    case TileOp::pow:
      return two([](T x, T y) { return power(x, y); });
    case TileOp::remainder:
      return two([](T x, T y) { return remainder_of(x, y); });
    case TileOp::eq:
      return two([](T x, T y) { return static_cast<T>(x == y); });
    case TileOp::ne:
      return two([](T x, T y) { return static_cast<T>(x != y); });
    case TileOp::lt:
      return two([](T x, T y) { return static_cast<T>(x < y); });
    case TileOp::le:
      return two([](T x, T y) { return static_cast<T>(x <= y); });
    case TileOp::gt:
      return two([](T x, T y) { return static_cast<T>(x > y); });
    case TileOp::ge:
      return two([](T x, T y) { return static_cast<T>(x >= y); });
    case TileOp::logical_and:
      return two([](T x, T y) {
        if constexpr (is_int<T>)
          return static_cast<T>(x & y);
        else
          return static_cast<T>(x != 0 && y != 0);
      });
    case TileOp::logical_or:
      return two([](T x, T y) {
        if constexpr (is_int<T>)
          return static_cast<T>(x | y);
        else
          return static_cast<T>(x != 0 || y != 0);
      });
    case TileOp::logical_xor:
      return two([](T x, T y) {
        if constexpr (is_int<T>)
          return static_cast<T>(x ^ y);
        else
          return static_cast<T>((x != 0) != (y != 0));
      });
    case TileOp::fma:
      return three([](T x, T y, T z) { return add(multiply(x, y), z); });
    case TileOp::select:
      return three([](T x, T y, T z) { return x != T{0} ? y : z; });
    case TileOp::clamp:
      return three([](T lo, T x, T hi) { return minimum(maximum(x, lo), hi); });
    default:
      if constexpr (is_int<T>)
        return false;
      else
        return compute_float(s, a, o, n);
  }
}

// Elements of any dtype as T, `stride` apart.
template <class T>
void load_run(const TileInput& input, int64_t offset, int64_t stride, T* to, size_t n) {
  dispatch_real(input.dtype, "an elementwise input", [&]<class From>(TypeTag<From>) {
    const From* from = static_cast<const From*>(input.data) + offset;
    if (stride == 0) {
      std::fill_n(to, n, transmuter::convert<T>(*from));
    } else {
      for (size_t i = 0; i < n; ++i) to[i] = transmuter::convert<T>(from[static_cast<int64_t>(i) * stride]);
    }
  });
}

struct Position {
  int64_t coords[kTileMaxDims];
};

template <class T>
void load_tile(const TileInput& input, const int64_t* dims, int rank, Position at, T* to, size_t n) {
  if (rank == 0) return load_run(input, 0, 0, to, n);
  const int inner = rank - 1;
  for (size_t done = 0; done < n;) {
    int64_t offset = 0;
    for (int k = 0; k < rank; ++k) offset += at.coords[k] * input.strides[k];
    const size_t len = std::min(n - done, static_cast<size_t>(dims[inner] - at.coords[inner]));
    load_run(input, offset, input.strides[inner], to + done, len);
    done += len;
    at.coords[inner] += static_cast<int64_t>(len);
    for (int k = inner; k > 0 && at.coords[k] == dims[k]; --k) {
      at.coords[k] = 0;
      ++at.coords[k - 1];
    }
  }
}

template <class T>
void store_tile(const TileOutput& output, int64_t at, const T* from, size_t n) {
  dispatch_real(output.dtype, "an elementwise output", [&]<class To>(TypeTag<To>) {
    To* to = static_cast<To*>(output.data) + at;
    for (size_t i = 0; i < n; ++i) to[i] = transmuter::convert<To>(from[i]);
  });
}

template <class T>
void run_typed(const TileProgram& program, const int64_t* dims, int rank, const TileInput* inputs,
               const TileOutput* outputs, int64_t begin, int64_t end) {
  alignas(64) T registers[kTileRegisters][kTileLanes];
  for (int64_t at = begin; at < end; at += kTileLanes) {
    const size_t n = static_cast<size_t>(std::min<int64_t>(kTileLanes, end - at));
    Position position{};
    int64_t rest = at;
    for (int k = rank - 1; k >= 0; --k) {
      position.coords[k] = rest % dims[k];
      rest /= dims[k];
    }
    for (const TileStep& s : program.steps) {
      if (s.op == TileOp::load) {
        load_tile(inputs[s.a], dims, rank, position, registers[s.dst], n);
      } else if (s.op == TileOp::constant) {
        std::fill_n(registers[s.dst], n, transmuter::convert<T>(s.imm));
      } else if (s.op == TileOp::store) {
        store_tile(outputs[s.b], at, registers[s.a], n);
      } else if (!compute(s, registers[s.a], registers[s.b], registers[s.c], registers[s.dst], n)) {
        throw Error(ErrorCode::internal, "an integer tape holds an operation of floats");
      }
    }
  }
}

}  // namespace

bool tile_takes(DType dtype, TileOp op) {
  if (dtype == DType::f32 || dtype == DType::f64) return true;
  if (!is_integer(dtype) || is_packed(dtype)) return false;
  if (op == TileOp::load || op == TileOp::store || op == TileOp::constant) return true;
  int64_t lane = 0;
  return compute(TileStep{.op = op}, &lane, &lane, &lane, &lane, 0);
}

void run_tile_as(DType compute_type, const TileProgram& program, const int64_t* dims, int rank, const TileInput* inputs,
                 const TileOutput* outputs, int64_t begin, int64_t end) {
  if (compute_type == DType::f64) return run_typed<double>(program, dims, rank, inputs, outputs, begin, end);
  dispatch_integer(compute_type, "an elementwise tape",
                   [&]<class T>(TypeTag<T>) { run_typed<T>(program, dims, rank, inputs, outputs, begin, end); });
}

}  // namespace transmuter::cpu
