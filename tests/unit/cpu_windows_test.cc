// Gathers, scatters and padding on the cpu backend, against the plain interpreter: windows, batching axes, positions
// outside, strided operands, sizes bound at run time.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

using ir::Builder;
using ir::Value;

// x f32 [n, 3, 5], indices i64 or i32 [n, 4, 2] -> the results of `body`, for several n, with and without a transpose.
template <class Body>
void compare(const Body& body, DType dtype = DType::f32) {
  for (const DType index_dtype : {DType::i64, DType::i32}) {
    auto scope = ShapeScope::create();
    const ShapeScope::Enter enter(scope);
    Builder b(scope);
    const Dim n = scope->input_extent(0, 0, 3, "n");
    const Value given = b.input({dtype, {n, 5, 3}}, "x"), indices = b.input({index_dtype, {n, 4, 2}}, "indices");
    const Value x = b.transpose(given, {0, 2, 1});
    const ir::Program program = b.finish(body(b, n, x, indices));
    BackendOptions options;
    options.threads = 2;
    const auto backend = Backend::get("cpu");
    const auto executable = backend->compile(program, options);
    for (const int64_t size : {3, 2, 5}) {
      std::vector<float> values(static_cast<size_t>(size * 15));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 31) - 9;
      std::vector<int64_t> places(static_cast<size_t>(size * 8));
      for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i * 5 % 9) - 2;  // some outside
      const std::vector<Tensor> inputs{Tensor(values, {size, 5, 3}).cast(dtype),
                                       Tensor(places, {size, 4, 2}).cast(index_dtype)};
      Bindings expected_bindings(scope), bindings(scope);
      expected_bindings.set(0, size);
      bindings.set(0, size);
      const std::vector<Tensor> expected = ir::evaluate(program, inputs, &expected_bindings);
      std::vector<Buffer> given_here{backend->upload(inputs[0]), backend->upload(inputs[1])};
      const std::vector<Buffer> results = executable->run(given_here, bindings);
      for (size_t i = 0; i < expected.size(); ++i) {
        const Tensor got = backend->download(results[i]);
        EXPECT_EQ(got.shape(), expected[i].shape());
        EXPECT_EQ(got.cast(DType::f32).to_vector<float>(), expected[i].cast(DType::f32).to_vector<float>());
      }
    }
  }
}

TEST(CpuWindows, GathersByVectorsWithAndWithoutBatchingAxes) {
  for (const DType dtype : {DType::f32, DType::u8, DType::f64, DType::f16}) {
    compare(
        [](Builder& b, Dim n, Value x, Value indices) {
          ir::GatherAttributes elements;  // one element of each item
          elements.collapsed_slice_dims = elements.start_index_map = {1, 2};
          elements.operand_batching_dims = elements.start_indices_batching_dims = {0};
          elements.index_vector_dim = 2;
          elements.slice_sizes = {1, 1, 1};
          ir::GatherAttributes windows = elements;  // two by three of each
          windows.collapsed_slice_dims = {};
          windows.offset_dims = {1, 3};
          windows.slice_sizes = {1, 2, 3};
          ir::GatherAttributes rows;  // of any item, the last axis whole
          rows.collapsed_slice_dims = rows.start_index_map = {0, 1};
          rows.offset_dims = {2};
          rows.index_vector_dim = 2;
          rows.slice_sizes = {1, 1, 5};
          (void)n;
          return std::vector<Value>{b.gather(x, indices, elements), b.gather(x, indices, windows),
                                    b.gather(x, indices, rows)};
        },
        dtype);
  }
}

TEST(CpuWindows, GathersSingleElementsByLines) {
  for (const DType dtype : {DType::f32, DType::u8, DType::f64, DType::f16}) {
    compare(
        [](Builder& b, Dim n, Value x, Value indices) {
          ir::GatherAttributes last;  // one element for each index of a row, of the same item and row
          last.collapsed_slice_dims = last.start_index_map = {2};
          last.operand_batching_dims = last.start_indices_batching_dims = {0, 1};
          last.index_vector_dim = 3;
          last.slice_sizes = {1, 1, 1};
          ir::GatherAttributes middle = last;
          middle.collapsed_slice_dims = middle.start_index_map = {1};
          middle.operand_batching_dims = middle.start_indices_batching_dims = {0, 2};
          ir::GatherAttributes any;  // no axis in common
          any.collapsed_slice_dims = any.start_index_map = {0};
          any.index_vector_dim = 1;
          any.slice_sizes = {1};
          const std::vector<Dim> ones(3, 1);
          const Value rows = b.slice(indices, {0, 0, 0}, {n, 3, 2}, ones);
          const Value columns = b.slice(x, {0, 0, 0}, {n, 3, 2}, ones);
          return std::vector<Value>{b.gather(x, rows, last), b.gather(columns, indices, middle),
                                    b.gather(b.reshape(x, {n * 15}), b.reshape(indices, {n * 8}), any)};
        },
        dtype);
  }
}

TEST(CpuWindows, ScattersInOrderAndLeaveOutWhatIsOutside) {
  compare([](Builder& b, Dim n, Value x, Value indices) {
    ir::ScatterAttributes elements;
    elements.inserted_window_dims = elements.scatter_dims_to_operand_dims = {1, 2};
    elements.input_batching_dims = elements.scatter_indices_batching_dims = {0};
    elements.index_vector_dim = 2;
    ir::ScatterAttributes windows = elements;
    windows.inserted_window_dims = {};
    windows.update_window_dims = {2, 3};
    const Value numbers = b.convert(b.iota(DType::i64, {n, 4}, 1), DType::f32);
    const Value boxes = b.convert(b.iota(DType::i64, {n, 4, 2, 3}, 3), DType::f32);
    return std::vector<Value>{b.scatter(x, indices, numbers, elements), b.scatter(x, indices, boxes, windows)};
  });
}

TEST(CpuWindows, PadsCropsAndSpreads) {
  compare([](Builder& b, Dim n, Value x, Value) {
    const Value value = b.scalar(DType::f32, 2.5);
    return std::vector<Value>{
        b.pad(x, value, {0, 1, 2}, {1, 0, 3}, {0, 0, 0}), b.pad(x, value, {0, -1, 2}, {n, 2, -4}, {0, 0, 0}),
        b.pad(x, value, {1, -2, -3}, {0, 1, 1}, {1, 2, 1}), b.pad(x, value, {0, -3, 0}, {0, 4, 0}, {0, 0, 0})};
  });
}

}  // namespace
}  // namespace transmuter
