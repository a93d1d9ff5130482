// Passes: what each must and must not do. Every program is also run before and after.
#include "ir/passes/passes.h"

#include <filesystem>
#include <functional>

#include "ir/composites/composites.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/split_weights.h"
#include "ir/passes/verify.h"
#include "ir_testing.h"

namespace transmuter::ir {
namespace {

std::string op_names(const Program& program) {
  std::string out;
  for (const Op& op : program.ops()) out += str(out.empty() ? "" : " ", op.primitive->name);
  return out;
}

using Values = const std::vector<Value>&;
struct Row {
  const char* what;
  std::function<Value(Builder&, Values)> fn;  // of x: float32 [2, 3], y: float32 [2, 3], m: bool [2, 3]
  std::string left;                           // op names after the pass and dce
};

void check(const std::vector<Row>& rows, const std::function<Program(const Program&)>& pass) {
  const std::vector<Tensor> inputs = {make(DType::f32, {1, -2, 3, 4, 5, 6}, {2, 3}),
                                      make(DType::f32, {6, 5, 4, 3, 2, 1}, {2, 3}),
                                      make(DType::boolean, {1, 0, 1, 0, 1, 0}, {2, 3})};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Builder b(nullptr);
    std::vector<Value> values = {b.input({DType::f32, {2, 3}}, "x"), b.input({DType::f32, {2, 3}}, "y"),
                                 b.input({DType::boolean, {2, 3}}, "m")};
    Value result = row.fn(b, values);
    const Program before = b.finish({result}), after = dce(pass(before));
    verify(after);
    EXPECT_EQ(op_names(after), row.left);
    EXPECT_EQ(numbers(evaluate(after, inputs)[0]), numbers(evaluate(before, inputs)[0]));
  }
}

TEST(Passes, SimplifyRemovesIdentities) {
  const Dims shape = {2, 3};
  check(
      {
          {"x + 0", [](Builder& b, Values v) { return b.add(v[0], b.like(v[0], 0)); }, ""},
          {"1 * x", [](Builder& b, Values v) { return b.multiply(b.like(v[0], 1), v[0]); }, ""},
          {"1 / x stays", [](Builder& b, Values v) { return b.divide(b.like(v[0], 1), v[0]); },
           "constant broadcast_in_dim divide"},
          {"x * 0 stays", [](Builder& b, Values v) { return b.multiply(v[0], b.like(v[0], 0)); },
           "constant broadcast_in_dim multiply"},
          {"x - 0", [](Builder& b, Values v) { return b.subtract(v[0], b.like(v[0], 0)); }, ""},
          {"m & true", [](Builder& b, Values v) { return b.logical_and(v[2], b.like(v[2], 1)); }, ""},
          {"not not m", [](Builder& b, Values v) { return b.logical_not(b.logical_not(v[2])); }, ""},
          {"max(x, x)", [](Builder& b, Values v) { return b.maximum(v[0], v[0]); }, ""},
          {"select(true)", [](Builder& b, Values v) { return b.select(b.like(v[2], 1), v[0], v[1]); }, ""},
          {"transposes",
           [](Builder& b, Values v) {
             return b.transpose(b.transpose(v[0], {1, 0}), {1, 0});
           },
           ""},
          {"transposes that leave one",
           [](Builder& b, Values v) {
             return b.transpose(b.transpose(b.reshape(v[0], {1, 2, 3}), {1, 2, 0}), {1, 0, 2});
           },
           "reshape transpose"},
          {"reshapes",
           [](Builder& b, Values v) {
             return b.reshape(b.reshape(v[0], {6}), {3, 2});
           },
           "reshape"},
          {"widening and back", [](Builder& b, Values v) { return b.convert(b.convert(v[0], DType::f64), DType::f32); },
           ""},
          {"narrowing and back stays",
           [](Builder& b, Values v) { return b.convert(b.convert(v[0], DType::f16), DType::f32); }, "convert convert"},
          {"broadcasts",
           [](Builder& b, Values v) {
             return b.broadcast_in_dim(b.broadcast_in_dim(v[0], {2, 1, 3}, {0, 2}), {2, 4, 3, 5}, {0, 1, 2});
           },
           "broadcast_in_dim"},
          {"broadcast of added ones",
           [](Builder& b, Values v) {
             return b.broadcast_to(b.reshape(v[0], {2, 1, 3}), {2, 4, 3});
           },
           "broadcast_in_dim"},
          {"broadcast of regrouped axes stays",
           [](Builder& b, Values v) {
             return b.broadcast_to(b.reshape(v[0], {3, 1, 2}), {3, 4, 2});
           },
           "reshape broadcast_in_dim"},
          {"slice of everything",
           [](Builder& b, Values v) {
             return b.slice(v[0], {0, 0}, {2, 3}, {1, 1});
           },
           ""},
          {"slices",
           [](Builder& b, Values v) {
             return b.slice(b.slice(v[0], {0, 1}, {2, 3}, {1, 1}), {1, 1}, {2, 2}, {1, 1});
           },
           "slice"},
          {"pad by nothing",
           [](Builder& b, Values v) {
             return b.pad(v[0], b.scalar(DType::f32, 0), {0, 0}, {0, 0}, {0, 0});
           },
           ""},
          {"empty parts",
           [](Builder& b, Values v) {
             return b.concatenate({b.slice_axis(v[1], 0, 0, 0), v[0]}, 0);
           },
           ""},
          {"reduce over 1",
           [](Builder& b, Values v) {
             return b.reduce(b.reshape(v[0], {2, 1, 3}), ReduceKind::add, {1});
           },
           ""},
      },
      [](const Program& program) { return simplify(simplify(program)); });
}

TEST(Passes, FoldComputesConstants) {
  check(
      {
          {"splats",
           [](Builder& b, Values v) {
             return b.add(v[0], b.exponential(b.multiply(b.like(v[0], 2), b.like(v[0], 3))));
           },
           "constant broadcast_in_dim add"},
          {"tensors",
           [](Builder& b, Values v) {
             Value c = b.constant(Tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}));
             return b.multiply(v[0], b.transpose(c, {1, 0}));
           },
           "constant multiply"},
          {"too large",
           [](Builder& b, Values v) {
             Value c = b.constant(Tensor::zeros(DType::f32, {1, 20000}));
             Value row = b.slice(b.reverse(c, {1}), {0, 0}, {1, 3}, {1, 1});
             return b.add(v[0], b.broadcast_in_dim(row, {2, 3}, {0, 1}));
           },
           "constant reverse slice broadcast_in_dim add"},
      },
      fold);
}

TEST(Passes, CseMergesEqualOps) {
  check({{"twice", [](Builder& b, Values v) { return b.add(b.exponential(v[0]), b.exponential(v[0])); },
          "exponential add"},
         {"other attributes",
          [](Builder& b, Values v) {
            return b.add(b.reverse(b.reverse(v[0], {0}), {1}), b.reverse(b.reverse(v[0], {1}), {1}));
          },
          "reverse reverse reverse reverse add"},
         {"equal constants",
          [](Builder& b, Values v) { return b.multiply(b.add(v[0], b.like(v[0], 2)), b.like(v[0], 2)); },
          "constant broadcast_in_dim add multiply"}},
        cse);
}

TEST(Passes, DceKeepsInputsAndDropsWeights) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x");
  b.input({DType::f32, {2}}, "unused input");
  Value w = b.weight(make(DType::f32, {1, 2}), "unused weight");
  b.exponential(w);
  const Program after = dce(b.finish({b.negate(x)}));
  EXPECT_EQ(op_names(after), "negate");
  EXPECT_EQ(after.parameters().size(), 2u);
}

TEST(Passes, InlineUntilNothingIsLeft) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x");
  b.set_location("node \"a\"");
  const Program program = b.finish({b.erf(b.asin(x))});
  const Program kept =
      inline_composites(program, [](const Program&, const Op& op) { return std::string(op.primitive->name) == "erf"; });
  EXPECT_EQ(op_names(dce(simplify(kept))).find("asin"), std::string::npos);
  EXPECT_NE(op_names(kept).find("erf"), std::string::npos);
  for (const Op& op : kept.ops()) EXPECT_EQ(kept.locations()[static_cast<size_t>(op.location)], "node \"a\"");
  const Program plain = inline_composites(program);
  for (const Op& op : plain.ops()) EXPECT_EQ(op.primitive->decompose, nullptr);
}

// A region keeps what the main body does: backends compile it by the same rules, the interpreter runs the body of what
// it has no evaluation of.
TEST(Passes, CompositesStayInRegions) {
  const auto softmax_of = [](double sign) {
    Builder b(nullptr);
    const Value x = b.input({DType::f32, {2, 3}}, "x");
    return std::make_shared<const Program>(b.finish({softmax(b, b.multiply(x, b.like(x, sign)), 1)}));
  };
  Builder b(nullptr);
  const Value which = b.input({DType::i32, {}}, "which"), x = b.input({DType::f32, {2, 3}}, "x");
  const Program program = b.finish(b.case_of(which, {x}, {softmax_of(1), softmax_of(-1)}));
  const Program kept = inline_composites(program, [](const Program&, const Op&) { return true; });
  const Program plain = inline_composites(program);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NE(op_names(*kept.ops()[0].regions[i]).find("softmax"), std::string::npos);
    EXPECT_EQ(op_names(*plain.ops()[0].regions[i]).find("softmax"), std::string::npos);
    const std::vector<Tensor> inputs{make(DType::i32, {static_cast<double>(i)}, {}),
                                     make(DType::f32, {1, 2, 3, 0, -1, 4}, {2, 3})};
    EXPECT_EQ(evaluate(kept, inputs)[0].to_vector<float>(), evaluate(plain, inputs)[0].to_vector<float>());
  }
}

TEST(Passes, SplitWeightsPreparesWhatDoesNotGrow) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {1, 256}}, "x");
  Value w = b.weight(Tensor::zeros(DType::f32, {256, 256}), "w");
  Value half = b.weight(Tensor::zeros(DType::f16, {256, 256}), "half");
  Value scale = b.weight(make(DType::f32, {2}, {}), "scale");
  Value trained = b.weight(make(DType::f32, {2}, {}), "trained", true);
  Value scaled = b.multiply(b.transpose(w, {1, 0}), b.broadcast_to(scale, {256, 256}));
  Value sum = b.add(scaled, b.convert(b.transpose(half, {1, 0}), DType::f32));
  Value row = b.add(x, b.reshape(b.slice_axis(sum, 0, 0, 1), {1, 256}));
  Value result = b.multiply(row, b.broadcast_to(b.negate(trained), {1, 256}));
  const Program program = b.finish({b.add(result, b.broadcast_to(b.negate(scale), {1, 256}))});
  const SplitProgram split = split_weights(program);
  verify(split.prepare);
  verify(split.main);
  // The slice of the sum is small; the convert of 64 K elements grows, yet it is used inside prepare alone.
  EXPECT_EQ(op_names(split.main), "add negate broadcast_in_dim multiply add");
  for (const Parameter& parameter : split.prepare.parameters()) EXPECT_FALSE(parameter.trainable);
  const std::vector<Tensor> inputs = {Tensor::zeros(DType::f32, {1, 256})};
  const Program main = with_prepared(split, evaluate(split.prepare, {}));
  EXPECT_EQ(numbers(evaluate(main, inputs)[0]), numbers(evaluate(program, inputs)[0]));
}

TEST(Passes, SplitWeightsLeavesWideningToMain) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {256, 256}}, "x");
  Value half = b.weight(Tensor::zeros(DType::f16, {256, 256}), "half");
  const Program program = b.finish({b.add(x, b.convert(b.negate(half), DType::f32))});
  const SplitProgram split = split_weights(program);
  EXPECT_EQ(op_names(split.prepare), "negate");
  EXPECT_EQ(op_names(split.main), "convert add");
}

TEST(Passes, SplitWeightsLeavesViewsToMain) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {256, 256}}, "x");
  Value w = b.weight(Tensor::zeros(DType::f32, {256, 256}), "w");
  Value viewed = b.transpose(w, {1, 0});
  Value computed = b.negate(b.reshape(w, {65536}));
  const Program program = b.finish({b.add(x, viewed), b.add(x, b.reshape(computed, {256, 256}))});
  const SplitProgram split = split_weights(program);
  EXPECT_EQ(op_names(split.prepare), "reshape negate reshape");
  EXPECT_EQ(op_names(split.main), "transpose add add");
}

TEST(Passes, VerifyLeavesTheScopeAlone) {
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  Builder b(scope);
  Value x = b.input({DType::f32, {scope->input_extent(0, 0, 4, "")}}, "x");
  const Program program = b.finish({nonzero(b, x)});
  const size_t symbols = scope->symbols().size(), asserted = scope->assertions().size();
  verify(program);
  EXPECT_EQ(scope->symbols().size(), symbols);
  EXPECT_EQ(scope->assertions().size(), asserted);
  EXPECT_EQ(ShapeScope::current(), scope.get());
}

TEST(Passes, PipelineSkipsAndDumps) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x");
  const Program program = b.finish({b.add(b.negate(x), b.negate(x))});
  const std::string directory = (std::filesystem::path(testing::TempDir()) / "ir_dump").string();
  std::filesystem::remove_all(directory);
  PipelineOptions options{.skip = {"cse"}, .dump_directory = directory, .verify = true};
  EXPECT_EQ(op_names(run_passes(program, standard_passes(), options)), "negate negate add");
  EXPECT_EQ(op_names(run_passes(program, standard_passes(), {})), "negate add");
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) files += entry.is_regular_file();
  EXPECT_EQ(files, standard_passes().size());  // the start and each pass but cse
  std::filesystem::remove_all(directory);
}

TEST(Passes, KeepWhatDefinesADataDependentExtent) {
  auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  Builder b(scope);
  Value x = b.input({DType::f32, {scope->input_extent(0, 0, 4, "n")}}, "x");
  // A made-up op that counts: only its extent is used.
  static const Primitive kCount = {
      .name = "count",
      .infer =
          [](const InferContext& c) {
            return std::vector<Type>{
                {DType::i64, {ShapeScope::current()->data_dependent(c.operands[0].shape[0], "n")}}};
          },
      .evaluate =
          [](EvaluateContext& c) {
            c.define(c.result_type().shape[0], 1);
            c.make_result();
          }};
  Dim count = b.type(b.emit1(kCount, {x})).shape[0];
  b.emit1(kCount, {x});
  const Program program = b.finish({b.dim_value(count, DType::i64)});
  EXPECT_EQ(op_names(dce(cse(program))), "count dim_value");
}

}  // namespace
}  // namespace transmuter::ir
