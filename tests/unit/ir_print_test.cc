// StableHLO text.
#include <gmock/gmock.h>

#include <cmath>

#include "ir/autodiff.h"
#include "ir/composites/composites.h"
#include "ir_printed.h"
#include "ir_programs.h"

namespace transmuter::ir {
namespace {

TEST(Printing, IsDeterministicAndComplete) {
  auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  Builder b(scope);
  Dim n = scope->input_extent(0, 0, 2, "n");
  Value x = b.input({DType::f32, {n, 2}}, "x");
  Value w = b.weight(make(DType::f32, {1, 2}), "w");
  const Program program = b.finish({b.add(x, b.broadcast_to(w, b.shape(x))), b.dim_value(n, DType::i64)});
  EXPECT_EQ(print_stablehlo(program),
            R"(// Extents are those of the example inputs; others are possible.
// %arg0: input x
// %arg1: weight w
module @transmuter {
  func.func public @main(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<i64>) {
    %0 = "stablehlo.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<2x2xf32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = "stablehlo.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    "func.return"(%1, %2) : (tensor<2x2xf32>, tensor<i64>) -> ()
  }
}
)");
  Bindings bindings(scope);
  bindings.set(0, 5);
  EXPECT_NE(print_stablehlo(program, &bindings).find("tensor<5x2xf32>"), std::string::npos);
}

TEST(Printing, WritesConstantsExactly) {
  const std::pair<Tensor, const char*> rows[] = {
      {make(DType::f32, {0.1, 2}), "dense<[1.00000001e-01, 2.0]> : tensor<2xf32>"},
      {make(DType::f32, {1e30}, {}), "dense<1.00000002e+30> : tensor<f32>"},
      {make(DType::f16, {-INFINITY}, {}), "dense<0xFC00> : tensor<f16>"},
      {make(DType::boolean, {1, 0}), "dense<[true, false]> : tensor<2xi1>"},
      {make(DType::i4, {-8, 7}, {1, 2}), "dense<[[-8, 7]]> : tensor<1x2xi4>"},
      {make(DType::u8, {7, 7}), "dense<7> : tensor<2xui8>"},
      {make(DType::f64, {}, {0, 2}), "dense<> : tensor<0x2xf64>"}};
  for (const auto& [tensor, text] : rows) EXPECT_EQ(dense_text(tensor), text);
}

// A module without arguments that returns each result beside what the interpreter says it is: for `stablehlo_parse.py
// --run`, which compares the two in XLA.
std::string self_checking(const std::string& name, const ProgramRow& row) {
  Builder alone(nullptr), both(nullptr);
  std::vector<Value> inputs, same_inputs;
  for (const Shape& shape : row.inputs) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = row.low + (row.high - row.low) * std::fmod(0.37 + 0.61803 * static_cast<double>(i), 1.0);
    inputs.push_back(alone.constant(Tensor(values, shape)));
    same_inputs.push_back(both.constant(Tensor(values, shape)));
  }
  const Tensor expected = evaluate(alone.finish({row.fn(alone, inputs)}), {})[0];
  Value result = row.fn(both, same_inputs);
  return printed(name, both.finish({result, both.constant(expected)}));
}

TEST(Printing, CoversEveryDifferentiablePrimitiveAndItsGradient) {
  for (const ProgramRow& row : differentiable_rows()) {
    Builder b(nullptr);
    std::vector<Value> inputs;
    std::vector<size_t> parameters;
    for (const Shape& shape : row.inputs) {
      parameters.push_back(inputs.size());
      inputs.push_back(b.input({DType::f64, Dims(shape.begin(), shape.end())}, "x"));
    }
    const Program program = b.finish({row.fn(b, inputs)});
    EXPECT_NE(printed(row.name, program).find("func.return"), std::string::npos);
    EXPECT_EQ(print_stablehlo(program), print_stablehlo(program));
    EXPECT_FALSE(self_checking(str(row.name, " run"), row).empty());
    EXPECT_FALSE(printed(str(row.name, " gradient"), with_vjp(program, 0, parameters)).empty());
  }
}

TEST(Printing, CoversTheOtherPrimitives) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2, 4}}, "x"), n = b.input({DType::i32, {2, 4}}, "n");
  Value m = b.input({DType::boolean, {2, 4}}, "m"), half = b.input({DType::f16, {2, 4}}, "half");
  std::vector<Value> out;
  for (auto fn : {&Builder::logical_not, &Builder::popcnt, &Builder::sign}) out.push_back((b.*fn)(n));
  for (auto fn : {&Builder::ceil, &Builder::floor, &Builder::round_nearest_even, &Builder::is_finite})
    out.push_back((b.*fn)(x));
  for (auto fn : {&Builder::logical_and, &Builder::logical_or, &Builder::logical_xor}) out.push_back((b.*fn)(m, m));
  for (auto fn : {&Builder::shift_left, &Builder::shift_right_logical, &Builder::shift_right_arithmetic,
                  &Builder::divide, &Builder::remainder, &Builder::power})
    out.push_back((b.*fn)(n, n));
  for (CompareDirection direction : {CompareDirection::eq, CompareDirection::ne, CompareDirection::lt,
                                     CompareDirection::le, CompareDirection::gt, CompareDirection::ge})
    out.push_back(b.compare(x, x, direction));
  out.push_back(b.bitcast_convert(x, DType::u32));
  for (DType dtype :
       {DType::i4, DType::u8, DType::bf16, DType::f8e4m3fn, DType::f8e5m2fnuz, DType::boolean, DType::c64})
    out.push_back(b.convert(x, dtype));
  out.push_back(b.iota(DType::u16, {2, 4}, 1));
  for (ReduceKind kind : {ReduceKind::logical_and, ReduceKind::logical_or}) out.push_back(b.reduce(m, kind, {0, 1}));
  for (ReduceKind kind : {ReduceKind::min, ReduceKind::max, ReduceKind::mul}) {
    out.push_back(b.reduce(half, kind, {1}));
    out.push_back(b.reduce(n, kind, {1}));
  }
  SortAttributes sort;
  sort.axis = 1;
  for (bool descending : {false, true})
    for (bool nan_last : {false, true}) {
      sort.descending = descending;
      sort.nan_last = nan_last;
      for (Value value : b.sort({x, n}, sort)) out.push_back(value);
    }
  sort.keys = 2;
  for (Value value : b.sort({n, x}, sort)) out.push_back(value);
  for (FftKind kind : {FftKind::fft, FftKind::ifft, FftKind::rfft}) {
    Value operand = kind == FftKind::rfft ? x : b.convert(x, DType::c64);
    out.push_back(b.fft(operand, kind, {4}));
  }
  out.push_back(b.fft(b.convert(x, DType::c64), FftKind::irfft, {6}));

  for (DType dtype : {DType::f32, DType::f16, DType::f8e4m3fn, DType::bf16, DType::i4, DType::u2, DType::i64,
                      DType::boolean, DType::c128}) {
    std::vector<double> few = {0, 1, 1, 0}, many(100);
    for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i % 2);
    out.push_back(b.constant(make(dtype, few, {2, 2})));
    out.push_back(b.constant(make(dtype, many, {4, 25})));
    out.push_back(b.constant(make(dtype, {1}, {})));
    out.push_back(b.constant(make(dtype, {}, {0, 3})));
  }
  out.push_back(b.constant(make(DType::f32, {INFINITY, -INFINITY, NAN, 1e-42, -0.0})));
  EXPECT_FALSE(printed("others", b.finish(std::move(out))).empty());
}

TEST(Printing, SaysInStableHloWhatOnlyOurOpsAllow) {
  using Body = Value (*)(Builder&);
  const Body bodies[] = {
      [](Builder& b) {  // operands of two dtypes
        ConvolutionAttributes a;
        a.strides = a.lhs_dilation = a.rhs_dilation = {1};
        a.pad_low = a.pad_high = {1};
        a.dtype = DType::i32;
        return b.convolution(b.constant(make(DType::u8, {1, 200, 3, 255}, {1, 1, 4})),
                             b.constant(make(DType::i8, {-128, 2, 127}, {1, 1, 3})), a);
      },
      [](Builder& b) {
        DotGeneralAttributes a;
        a.lhs_contracting = {1};
        a.rhs_contracting = {0};
        a.dtype = DType::f32;
        return b.dot_general(b.constant(make(DType::f16, {0.5, 2}, {1, 2})),
                             b.constant(make(DType::i4, {-8, 7}, {2, 1})), a);
      },
      [](Builder& b) {
        return random_bits(b, b.constant(Tensor(std::vector<uint64_t>{5, 9}, {2})), {3, 7}, 0x123456789ABCDEF0);
      },
      [](Builder& b) {
        return random_bits(b, b.constant(Tensor(std::vector<uint64_t>{5, 9}, {2})), {}, 7, true);
      },
      [](Builder& b) {  // out of range
        const Value x = b.constant(make(DType::f32, {-1e9, -8.5, -1.5, 7.9, 1e9, NAN, INFINITY}));
        return b.convert(b.convert(x, DType::i4), DType::i32);
      },
      [](Builder& b) {
        const Value x = b.constant(make(DType::f32, {-1e9, -0.5, 463, 1e9, INFINITY, 57343}));
        return b.add(b.convert(b.convert(x, DType::f8e4m3fn), DType::f32),
                     b.convert(b.convert(x, DType::f8e5m2), DType::f32));
      },
  };
  for (const Body body : bodies) {
    Builder alone(nullptr), both(nullptr);
    const Tensor expected = evaluate(alone.finish({body(alone)}), {})[0];
    const Value result = body(both);
    EXPECT_EQ(printed("only ours run", both.finish({result, both.constant(expected)})).find("random_bits"),
              std::string::npos);
  }
  Builder b(ShapeScope::create());
  const ShapeScope::Enter enter(b.scope());
  const Value x = b.input({DType::f32, {2, 4}}, "x");
  EXPECT_THAT(printed("custom call", b.finish({unique(b, x, 1, true)[0]})),
              ::testing::HasSubstr("\"stablehlo.custom_call\"(%arg0) {call_target_name = \"transmuter.unique\", "
                                   "backend_config = \" axis=1 sorted=1\""));
}

TEST(Printing, WritesRegions) {
  auto region = [](auto&& fn) {
    Builder b(nullptr);
    Value i = b.input({DType::i32, {}}, "i"), x = b.input({DType::f32, {3}}, "x");
    return std::make_shared<const Program>(b.finish(fn(b, i, x)));
  };
  ProgramPtr condition = region([](Builder& b, Value i, Value) {
    return std::vector<Value>{b.compare(i, b.integer(DType::i32, 3), CompareDirection::lt)};
  });
  ProgramPtr body = region([](Builder& b, Value i, Value x) {
    Value total = b.broadcast_to(b.reduce(x, ReduceKind::add, {0}), {3});
    return std::vector<Value>{b.add(i, b.integer(DType::i32, 1)), total};
  });
  ProgramPtr one = region([](Builder&, Value, Value x) { return std::vector<Value>{x}; });
  ProgramPtr nested = region([&](Builder& b, Value i, Value x) {
    return std::vector<Value>{b.while_loop({i, x}, condition, body)[1]};
  });
  Builder b(nullptr);
  Value i = b.input({DType::i32, {}}, "i"), x = b.input({DType::f32, {3}}, "x");
  std::vector<Value> state = b.while_loop({i, b.add(x, x)}, condition, body);
  Value chosen = b.case_of(i, {state[0], state[1]}, {one, nested})[0];
  std::string text = printed("regions", b.finish({state[0], chosen}));
  EXPECT_NE(text.find("\"stablehlo.while\""), std::string::npos);
}

}  // namespace
}  // namespace transmuter::ir
