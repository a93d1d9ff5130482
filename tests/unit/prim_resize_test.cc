// resize by its evaluation and by its decomposition. Expected numbers: where onnx.reference and ONNX Runtime agree,
// from both; align_corners from ONNX Runtime (the reference takes the unrounded length).
#include "ir/composites/composites.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

using A = ResizeAttributes;

struct Case {
  const char* what;
  std::vector<float> x;
  double scale;
  int64_t out;
  A attributes;
  std::vector<double> expected;
};

A with(A::Mode mode, A::Coordinates coordinates = A::Coordinates::half_pixel,
       A::Nearest nearest = A::Nearest::round_prefer_floor) {
  A a;
  a.mode = mode;
  a.coordinates = coordinates;
  a.nearest = nearest;
  return a;
}

A antialiased(A::Mode mode, bool exclude) {
  A a = with(mode);
  a.antialias = true;
  a.exclude_outside = exclude;
  return a;
}

Tensor run_resize(const Tensor& x, A a, bool inlined) {
  return run1({x}, [&](Builder& build, const auto& in) {
    const Value y = resize(build, in[0], a);
    if (!inlined) return y;
    const Op op = *build.definition(y);
    return op.primitive->decompose(build, op.operands, op.attributes.get())[0];
  });
}

TEST(Resize, AlongOneAxis) {
  const auto nearest = A::Mode::nearest, linear = A::Mode::linear, cubic = A::Mode::cubic;
  using C = A::Coordinates;
  const std::vector<float> x = counting(4, 1), odd = counting(7, 1);
  std::vector<float> squares = odd;
  for (float& value : squares) value *= value;
  A sharp = with(cubic);
  sharp.cubic_a = -0.5;
  sharp.exclude_outside = true;
  const std::vector<Case> cases{
      {"nearest", x, 1.7, 6, with(nearest), {1, 1, 2, 3, 3, 4}},
      {"nearest align", x, 1.7, 6, with(nearest, C::align_corners), {1, 2, 2, 3, 3, 4}},
      {"nearest symmetric", x, 1.7, 6, with(nearest, C::half_pixel_symmetric), {1, 2, 2, 3, 3, 4}},
      {"prefer floor", x, 2, 8, with(nearest), {1, 1, 2, 2, 3, 3, 4, 4}},
      {"floor", x, 2, 8, with(nearest, C::half_pixel, A::Nearest::floor), {1, 1, 1, 2, 2, 3, 3, 4}},
      {"ceil", x, 2, 8, with(nearest, C::half_pixel, A::Nearest::ceil), {1, 2, 2, 3, 3, 4, 4, 4}},
      {"floor down", x, 0.6, 2, with(nearest, C::asymmetric, A::Nearest::floor), {1, 2}},
      {"ceil down", x, 0.6, 2, with(nearest, C::asymmetric, A::Nearest::ceil), {1, 3}},
      {"halves up", x, 0.4, 2, with(nearest, C::asymmetric, A::Nearest::round_prefer_ceil), {1, 4}},
      {"halves down", x, 0.4, 2, with(nearest, C::asymmetric, A::Nearest::round_prefer_floor), {1, 3}},
      {"opset 10 down", x, 0.6, 2, with(nearest, C::asymmetric, A::Nearest::simple), {1, 3}},
      {"opset 10 up", x, 1.5, 6, with(nearest, C::asymmetric, A::Nearest::simple), {1, 1, 2, 3, 3, 4}},
      {"linear", x, 1.7, 6, with(linear), {1, 1.382353, 1.970588, 2.558824, 3.147059, 3.735294}},
      {"linear align", x, 1.7, 6, with(linear, C::align_corners), {1, 1.6, 2.2, 2.8, 3.4, 4}},
      {"linear asymmetric",
       x,
       1.7,
       6,
       with(linear, C::asymmetric),
       {1, 1.588235, 2.176471, 2.764706, 3.352941, 3.941176}},
      {"linear symmetric",
       x,
       1.7,
       6,
       with(linear, C::half_pixel_symmetric),
       {1.029412, 1.617647, 2.205882, 2.794118, 3.382353, 3.970588}},
      {"linear to one", x, 0.25, 1, with(linear, C::pytorch_half_pixel), {1}},
      {"cubic", x, 1.7, 6, with(cubic), {0.9026244, 1.300739, 1.956525, 2.544321, 3.205166, 3.796834}},
      {"cubic align", x, 1.7, 6, with(cubic, C::align_corners), {1, 1.504, 2.248, 2.752, 3.496, 4}},
      {"cubic exclude", x, 1.7, 6, sharp, {0.92292, 1.288389, 1.969761, 2.558824, 3.163992, 3.819749}},
      {"antialias", odd, 0.5, 3, antialiased(linear, false), {1.625, 3.5, 5.5}},
      {"antialias odd scale", squares, 0.6, 4, antialiased(linear, false), {2.125, 9.444444, 23, 39.5}},
      {"antialias exclude", squares, 0.6, 4, antialiased(linear, true), {2.285714, 9.444444, 23, 39.5}},
      {"antialias cubic", squares, 0.6, 4, antialiased(cubic, false), {1.650599, 8.819061, 21.77108, 41.0506}},
      {"antialias cubic exclude", squares, 0.6, 4, antialiased(cubic, true), {1.688772, 8.70893, 21.77108, 41.38106}},
  };
  for (const Case& c : cases) {
    for (const bool inlined : {false, true}) {
      SCOPED_TRACE(testing::Message() << c.what << (inlined ? " inlined" : ""));
      const int64_t n = static_cast<int64_t>(c.x.size());
      A a = c.attributes;
      a.sizes = {1, c.out};
      a.scales = {1.0, c.scale};
      expect_tensor(run_resize(floats(c.x, {1, n}), a, inlined), {1, c.out}, c.expected,
                    4e-7 * c.x.back());  // of the greatest value: f32 sums
    }
  }
}

TEST(Resize, CropTakesTheExtrapolationValue) {
  A a = with(A::Mode::linear, A::Coordinates::tf_crop_and_resize);
  a.extrapolation_value = 9;
  a.sizes = {2, 5};
  a.scales = {1.0, 1.25};
  a.roi_start = {0.0, 0.3};
  a.roi_end = {1.0, 1.4};
  for (const bool inlined : {false, true}) {
    expect_tensor(run_resize(floats({1, 2, 3, 4, 2, 4, 6, 8}, {2, 4}), a, inlined), {2, 5},
                  {1.9, 2.725, 3.55, 9, 9, 3.8, 5.45, 7.1, 9, 9});
  }
}

TEST(Resize, TwoAxesAndIntegers) {
  A a = with(A::Mode::linear, A::Coordinates::align_corners);
  a.sizes = {3, 3};
  a.scales = {1.5, 1.5};
  for (const bool inlined : {false, true}) {
    expect_tensor(run_resize(floats({0, 2, 4, 8}, {2, 2}), a, inlined), {3, 3}, {0, 1, 2, 2, 3.5, 5, 4, 6, 8});
    const Tensor bytes(std::vector<uint8_t>{0, 2, 4, 8}, {2, 2});
    expect_tensor(run_resize(bytes, a, inlined), {3, 3}, {0, 1, 2, 2, 3, 5, 4, 6, 8});
  }
}

TEST(Resize, SymbolicSizes) {
  const auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  Builder build(scope);
  const Dim n = scope->input_extent(0, 0, 3, "n");
  const Value x = build.input({DType::f32, {n}}, "x");
  A a = with(A::Mode::linear, A::Coordinates::asymmetric);
  a.sizes = {n * 2};
  a.scales = {2.0};
  const Value y = resize(build, x, a);
  const Op op = *build.definition(y);
  const Value z = op.primitive->decompose(build, op.operands, op.attributes.get())[0];
  const Program program = build.finish({y, z});
  Bindings bindings(scope);
  bindings.set(0, 2);
  for (const Tensor& out : evaluate(program, std::vector<Tensor>{floats({1, 3}, {2})}, &bindings))
    expect_tensor(out, {4}, {1, 2, 3, 3});
}

// How many positions the filter covers hangs on sizes: a product with all of them is the same.
TEST(Resize, AntialiasingByASymbolicScale) {
  for (const A::Mode mode : {A::Mode::linear, A::Mode::cubic}) {
    for (const bool exclude : {false, true}) {
      const auto scope = ShapeScope::create();
      ShapeScope::Enter enter(scope);
      Builder build(scope);
      const Dim n = scope->input_extent(0, 0, 9, "n"), m = scope->input_value(1, 0, 4);
      const Value x = build.input({DType::f32, {n, 3}}, "x");
      A a = antialiased(mode, exclude);
      a.sizes = {m, 3};
      a.scales = {real_binary(RealOp::div, real_from(m, RealDType::f32), real_from(n, RealDType::f32), RealDType::f32),
                  1.0};
      const Value y = resize(build, x, a);
      const Op op = *build.definition(y);
      const Value z = op.primitive->decompose(build, op.operands, op.attributes.get())[0];
      const Program program = build.finish({y, z});
      for (const auto& [extent, wanted] : {std::pair<int64_t, int64_t>{9, 4}, {23, 3}, {5, 8}, {4, 4}}) {
        Bindings bindings(scope);
        bindings.set(0, extent);
        bindings.set(1, wanted);
        std::vector<float> values = counting(extent * 3, 1);
        for (float& value : values) value = value * value - 20 * value;
        const std::vector<Tensor> out = evaluate(program, std::vector<Tensor>{floats(values, {extent, 3})}, &bindings);
        ASSERT_EQ(out[1].shape(), (Shape{wanted, 3}));
        const std::vector<float> expected = out[0].to_vector<float>(), got = out[1].to_vector<float>();
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-3);
      }
    }
  }
}

}  // namespace
}  // namespace transmuter::ir
