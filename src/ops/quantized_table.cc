// Rows looked up in quantised tables: com.microsoft GatherBlockQuantized, QEmbedLayerNormalization. Only the rows that
// are taken are dequantised.
#include "ir/composites/composites.h"
#include "ops/attention_parts.h"
#include "ops/nbits.h"
#include "ops/norm.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// The axis of x replaced by the axes of the indices.
Value take_along(Builder& b, Value x, int64_t axis, Value indices) {
  const Dims shape = b.shape(x), chosen = b.shape(indices);
  const Value taken = take(b, x, axis, b.reshape(indices, {product(chosen)}));
  Dims result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), chosen.begin(), chosen.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  return b.reshape(taken, result);
}

// uint8 bytes as elements of `bits`, `last` of them along the last axis; each row starts with a byte.
Value unpack_rows(Builder& b, Value bytes, int64_t bits, Dim last) {
  Dims shape = b.shape(bytes);
  shape.back() = shape.back() * Dim(8 / bits);
  const Value elements = unpack_bytes(b, bytes, bits, shape);
  return b.slice_axis(elements, b.rank(elements) - 1, 0, last);
}

void gather_block_quantized(OpContext& op) {
  const int64_t rank = op.rank(0);
  const int64_t bits = op.attribute_int("bits", 4);
  int64_t block = op.attribute_int("block_size", 128);
  const int64_t axis = op.axis(op.attribute_int("gather_axis", 0), rank);
  const int64_t blocked = op.axis(op.attribute_int("quantize_axis", 1), rank);
  op.check(axis != blocked, "gather_axis and quantize_axis must differ");
  op.check(bits == 2 || bits == 4 || bits == 8, "bits must be 2, 4 or 8, are ", bits);
  for (const size_t i : {2, 3}) require_rank(op, i, rank);  // scales, zero points
  require_index(op, 1);
  const DType dtype = op.dtype(0);
  const bool bytes = dtype == DType::u8;
  Builder& b = op.build();
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  // From the end where negative; rows of indices outside become zeros.
  const Value given = op.input(1), zero = b.like(given, 0);
  const Value size = b.broadcast_to(b.dim_value(extent, op.dtype(1)), b.shape(given));
  const Value indices = b.select(b.compare(given, zero, CompareDirection::lt), b.add(given, size), given);
  const Value inside =
      b.logical_and(b.compare(indices, zero, CompareDirection::ge), b.compare(indices, size, CompareDirection::lt));
  const auto rows = [&](Value x) {
    // One scale for all rows: repeated.
    if (!provably_eq(extent, 1) && provably_eq(b.shape(x)[static_cast<size_t>(axis)], 1)) {
      Dims wide = b.shape(x);
      wide[static_cast<size_t>(axis)] = extent;
      x = b.broadcast_to(x, wide);
    }
    return take_along(b, x, axis, indices);
  };
  Value x = rows(op.input(0));
  if (bytes) x = unpack_rows(b, x, bits, b.shape(x).back() * Dim(8 / bits));
  Value scales = rows(op.input(2));
  const int64_t new_axis = blocked < axis ? blocked : blocked + op.rank(1) - 1;
  const Dim along = b.shape(x)[static_cast<size_t>(new_axis)];
  if (block == 0) block = specialize(along, "GatherBlockQuantized: the extent of the one block");
  op.check(block > 0, "block_size must be positive, is ", block);
  Dims scale_shape = b.shape(x);
  scale_shape[static_cast<size_t>(new_axis)] = ceil_div(along, block);
  scales = b.broadcast_to(scales, scale_shape);
  Value zeros;
  if (op.has_input(3)) {
    op.check(op.dtype(3) == dtype, "zero points must be ", name(dtype), ", are ", name(op.dtype(3)));
    zeros = rows(op.input(3));
    if (bytes) zeros = unpack_rows(b, zeros, bits, scale_shape.back());
  } else if (bytes) {
    zeros = b.splat(DType::u8, static_cast<double>(1 << (bits - 1)), scale_shape);
  }
  ir::QuantizeAttributes attributes;
  attributes.dtype = op.dtype(2);
  attributes.axis = new_axis;
  attributes.block = block;
  const Value y = ir::dequantize_linear(b, x, scales, zeros, attributes);
  std::vector<int64_t> index_axes;
  for (int64_t i = 0; i < op.rank(1); ++i) index_axes.push_back(axis + i);
  op.output(0, b.select(b.broadcast_in_dim(inside, b.shape(y), index_axes), y, b.like(y, 0)));
}

// (x - zero point) * scale, inputs `scale` and `zero_point` of one element.
Value dequantised(OpContext& op, Value x, size_t scale, size_t zero_point) {
  Builder& b = op.build();
  ir::QuantizeAttributes attributes;
  attributes.dtype = DType::f32;
  return ir::dequantize_linear(b, x, b.reshape(op.input(scale), {}), b.reshape(op.input(zero_point), {}), attributes);
}

// Inputs as EmbedLayerNormalization's: ids, segments, three tables, gamma, beta, mask; then five scales, five zero
// points.
void qembed_layer_norm(OpContext& op) {
  Normalisation n;
  n.axis = 2;
  n.epsilon = op.attribute_float("epsilon", 1e-12F);
  Builder& b = op.build();
  const Value words = op.input(0);
  op.check(b.rank(words) == 2, "input_ids must have rank 2, has ", b.rank(words));
  const Dims ids = b.shape(words);
  Value sum = dequantised(op, take_rows(b, op.input(2), words), 8, 13);
  const Value positions = dequantised(op, rows_from(b, op.input(3), 0, ids[1]), 9, 14);
  sum = b.add(sum, b.broadcast_to(positions, b.shape(sum)));
  if (op.has_input(1) && op.has_input(4))
    sum = b.add(sum, dequantised(op, take_rows(b, op.input(4), op.input(1)), 10, 15));
  const Value gamma = dequantised(op, op.input(5), 11, 16), beta = dequantised(op, op.input(6), 12, 17);
  op.output(0, normalise(b, n, sum, gamma, beta)[0]);
  if (!op.wants_output(1)) return;
  if (!op.has_input(7)) return op.output(1, b.splat(DType::i32, 0, {ids[0]}));
  const Value counted = b.compare(op.input(7), b.like(op.input(7), 0), CompareDirection::ne);
  op.output(1, b.reduce(b.convert(counted, DType::i32), ir::ReduceKind::add, {1}));
}

}  // namespace

void register_quantized_table(Registry& r) {
  r.add("GatherBlockQuantized", {1}, gather_block_quantized, kMicrosoft);
  r.add("QEmbedLayerNormalization", {1}, qembed_layer_norm, kMicrosoft);
}

}  // namespace transmuter::ops
