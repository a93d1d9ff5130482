// com.microsoft products with weights of a few bits: MatMulNBits, MatMulBnb4.
#include "ops/nbits.h"

#include <algorithm>

#include "ir/composites/composites.h"
#include "ir/composites/table_dot.h"
#include "ops/attention_parts.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

DType packed_dtype(int64_t bits) { return bits == 2 ? DType::u2 : bits == 4 ? DType::u4 : DType::u8; }

// The bytes of a constant from `offset` on as elements of the narrow type; invalid where it is none.
Value constant_view(OpContext& op, size_t i, int64_t bits, const Dims& shape, int64_t offset) {
  const Tensor* constant = op.constant(i);
  if (!constant || !product(shape).is_constant()) return {};
  Traced view;
  view.name = str(op.traced(i)->name, "/", name(packed_dtype(bits)));
  if (offset != 0) view.name += str("@", offset);
  view.constant =
      Tensor::view(packed_dtype(bits), hints(shape), constant->bytes() + offset, std::make_shared<Tensor>(*constant));
  view.type = {packed_dtype(bits), shape};
  return op.value_of(view);
}

}  // namespace

Value unpack_bits(OpContext& op, size_t i, int64_t bits, const Dims& shape) {
  Builder& b = op.build();
  op.check(op.dtype(i) == DType::u8, "input ", i, " must be uint8, is ", name(op.dtype(i)));
  if (bits == 8) return b.reshape(op.input(i), shape);
  const Dim elements = product(op.shape(i)) * Dim(8 / bits);
  require_eq(elements, product(shape), str(op.node().op_type, ": packed elements"));
  if (const Value view = constant_view(op, i, bits, shape, 0)) return view;
  return unpack_bytes(b, op.input(i), bits, shape);
}

Value unpack_bits_of(OpContext& op, size_t i, int64_t bits, int64_t first, const Dims& shape) {
  Builder& b = op.build();
  op.check(op.dtype(i) == DType::u8, "input ", i, " must be uint8, is ", name(op.dtype(i)));
  const Dims own = op.shape(i);
  op.check(!own.empty(), "input ", i, " must have an axis of matrices");
  require(less(first, own[0]), str(op.node().op_type, ": the matrices of input ", i, " are fewer than are read"));
  const Dim bytes = product(Dims(own.begin() + 1, own.end()));
  require_eq(bytes * Dim(8 / bits), product(shape), str(op.node().op_type, ": packed elements"));
  if (bytes.is_constant())
    if (const Value view = constant_view(op, i, bits, shape, first * bytes.hint())) return view;
  return unpack_bytes(b, b.slice_axis(op.input(i), 0, first, first + 1), bits, shape);
}

Value unpack_bytes(Builder& b, Value bytes, int64_t bits, const Dims& shape) {
  if (bits == 8) return b.reshape(bytes, shape);
  bytes = b.reshape(bytes, {product(b.shape(bytes)), 1});
  const auto word = [&](int64_t value) { return b.broadcast_to(b.integer(DType::u8, value), b.shape(bytes)); };
  std::vector<Value> parts;
  for (int64_t at = 0; at < 8; at += bits) {
    const Value shifted = at == 0 ? bytes : b.shift_right_logical(bytes, word(at));
    parts.push_back(b.logical_and(shifted, word((1 << bits) - 1)));
  }
  return b.reshape(b.concatenate(std::move(parts), 1), shape);
}

namespace {

// The block of each position along k, when it is not simply position / block: with a shuffled g_idx.
bool in_order(const Tensor* group_index, int64_t block) {
  if (!group_index) return false;
  const std::vector<int64_t> values = group_index->aligned().cast(DType::i64).to_vector<int64_t>();
  for (size_t k = 0; k < values.size(); ++k)
    if (values[k] != static_cast<int64_t>(k) / block) return false;
  return true;
}

// a [..., k] times the transpose of w [n, k], in f32 inside for the half types.
Value times_transpose(Builder& b, Value a, Value w) {
  ir::DotGeneralAttributes dot;
  dot.dtype = b.dtype(a);
  dot.lhs_contracting = {b.rank(a) - 1};
  dot.rhs_contracting = {1};
  return b.dot_general(a, w, std::move(dot));
}

void check_scales(OpContext& op, Dim count) {
  op.check(op.has_input(2), "the scales (input 2) are missing");
  op.check(is_float(op.dtype(2)), "the scales (input 2) must be floats, are ", name(op.dtype(2)));
  require_eq(product(op.shape(2)), count, str(op.node().op_type, ": scales (input 2) and blocks"));
}

void matmul_nbits(OpContext& op) {
  const int64_t k = op.attribute_int("K"), n = op.attribute_int("N"), block = op.attribute_int("block_size");
  const int64_t bits = op.attribute_int("bits", 4);
  const int64_t accuracy = op.attribute_int("accuracy_level", 0);  // how coarsely A may be rounded: 4 is to eight bits
  if (op.attribute_int("weight_prepacked", 0) != 0) op.unsupported("weight_prepacked");
  if (bits != 2 && bits != 4 && bits != 8) op.unsupported("bits ", bits);
  op.check(k > 0 && n > 0 && block > 0, "K, N and block_size must be positive");
  op.check(block % (8 / bits) == 0, "a block must be whole bytes");
  require_float(op, 0);
  Builder& b = op.build();
  const Value a = op.input(0);
  const int64_t blocks = (k - 1) / block + 1;
  const Dim padded = Dim(blocks) * Dim(block);
  Value weight = unpack_bits(op, 1, bits, {n, padded});
  if (padded.hint() != k) weight = b.slice_axis(weight, 1, 0, k);
  check_scales(op, Dim(n) * Dim(blocks));
  const Value scales = b.reshape(op.input(2), {n, blocks});
  Value zeros;
  if (op.has_input(3)) {
    if (op.dtype(3) == DType::u8) {
      const int64_t row = (blocks * bits + 7) / 8 * 8 / bits;
      zeros = unpack_bits(op, 3, bits, {n, row});
      if (row != blocks) zeros = b.slice_axis(zeros, 1, 0, blocks);
    } else {
      zeros = b.reshape(op.input(3), {n, blocks});
    }
  }
  const double middle = static_cast<double>(int64_t{1} << (bits - 1));
  Value y;
  if (op.has_input(4) && !in_order(op.constant(4), block)) {
    const Value columns = op.input(4);
    const auto by_column = [&](Value parameter) {
      const Value wide = b.convert(parameter, DType::f32);
      return b.transpose(take_rows(b, b.transpose(wide, {1, 0}), columns), {1, 0});
    };
    const Value wide = b.convert(weight, DType::f32);
    const Value centred = b.subtract(wide, zeros ? by_column(zeros) : b.like(wide, middle));
    y = times_transpose(b, a, b.multiply(centred, by_column(scales)));
  } else {
    ir::QuantizedDotAttributes attributes;
    attributes.block = block;
    attributes.zero_point = middle;
    attributes.may_round = accuracy == 4;
    y = ir::quantized_dot(b, a, weight, scales, zeros, std::move(attributes));
  }
  if (op.has_input(5)) y = b.add(y, b.broadcast_to(op.input(5), b.shape(y)));
  op.output(0, y);
}

// The sixteen values of bitsandbytes' two types, by code.
std::vector<float> bnb_values(bool nf4) {
  if (!nf4)
    return {0,     0.005208333333F,  0.66666667F,  1,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
            -0.0F, -0.005208333333F, -0.66666667F, -1, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
  return {-1,
          -0.6961928009986877F,
          -0.5250730514526367F,
          -0.39491748809814453F,
          -0.28444138169288635F,
          -0.18477343022823334F,
          -0.09105003625154495F,
          0,
          0.07958029955625534F,
          0.16093020141124725F,
          0.24611230194568634F,
          0.33791524171829224F,
          0.44070982933044434F,
          0.5626170039176941F,
          0.7229568362236023F,
          1};
}

// Codes are packed high half first; one scale for each block of the flattened weight [n, k].
void matmul_bnb4(OpContext& op) {
  const int64_t k = op.attribute_int("K"), n = op.attribute_int("N");
  int64_t block = op.attribute_int("block_size");
  const int64_t kind = op.attribute_int("quant_type");
  const bool transposed = op.attribute_int("transB", 1) != 0;
  op.ignore_attributes({"training_mode"});  // the product is the same
  op.check(kind == 0 || kind == 1, "quant_type must be 0 or 1, is ", kind);
  op.check(k > 0 && n > 0 && block > 0, "K, N and block_size must be positive");
  require_float(op, 0);
  Builder& b = op.build();
  const int64_t count = (Dim(n) * Dim(k)).hint(), bytes = count - count / 2;
  block = std::min(block, count);
  const int64_t blocks = (count - 1) / block + 1;
  check_scales(op, blocks);
  const Value table = b.constant(Tensor(bnb_values(kind == 1), {16}));
  op.check(op.dtype(1) == DType::u8, "the codes (input 1) must be uint8, are ", name(op.dtype(1)));
  require_eq(product(op.shape(1)), bytes, "MatMulBnb4: codes (input 1)");
  if (transposed && k % 2 == 0 && k % block == 0) {  // the blocks are those of rows
    if (const Value codes = constant_view(op, 1, 4, {n, k}, 0)) {
      ir::TableDotAttributes attributes;
      attributes.block = block;
      attributes.swapped = true;
      const Value scales = b.reshape(op.input(2), {n, k / block});
      return op.output(0, ir::table_dot(b, op.input(0), codes, scales, table, std::move(attributes)));
    }
  }
  const Value packed = b.reshape(op.input(1), {bytes, 1});
  const auto word = [&](int64_t value) { return b.broadcast_to(b.integer(DType::u8, value), b.shape(packed)); };
  const Value high = b.shift_right_logical(packed, word(4)), low = b.logical_and(packed, word(15));
  Value codes = b.reshape(b.concatenate({high, low}, 1), {bytes * 2});
  if (bytes * 2 != count) codes = b.slice_axis(codes, 0, 0, count);
  const Value values = take_rows(b, table, b.convert(codes, DType::i32));
  const Value scales = b.reshape(b.convert(op.input(2), DType::f32), {blocks});
  Value repeated = b.reshape(b.broadcast_in_dim(scales, {blocks, block}, {0}), {blocks * block});
  if (blocks * block != count) repeated = b.slice_axis(repeated, 0, 0, count);
  const Value weight = b.reshape(b.multiply(values, repeated), {n, k});
  op.output(0, times_transpose(b, op.input(0), transposed ? weight : b.transpose(weight, {1, 0})));
}

}  // namespace

void register_nbits(Registry& r) {
  r.add("MatMulNBits", {1}, matmul_nbits, kMicrosoft);
  r.add("MatMulBnb4", {1}, matmul_bnb4, kMicrosoft);
}

}  // namespace transmuter::ops
