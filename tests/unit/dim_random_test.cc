// Random expressions, decisions and assertions against plain integers at many points: whatever a scope simplifies,
// proves or bounds must hold at every point where its guards and assertions hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/dim.h"

namespace transmuter {
namespace {

constexpr int kSymbols = 4, kPoints = 40;

int64_t floor_of(int64_t x, int64_t y) { return (x - (((x % y) + y) % y)) / y; }

class Walk {
 public:
  explicit Walk(uint32_t seed) : random_(seed), enter_(scope_) {
    points_.resize(kPoints, std::vector<int64_t>(kSymbols));
    for (int s = 0; s < kSymbols; ++s) {
      const bool is_extent = s < kSymbols - 1;
      for (auto& point : points_) point[static_cast<size_t>(s)] = is_extent ? pick(2, 9) : pick(-6, 6);
      const int64_t hint = points_[0][static_cast<size_t>(s)];
      Entry entry{is_extent ? scope_->input_extent(s, 0, hint, "") : scope_->input_value(s, 0, hint), {}};
      for (const auto& point : points_) entry.values.push_back(point[static_cast<size_t>(s)]);
      entries_.push_back(entry);
    }
    alive_.assign(kPoints, true);
  }

  void step() {
    const Entry &x = any(), &y = any(), &z = any();
    switch (pick(0, 15)) {
      case 0:
        return add(x.dim + y.dim, x, y, [](int64_t a, int64_t b) { return a + b; });
      case 1:
        return add(x.dim - y.dim, x, y, [](int64_t a, int64_t b) { return a - b; });
      case 2:
      case 3:
        if (large(x) || large(y)) return;
        return add(x.dim * y.dim, x, y, [](int64_t a, int64_t b) { return a * b; });
      case 4: {
        const int64_t k = pick(1, 6);
        return add(floor_div(x.dim, k), x, y, [k](int64_t a, int64_t) { return floor_of(a, k); });
      }
      case 5:
        if (has_zero(y)) return;
        return add(floor_div(x.dim, y.dim), x, y, floor_of);
      case 6:
        if (has_zero(y)) return;
        return add(mod(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return a - floor_of(a, b) * b; });
      case 7:
        return add(min(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return std::min(a, b); });
      case 8:
        return add(max(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return std::max(a, b); });
      case 9:
        return add(equal(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return int64_t{a == b}; });
      case 10:
        return add(less(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return int64_t{a < b}; });
      case 11: {
        const int64_t k = pick(-4, 9);
        return add(x.dim * k + k, x, y, [k](int64_t a, int64_t) { return a * k + k; });
      }
      case 12: {
        Entry entry{select(equal(x.dim, z.dim), y.dim, x.dim + 1), {}};
        for (size_t p = 0; p < kPoints; ++p)
          entry.values.push_back(x.values[p] == z.values[p] ? y.values[p] : x.values[p] + 1);
        return keep(entry);
      }
      case 13:
        if (has_zero(y)) return;
        if (pick(0, 1)) return add(ceil_div(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return -floor_of(-a, b); });
        return add(trunc_div(x.dim, y.dim), x, y, [](int64_t a, int64_t b) { return a / b; });
      case 14:
        return decide_something(x, y);
      default: {
        const double factor = static_cast<double>(pick(1, 8)) / 4;
        const Real product = real_binary(RealOp::mul, real_from(x.dim, RealDType::f32), Real(factor), RealDType::f32);
        return add(dim_from(real_unary(RealOp::floor, product, RealDType::f32)), x, y, [factor](int64_t a, int64_t) {
          return static_cast<int64_t>(std::floor(static_cast<float>(a) * static_cast<float>(factor)));
        });
      }
    }
  }

  void check() {
    for (size_t p = 0; p < kPoints; ++p) {
      Bindings bindings(scope_);
      for (int s = 0; s < kSymbols; ++s) bindings.set(s, points_[p][static_cast<size_t>(s)]);
      bool legal = bindings.guards_hold();
      try {
        bindings.check_assertions();
      } catch (const Error&) {
        legal = false;
      }
      EXPECT_EQ(legal, alive_[p]) << bindings.explain().value_or("");
      if (!alive_[p]) continue;
      for (const Entry& entry : entries_) {
        ASSERT_EQ(bindings.evaluate(entry.dim), entry.values[p]) << to_string(entry.dim);
        ASSERT_EQ(bindings.evaluate(entry.dim + 0 * any().dim), entry.values[p]);
        const Interval r = interval(entry.dim);
        ASSERT_LE(r.low, entry.values[p]) << to_string(entry.dim);
        ASSERT_GE(r.high, entry.values[p]) << to_string(entry.dim);
      }
    }
    for (int i = 0; i < 60; ++i) {
      const Entry &x = any(), &y = any();
      if (provably_le(x.dim, y.dim)) expect_all(x, y, [](int64_t a, int64_t b) { return a <= b; });
      if (provably_eq(x.dim, y.dim)) expect_all(x, y, [](int64_t a, int64_t b) { return a == b; });
      if (const auto answer = settled(less(x.dim, y.dim)))
        expect_all(x, y, [&](int64_t a, int64_t b) { return (a < b) == *answer; });
      if (const auto answer = settled(equal(x.dim, y.dim)))
        expect_all(x, y, [&](int64_t a, int64_t b) { return (a == b) == *answer; });
    }
  }

 private:
  struct Entry {
    Dim dim;
    std::vector<int64_t> values;
  };

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  const Entry& any() { return entries_[static_cast<size_t>(pick(0, static_cast<int64_t>(entries_.size()) - 1))]; }
  static bool large(const Entry& e) {
    return std::any_of(e.values.begin(), e.values.end(), [](int64_t v) { return std::abs(v) > 1000; });
  }
  static bool has_zero(const Entry& e) { return std::count(e.values.begin(), e.values.end(), 0) > 0; }

  template <class Fn>
  void add(Dim dim, const Entry& x, const Entry& y, const Fn& fn) {
    Entry entry{dim, {}};
    for (size_t p = 0; p < kPoints; ++p) entry.values.push_back(fn(x.values[p], y.values[p]));
    keep(entry);
  }
  void keep(const Entry& entry) {
    for (const int64_t v : entry.values)
      if (std::abs(v) > 4000) return;  // floats stay exact
    EXPECT_EQ(entry.dim.hint(), entry.values[0]);
    entries_.push_back(entry);
  }
  template <class Fn>
  void survive(const Entry& x, const Entry& y, const Fn& fn) {
    for (size_t p = 0; p < kPoints; ++p) alive_[p] = alive_[p] && fn(x.values[p], y.values[p]);
  }
  template <class Fn>
  void expect_all(const Entry& x, const Entry& y, const Fn& fn) {
    for (size_t p = 0; p < kPoints; ++p)
      EXPECT_TRUE(!alive_[p] || fn(x.values[p], y.values[p])) << to_string(x.dim) << " and " << to_string(y.dim);
  }
  void decide_something(const Entry& x, const Entry& y) {
    if (decided_ == 6) return;
    ++decided_;
    if (x.values[0] == y.values[0]) {
      if (pick(0, 1))
        require_eq(x.dim, y.dim, "test");
      else
        decide_eq(x.dim, y.dim, "test");
      return survive(x, y, [](int64_t a, int64_t b) { return a == b; });
    }
    const bool is_less = decide_lt(x.dim, y.dim, "test");
    survive(x, y, [&](int64_t a, int64_t b) { return (a < b) == is_less; });
  }

  std::mt19937 random_;
  std::shared_ptr<ShapeScope> scope_ = ShapeScope::create();
  ShapeScope::Enter enter_;
  std::vector<std::vector<int64_t>> points_;
  std::vector<Entry> entries_;
  std::vector<bool> alive_;
  int decided_ = 0;
};

TEST(DimRandom, ClaimsHoldWhereFactsHold) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(seed);
    for (int i = 0; i < 60; ++i) {
      walk.step();
      if (i % 20 == 19) walk.check();
      if (testing::Test::HasFatalFailure()) return;
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace transmuter
