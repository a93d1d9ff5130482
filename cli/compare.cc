#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace transmuter::cli {
namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string position(const Shape& shape, int64_t flat) {
  std::string text = "]";
  for (size_t i = shape.size(); i-- > 0;) {
    text = std::to_string(flat % shape[i]) + (text == "]" ? "" : ", ") + text;
    flat /= shape[i];
  }
  return "[" + text;
}

struct Worst {
  int64_t index = -1;
  double excess = 0;
  int64_t count = 0;
  void add(int64_t i, double by) {
    ++count;
    if (index < 0 || by > excess || std::isnan(by)) index = i, excess = by;
  }
};

std::string report(const Worst& worst, const Tensor& expected, const std::string& want, const std::string& got) {
  return std::to_string(worst.count) + " of " + std::to_string(expected.size()) + " differ, worst at " +
         position(expected.shape(), worst.index) + ": expected " + want + ", got " + got;
}

// One unit in the last place of a number of the dtype; of the smallest normal number below that.
double unit_in_last_place(DType dtype, double value) {
  struct Format {
    int digits, least;  // of the significand, and the exponent of the smallest normal number
  };
  const Format format = dtype == DType::f64    ? Format{53, -1022}
                        : dtype == DType::f32  ? Format{24, -126}
                        : dtype == DType::f16  ? Format{11, -14}
                        : dtype == DType::bf16 ? Format{8, -126}
                                               : Format{4, -6};
  const int exponent = value == 0 || !std::isfinite(value) ? format.least : std::max(std::ilogb(value), format.least);
  return std::ldexp(1.0, exponent - format.digits + 1);
}

void raise(double* worst, double to) {
  if (worst) *worst = std::max(*worst, to);
}

std::string compare_floats(const Tensor& expected, const Tensor& got, const Tolerance& tolerance, const Tensor* mask) {
  const std::vector<double> e = expected.aligned().cast(DType::f64).to_vector<double>();
  const std::vector<double> g = got.aligned().cast(DType::f64).to_vector<double>();
  if (tolerance.rel_l2 >= 0) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < e.size(); ++i) {
      if (std::isnan(g[i]) != std::isnan(e[i])) return "NaN where a number is expected, or the reverse";
      difference += (e[i] - g[i]) * (e[i] - g[i]);
      norm += e[i] * e[i];
    }
    const double relative = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
    if (relative > 0) raise(tolerance.worst_share, relative / tolerance.rel_l2);
    return relative <= tolerance.rel_l2
               ? ""
               : "relative L2 difference " + number(relative) + ", allowed " + number(tolerance.rel_l2);
  }
  const double rtol = expected.dtype() == DType::bf16 ? std::max(tolerance.rtol, tolerance.bf16_rtol) : tolerance.rtol;
  Worst worst;
  for (size_t i = 0; i < e.size(); ++i) {
    if (mask && mask->bytes()[i] == std::byte{0}) continue;
    if (e[i] == g[i] || (std::isnan(e[i]) && std::isnan(g[i]))) continue;
    const double off = std::fabs(e[i] - g[i]);
    const double allowed = tolerance.atol + rtol * std::fabs(e[i]);
    if (!(off <= allowed)) worst.add(static_cast<int64_t>(i), off);
    raise(tolerance.worst_share, off / allowed);
    if (off > tolerance.atol)
      raise(tolerance.worst_ulps, (off - tolerance.atol) / unit_in_last_place(expected.dtype(), e[i]));
  }
  if (worst.index < 0) return "";
  const size_t at = static_cast<size_t>(worst.index);
  return report(worst, expected, number(e[at]), number(g[at]));
}

std::string compare_integers(const Tensor& expected, const Tensor& got, const Tolerance& tolerance,
                             const Tensor* mask) {
  const bool u64 = expected.dtype() == DType::u64;
  const Tensor ew = u64 ? expected.aligned().bitcast(DType::i64) : expected.aligned().cast(DType::i64);
  const Tensor gw = u64 ? got.aligned().bitcast(DType::i64) : got.aligned().cast(DType::i64);
  const int64_t* e = ew.data<int64_t>();
  const int64_t* g = gw.data<int64_t>();
  Worst worst;
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (mask && mask->bytes()[i] == std::byte{0}) continue;
    if (e[i] == g[i]) continue;
    const double off = std::fabs(static_cast<double>(e[i]) - static_cast<double>(g[i]));
    if (off > static_cast<double>(tolerance.int_atol)) worst.add(i, off);
    raise(tolerance.worst_share, off / static_cast<double>(tolerance.int_atol));
  }
  if (worst.index < 0) return "";
  return report(worst, expected, std::to_string(e[worst.index]), std::to_string(g[worst.index]));
}

// Same shape and dtype, and a mean and spread that samples of one distribution could have.
std::string compare_random(const Tensor& expected, const Tensor& got) {
  if (expected.size() < 2) return "";
  auto moments = [](const Tensor& t) {
    const std::vector<double> v = t.aligned().cast(DType::f64).to_vector<double>();
    double mean = 0, square = 0;
    for (double x : v) mean += x / static_cast<double>(v.size());
    for (double x : v) square += (x - mean) * (x - mean) / static_cast<double>(v.size());
    return std::pair(mean, std::sqrt(square));
  };
  const auto [em, es] = moments(expected);
  const auto [gm, gs] = moments(got);
  const double slack = 6 * std::max(es, gs) / std::sqrt(static_cast<double>(expected.size())) + 1e-6;
  if (std::fabs(em - gm) > 2 * slack || std::fabs(es - gs) > 3 * slack) {
    return "another distribution: mean " + number(gm) + ", deviation " + number(gs) + " for " + number(em) + ", " +
           number(es);
  }
  return "";
}

std::string compare_tensors(const Tensor& expected, const Tensor& full, const Tolerance& tolerance,
                            const Tensor* mask) {
  Tensor got = full;
  if (got.dtype() != expected.dtype())
    return std::string("expected dtype ") + name(expected.dtype()) + ", got " + name(got.dtype());
  if (tolerance.flat_stride > 1) {
    const std::vector<double> all = got.aligned().cast(DType::f64).to_vector<double>();
    std::vector<double> some;
    for (size_t i = 0; i < all.size(); i += static_cast<size_t>(tolerance.flat_stride)) some.push_back(all[i]);
    if (static_cast<int64_t>(some.size()) != expected.size())
      return "expected " + describe(expected) + ", got another size";
    got = Tensor(some, expected.shape()).cast(expected.dtype());
  }
  // Random numbers may decide extents too.
  if (tolerance.mode == Tolerance::Mode::shape_only && got.rank() == expected.rank()) return "";
  if (got.shape() != expected.shape()) return "expected " + describe(expected) + ", got " + describe(got);
  if (tolerance.mode == Tolerance::Mode::random) return compare_random(expected, got);
  if (expected.dtype() == DType::string) {
    for (int64_t i = 0; i < expected.size(); ++i) {
      const std::string &e = expected.strings()[static_cast<size_t>(i)], &g = got.strings()[static_cast<size_t>(i)];
      if (e != g) return "at " + position(expected.shape(), i) + ": expected \"" + e + "\", got \"" + g + "\"";
    }
    return "";
  }
  if (is_complex(expected.dtype())) {
    const DType part = expected.dtype() == DType::c64 ? DType::f32 : DType::f64;
    auto parts = [&](const Tensor& t) {
      Shape shape = t.shape();
      shape.push_back(2);
      const Tensor aligned = t.aligned();
      return Tensor::view(part, shape, aligned.bytes(), std::make_shared<Tensor>(aligned));
    };
    return compare_floats(parts(expected), parts(got), tolerance, nullptr);
  }
  if (is_float(expected.dtype())) return compare_floats(expected, got, tolerance, mask);
  return compare_integers(expected, got, tolerance, mask);
}

}  // namespace

std::string compare(const Value& expected, const Value& got, const Tolerance& tolerance, const Tensor* mask) {
  // An optional that holds something may come back as the thing itself.
  if (expected.kind == Value::Kind::optional && expected.items.size() == 1 && got.kind != Value::Kind::optional) {
    return compare(expected.items[0], got, tolerance, mask);
  }
  if (expected.kind != got.kind) return "another kind of value than expected";
  if (expected.is_tensor()) return compare_tensors(expected.tensor, got.tensor, tolerance, mask);
  if (expected.kind == Value::Kind::map) {
    const std::string keys = compare_tensors(expected.keys, got.keys, tolerance, nullptr);
    return keys.empty() ? compare_tensors(expected.tensor, got.tensor, tolerance, nullptr) : "keys: " + keys;
  }
  if (expected.items.size() != got.items.size()) {
    return "expected " + std::to_string(expected.items.size()) + " elements, got " + std::to_string(got.items.size());
  }
  for (size_t i = 0; i < expected.items.size(); ++i) {
    const std::string difference = compare(expected.items[i], got.items[i], tolerance, mask);
    if (!difference.empty()) return "element " + std::to_string(i) + ": " + difference;
  }
  return "";
}

std::string compare_bits(const Value& a, const Value& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return "another kind or number of values";
  for (size_t i = 0; i < a.items.size(); ++i)
    if (std::string inside = compare_bits(a.items[i], b.items[i]); !inside.empty()) return inside;
  for (const auto& [x, y] : {std::pair(&a.tensor, &b.tensor), std::pair(&a.keys, &b.keys)}) {
    if (x->dtype() != y->dtype() || x->shape() != y->shape()) return describe(*x) + " and " + describe(*y);
    if (x->dtype() == DType::string && x->strings() != y->strings()) return "other strings";
    if (x->dtype() == DType::string || x->nbytes() == 0) continue;
    const auto [at, other] = std::mismatch(x->bytes(), x->bytes() + x->nbytes(), y->bytes());
    if (at != x->bytes() + x->nbytes()) return describe(*x) + " from byte " + std::to_string(at - x->bytes()) + " on";
  }
  return "";
}

}  // namespace transmuter::cli
