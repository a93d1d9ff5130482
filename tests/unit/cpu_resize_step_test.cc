// Resizes that only pick elements on the cpu backend, against the plain interpreter: every coordinate and rounding
// mode, odd sizes bound at run time, every width of elements, channels innermost, axes that stay.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/composites/composites.h"
#include "ir_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

using A = ir::ResizeAttributes;
using ir::Builder;
using ir::Value;

Value resized(Builder& b, Value x, A a, const std::vector<double>& scales, const Dims& sizes) {
  a.scales.assign(scales.begin(), scales.end());
  a.sizes = sizes;
  return ir::resize(b, x, a);
}

TEST(CpuResize, PicksElementsAsTheInterpreterDoes) {
  for (const DType dtype : {DType::f32, DType::u8, DType::f16, DType::i64, DType::boolean}) {
    SCOPED_TRACE(name(dtype));
    auto scope = ShapeScope::create();
    const ShapeScope::Enter enter(scope);
    Builder b(scope);
    const Dim n = scope->input_extent(0, 0, 3, "n");
    const Value x = b.input({dtype, {n, 3, 5, 7}}, "x");
    const Value last = b.transpose(b.input({dtype, {n, 5, 7, 3}}, "last"), {0, 3, 1, 2});
    std::vector<Value> results;
    using C = A::Coordinates;
    using N = A::Nearest;
    for (const C coordinates : {C::half_pixel, C::half_pixel_symmetric, C::align_corners, C::asymmetric}) {
      for (const N nearest : {N::round_prefer_floor, N::round_prefer_ceil, N::floor, N::ceil}) {
        A a;
        a.coordinates = coordinates;
        a.nearest = nearest;
        for (const Value from : {x, last}) {
          results.push_back(resized(b, from, a, {1, 1, 2, 2}, {n, 3, 10, 14}));
          results.push_back(resized(b, from, a, {1, 1, 0.6, 1.5}, {n, 3, 3, 10}));
        }
        results.push_back(resized(b, x, a, {1, 1, 3, 1}, {n, 3, 15, 7}));
        results.push_back(resized(b, x, a, {1, 2, 1, 1}, {n, 6, 5, 7}));
        results.push_back(resized(b, x, a, {1, 1, 1, 1}, {n, 3, 5, 7}));
      }
    }
    const ir::Program program = b.finish(results);
    BackendOptions options;
    options.threads = 2;
    const auto backend = Backend::get("cpu");
    const auto executable = backend->compile(program, options);
    for (const int64_t size : {3, 2, 60}) {
      std::vector<float> values(static_cast<size_t>(size * 105));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 251);
      const std::vector<Tensor> inputs{Tensor(values, {size, 3, 5, 7}).cast(dtype),
                                       Tensor(values, {size, 5, 7, 3}).cast(dtype)};
      Bindings expected_bindings(scope), bindings(scope);
      expected_bindings.set(0, size);
      bindings.set(0, size);
      const std::vector<Tensor> expected = ir::evaluate(program, inputs, &expected_bindings);
      std::vector<Buffer> given{backend->upload(inputs[0]), backend->upload(inputs[1])};
      const std::vector<Buffer> got = executable->run(given, bindings);
      for (size_t i = 0; i < expected.size(); ++i) {
        const Tensor y = backend->download(got[i]);
        ASSERT_EQ(y.shape(), expected[i].shape());
        ASSERT_EQ(y.cast(DType::f32).to_vector<float>(), expected[i].cast(DType::f32).to_vector<float>()) << i;
      }
    }
  }
}

}  // namespace
}  // namespace transmuter
