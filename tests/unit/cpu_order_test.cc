// Selections, sorts and running sums on the cpu backend, against the plain interpreter: ties, NaN, every axis, odd
// sizes bound at run time, strided operands, every dtype that the kernels take and some that they leave.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/builder.h"
#include "ir/composites/composites.h"
#include "ir_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

using ir::Builder;
using ir::Value;

// Bit by bit, but for the bits of NaN.
bool same(const Tensor& a, const Tensor& b) {
  if (!is_float(a.dtype())) return std::memcmp(a.bytes(), b.bytes(), a.nbytes()) == 0;
  const std::vector<double> x = a.cast(DType::f64).to_vector<double>(), y = b.cast(DType::f64).to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) ? !std::isnan(y[i]) : x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i])) return false;
  }
  return x.size() == y.size();
}

// x [n, 7, 5], handed in as [n, 5, 7], of few different values, f32 ones with NaN, infinities and both zeros -> the
// results of `body`.
template <class Body>
void compare(DType dtype, const Body& body) {
  SCOPED_TRACE(name(dtype));
  auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  Builder b(scope);
  const Dim n = scope->input_extent(0, 0, 3, "n");
  const Value x = b.transpose(b.input({dtype, {n, 5, 7}}, "x"), {0, 2, 1});
  const ir::Program program = b.finish(body(b, n, x));
  BackendOptions options;
  options.threads = 2;
  const auto backend = Backend::get("cpu");
  const auto executable = backend->compile(program, options);
  for (const int64_t size : {3, 2, 1031}) {
    std::vector<float> values(static_cast<size_t>(size * 35));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 61) * 0.25f;
    if (is_float(dtype) && bit_width(dtype) > 8) {
      constexpr float kInf = std::numeric_limits<float>::infinity();
      for (size_t i = 0; i < values.size(); ++i) values[i] -= 7;
      for (size_t i = 3; i < values.size(); i += 11) values[i] = i % 2 ? std::nanf("") : i % 3 ? -0.0f : -kInf;
    }
    const std::vector<Tensor> inputs{Tensor(values, {size, 5, 7}).cast(dtype)};
    Bindings expected_bindings(scope), bindings(scope);
    expected_bindings.set(0, size);
    bindings.set(0, size);
    const std::vector<Tensor> expected = ir::evaluate(program, inputs, &expected_bindings);
    std::vector<Buffer> given{backend->upload(inputs[0])};
    const std::vector<Buffer> results = executable->run(given, bindings);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor got = backend->download(results[i]);
      ASSERT_EQ(got.shape(), expected[i].shape());
      ASSERT_TRUE(same(got, expected[i])) << "result " << i << " of " << size;
    }
  }
}

constexpr DType kOrdered[] = {DType::f32, DType::f64, DType::f16,     DType::bf16,  DType::i8,
                              DType::u8,  DType::i16, DType::u16,     DType::i32,   DType::u32,
                              DType::i64, DType::u64, DType::boolean, DType::f8e5m2};

TEST(CpuOrder, SelectsAlongEveryAxis) {
  for (const DType dtype : kOrdered) {
    for (const bool largest : {true, false}) {
      compare(dtype, [&](Builder& b, Dim n, Value x) {
        std::vector<Value> results;
        const auto add = [&](Value from, int64_t axis, Dim k) {
          const auto [values, positions] = ir::topk(b, from, axis, k, largest);
          results.insert(results.end(), {values, positions});
        };
        add(x, 1, 3);
        add(x, 2, 5);
        add(x, 1, 0);
        add(x, 0, n);
        add(b.reshape(x, {n * 35}), 0, n * 3);
        add(b.reshape(x, {7, n * 5}), 1, n);
        return results;
      });
    }
  }
}

TEST(CpuOrder, SortsByOneKeyWithWhatFollows) {
  for (const DType dtype : kOrdered) {
    for (const bool descending : {true, false}) {
      for (const bool nan_last : {true, false}) {
        compare(dtype, [&](Builder& b, Dim n, Value x) {
          std::vector<Value> results;
          for (const int64_t axis : {0, 1, 2}) {
            ir::SortAttributes sort;
            sort.axis = axis;
            sort.descending = descending;
            sort.nan_last = nan_last;
            const Value position = b.iota(DType::i64, {n, 7, 5}, axis);
            const Value small = b.convert(b.iota(DType::i64, {n, 7, 5}, 2), DType::u8);
            for (const std::vector<Value>& values :
                 {b.sort({x}, sort), b.sort({x, position, x, small}, sort), b.sort({small, x}, sort)})
              results.insert(results.end(), values.begin(), values.end());
            sort.keys = 2;
            for (const Value v : b.sort({small, x, position}, sort)) results.push_back(v);
          }
          return results;
        });
      }
    }
  }
}

TEST(CpuOrder, RunningSumsAndProducts) {
  for (const DType dtype : kOrdered) {
    if (dtype == DType::boolean || dtype == DType::f8e5m2) continue;  // has no sums
    for (const ir::ReduceKind kind : {ir::ReduceKind::add, ir::ReduceKind::mul}) {
      compare(dtype, [&](Builder& b, Dim, Value x) {
        std::vector<Value> results;
        for (const int64_t axis : {0, 1, 2}) {
          for (const bool exclusive : {false, true}) {
            for (const bool reverse : {false, true})
              results.push_back(ir::cumulative(b, x, kind, axis, exclusive, reverse));
          }
        }
        return results;
      });
    }
  }
}

}  // namespace
}  // namespace transmuter
