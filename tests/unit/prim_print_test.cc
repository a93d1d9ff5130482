// StableHLO text of contractions, windows, index ops and control; symbolic extents of windows.
#include "ir/print.h"

#include "ir/composites/composites.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

using testing::HasSubstr;

template <class Body>
std::string printed(const std::vector<Type>& types, const Body& body) {
  Builder build(nullptr);
  std::vector<Value> in;
  for (const Type& type : types) in.push_back(build.input(type, "x"));
  return print_stablehlo(build.finish({body(build, in)}));
}

TEST(PrimitiveText, Contractions) {
  const std::string dot =
      printed({{DType::f32, {2, 3, 4}}, {DType::f32, {2, 4, 5}}}, [](Builder& build, const auto& in) {
        DotGeneralAttributes a;
        a.lhs_batching = a.rhs_batching = {0};
        a.lhs_contracting = {2};
        a.rhs_contracting = {1};
        a.dtype = DType::f32;
        return build.dot_general(in[0], in[1], a);
      });
  EXPECT_THAT(dot, HasSubstr("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], "
                             "rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
                             "rhs_contracting_dimensions = [1]>"));
  EXPECT_THAT(dot, HasSubstr("-> tensor<2x3x5xf32>"));
  const std::string conv =
      printed({{DType::f32, {1, 2, 5, 5}}, {DType::f32, {4, 1, 3, 3}}}, [](Builder& build, const auto& in) {
        ConvolutionAttributes a;
        a.strides = {2, 2};
        a.pad_low = {1, 1};
        a.pad_high = {1, 0};
        a.lhs_dilation = a.rhs_dilation = {1, 1};
        a.feature_groups = 2;
        a.dtype = DType::f32;
        return build.convolution(in[0], in[1], a);
      });
  EXPECT_THAT(conv,
              HasSubstr("window_strides = array<i64: 2, 2>, padding = dense<[[1, 1], [1, 0]]> : tensor<2x2xi64>"));
  EXPECT_THAT(conv, HasSubstr("dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, "
                              "feature_group_count = 2 : i64, batch_group_count = 1 : i64"));
}

TEST(PrimitiveText, ReductionsHaveAnInitAndABody) {
  const std::string text = printed(
      {{DType::f32, {2, 3}}}, [](Builder& build, const auto& in) { return build.reduce(in[0], ReduceKind::max, {1}); });
  EXPECT_THAT(text, HasSubstr("dense<0xFF800000> : tensor<f32>"));
  EXPECT_THAT(text, HasSubstr("\"stablehlo.maximum\""));
  EXPECT_THAT(text, HasSubstr("{dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>"));
}

TEST(PrimitiveText, SortPutsNanLast) {
  const std::string text = printed({{DType::f32, {3}}}, [](Builder& build, const auto& in) {
    SortAttributes a;
    a.descending = true;
    a.nan_last = true;
    return build.sort({in[0]}, a)[0];
  });
  EXPECT_THAT(text, HasSubstr("comparison_direction GT"));
  EXPECT_THAT(text, HasSubstr("comparison_direction NE"));
  EXPECT_THAT(text, HasSubstr("dimension = 0 : i64, is_stable = true"));
}

TEST(PrimitiveText, IndexOps) {
  const std::string text = printed({{DType::f32, {4, 2}}, {DType::i64, {3}}}, [](Builder& build, const auto& in) {
    GatherAttributes gather;
    gather.offset_dims = {1};
    gather.collapsed_slice_dims = {0};
    gather.start_index_map = {0};
    gather.index_vector_dim = 1;
    gather.slice_sizes = {1, 2};
    const Value rows = build.gather(in[0], in[1], gather);
    ScatterAttributes scatter;
    scatter.update_window_dims = {1};
    scatter.inserted_window_dims = {0};
    scatter.scatter_dims_to_operand_dims = {0};
    scatter.index_vector_dim = 1;
    return build.scatter(in[0], in[1], rows, scatter);
  });
  EXPECT_THAT(text, HasSubstr("#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0]"));
  EXPECT_THAT(text, HasSubstr("start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>"));
  EXPECT_THAT(text, HasSubstr("#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0]"));
}

TEST(WindowExtents, FollowTheInput) {
  const auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  Builder build(scope);
  const Dim n = scope->input_extent(0, 2, 9, "n");
  const Value x = build.input({DType::f32, {1, 1, n}}, "x");
  const Value kernel = build.constant(floats({1, 1, 1}, {1, 1, 3}));
  ConvolutionAttributes a;
  a.strides = {2};
  a.pad_low = {1};
  a.pad_high = {0};
  a.lhs_dilation = a.rhs_dilation = {1};
  a.dtype = DType::f32;
  const Value y = build.convolution(x, kernel, a);
  EXPECT_EQ(build.shape(y)[2].hint(), 4);
  const Program program = build.finish({y});
  EXPECT_TRUE(scope->guards().size() <= 2);  // only that n is neither 0 nor 1
  for (const int64_t size : {2, 5}) {
    Bindings bindings(scope);
    bindings.set(0, size);
    const auto out = evaluate(program, std::vector<Tensor>{floats(counting(size, 1), {1, 1, size})}, &bindings);
    EXPECT_EQ(out[0].dim(2), (size - 2) / 2 + 1);
  }
}

}  // namespace
}  // namespace transmuter::ir
