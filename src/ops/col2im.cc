// Col2Im: blocks of columns added up where they came from in the image.
#include "ops/registry.h"
#include "ops/support.h"
#include "ops/windows.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// input [n, c * block, count] -> [n, c, image...]; what lands in the padding is dropped.
void col2im(OpContext& op) {
  require_numeric(op, 0);
  op.check(op.rank(0) == 3, "the input must have rank 3, has ", op.rank(0));
  Builder& b = op.build();
  const Dims image = op.require_dims(1), block = op.require_dims(2);
  const size_t n = image.size();
  op.check(n >= 1 && block.size() == n, "image_shape and block_shape must have one extent for each spatial axis");
  const std::vector<int64_t> strides = axis_attribute(op, "strides", n, 1, 1);
  const std::vector<int64_t> dilations = axis_attribute(op, "dilations", n, 1, 1);
  const std::vector<int64_t> pads = axis_attribute(op, "pads", 2 * n, 0, 0);
  Dims places = block;  // of each element: in its block, then which block
  for (size_t i = 0; i < n; ++i) {
    const Dim room = image[i] + pads[i] + pads[n + i] - (block[i] - 1) * Dim(dilations[i]) - 1;
    require(less_equal(0, room), "Col2Im: the block is larger than the padded image");
    places.push_back(floor_div(room, strides[i]) + 1);
  }
  const Dims own = op.shape(0);
  const Dim elements = product(block);
  require(equal(mod(own[1], elements), 0), "Col2Im: rows divide by the block");
  require_eq(product(places), elements * own[2], "Col2Im: blocks in the input and in the image");
  const Dim channels = floor_div(own[1], elements), sheets = own[0] * channels, count = elements * own[2];
  std::vector<Value> indices;
  for (size_t i = 0; i < n; ++i) {
    const int64_t axis = static_cast<int64_t>(i);
    const Value inside = b.iota(DType::i64, places, axis),
                which = b.iota(DType::i64, places, axis + static_cast<int64_t>(n));
    const auto number = [&](int64_t value) { return b.like(inside, static_cast<double>(value)); };
    const Value at = b.add(b.multiply(inside, number(dilations[i])), b.multiply(which, number(strides[i])));
    indices.push_back(b.reshape(b.subtract(at, number(pads[i])), {count, 1}));
  }
  ir::ScatterAttributes scatter;
  scatter.kind = ir::ScatterAttributes::Kind::add;
  scatter.update_window_dims = {0};
  scatter.index_vector_dim = 1;
  for (size_t i = 0; i < n; ++i) {
    scatter.inserted_window_dims.push_back(static_cast<int64_t>(i) + 1);
    scatter.scatter_dims_to_operand_dims.push_back(static_cast<int64_t>(i) + 1);
  }
  Dims canvas{sheets}, result{own[0], channels};
  canvas.insert(canvas.end(), image.begin(), image.end());
  result.insert(result.end(), image.begin(), image.end());
  const Value zeros = b.splat(op.dtype(0), 0, canvas);
  const Value updates = b.reshape(op.input(0), {sheets, count});
  op.output(0, b.reshape(b.scatter(zeros, b.concatenate(std::move(indices), 1), updates, std::move(scatter)), result));
}

}  // namespace

void register_col2im(Registry& r) { r.add("Col2Im", {18}, col2im); }

}  // namespace transmuter::ops
