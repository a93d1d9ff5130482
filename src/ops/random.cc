// RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial.
#include "ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string_view>

#include "base/random_key.h"
#include "ir/composites/composites.h"
#include "onnx/tensor_proto.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Value;

Stream stream_of(OpContext& op, std::optional<uint64_t> seed) {
  return seed ? Stream{mixed(*seed), true} : Stream{mixed(op.node().number), false};
}

Value uniform_draws(OpContext& op, Dims shape, Stream stream) {
  ir::Builder& b = op.build();
  const Value bits = ir::random_bits(b, op.random_state(), std::move(shape), stream.key, stream.fixed);
  const Value high = b.convert(b.shift_right_logical(bits, b.like(bits, 8)), DType::f32);
  return b.multiply(high, b.like(high, 0x1p-24));
}

bool draws_numbers(const onnx::Node& node) {
  static constexpr std::array<std::string_view, 7> kNames{
      "RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial", "Dropout"};
  if (node.domain.empty() && std::find(kNames.begin(), kNames.end(), node.op_type) != kNames.end()) return true;
  const auto any = [](const onnx::Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), draws_numbers);
  };
  for (const onnx::Attribute& a : node.attributes) {
    if (a.graph && any(*a.graph)) return true;
    if (std::any_of(a.graphs.begin(), a.graphs.end(), [&](const auto& graph) { return any(*graph); })) return true;
  }
  return false;
}

namespace {

using ir::Builder;
using ir::CompareDirection;

Stream read_stream(OpContext& op) {
  if (!op.has_attribute("seed")) return stream_of(op, {});
  const float seed = op.attribute_float("seed");
  uint32_t bits;
  std::memcpy(&bits, &seed, sizeof bits);
  return stream_of(op, bits);
}

DType read_dtype(OpContext& op, DType otherwise) {
  const DType dtype =
      op.has_attribute("dtype") ? onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("dtype"))) : otherwise;
  return dtype;
}

// Box and Muller's.
Value normal(OpContext& op, const Dims& shape) {
  Builder& b = op.build();
  Dims both = shape;
  both.insert(both.begin(), 2);
  const Value pairs = uniform_draws(op, both, read_stream(op));
  const auto part = [&](int64_t i) { return b.squeeze(b.slice_axis(pairs, 0, i, i + 1), {0}); };
  const Value u = b.subtract(b.like(part(0), 1), part(0));  // (0, 1]
  const Value radius = b.sqrt(b.multiply(b.log(u), b.like(u, -2)));
  return b.multiply(radius, b.cosine(b.multiply(part(1), b.like(u, 2 * std::numbers::pi))));
}

void draw_uniform(OpContext& op, const Dims& shape, DType dtype) {
  op.check(is_float(dtype), "dtype must be floating point, is ", name(dtype));
  const float low = op.attribute_float("low", 0.0F), high = op.attribute_float("high", 1.0F);
  Builder& b = op.build();
  const Value u = uniform_draws(op, shape, read_stream(op));
  op.output(0, b.convert(b.add(b.multiply(u, b.like(u, high - low)), b.like(u, low)), dtype));
}

void draw_normal(OpContext& op, const Dims& shape, DType dtype) {
  op.check(is_float(dtype), "dtype must be floating point, is ", name(dtype));
  const float mean = op.attribute_float("mean", 0.0F), scale = op.attribute_float("scale", 1.0F);
  Builder& b = op.build();
  const Value z = normal(op, shape);
  op.output(0, b.convert(b.add(b.multiply(z, b.like(z, scale)), b.like(z, mean)), dtype));
}

Dims shape_attribute(OpContext& op) {
  const std::vector<int64_t> shape = op.attribute_ints_optional("shape").value_or(std::vector<int64_t>{});
  for (int64_t extent : shape) op.check(extent >= 0, "shape has ", extent);
  return Dims(shape.begin(), shape.end());
}

void random_uniform(OpContext& op) { draw_uniform(op, shape_attribute(op), read_dtype(op, DType::f32)); }
void random_normal(OpContext& op) { draw_normal(op, shape_attribute(op), read_dtype(op, DType::f32)); }
void random_uniform_like(OpContext& op) { draw_uniform(op, op.shape(0), read_dtype(op, op.dtype(0))); }
void random_normal_like(OpContext& op) { draw_normal(op, op.shape(0), read_dtype(op, op.dtype(0))); }

// 1 with the probability that the input gives.
void bernoulli(OpContext& op) {
  require_float(op, 0);
  const DType dtype = read_dtype(op, op.dtype(0));
  Builder& b = op.build();
  const Value p = b.convert(op.input(0), DType::f32);
  op.output(0, b.convert(b.compare(uniform_draws(op, b.shape(p), read_stream(op)), p, CompareDirection::lt), dtype));
}

// From unnormalised log probabilities [n, classes]: the class where the running sum passes a uniform draw.
void multinomial(OpContext& op) {
  const int64_t count = op.attribute_int("sample_size", 1);
  const DType dtype = read_dtype(op, DType::i32);
  op.check(count >= 0, "sample_size must not be negative, is ", count);
  op.check(dtype == DType::i32 || dtype == DType::i64, "dtype must be int32 or int64, is ", name(dtype));
  require_float(op, 0);
  op.check(op.rank(0) == 2, "the input must have rank 2, has ", op.rank(0));
  Builder& b = op.build();
  const Value p = ir::softmax(b, b.convert(op.input(0), DType::f32), 1);
  const Dim rows = b.shape(p)[0], classes = b.shape(p)[1];
  const Value sums = ir::cumulative(b, p, ir::ReduceKind::add, 1);
  const Dims shape{rows, count, classes};
  const Value draws = b.broadcast_in_dim(uniform_draws(op, {rows, count}, read_stream(op)), shape, {0, 1});
  const Value passed = b.compare(b.broadcast_in_dim(sums, shape, {0, 2}), draws, CompareDirection::le);
  const Value chosen = b.reduce(b.convert(passed, DType::i64), ir::ReduceKind::add, {2});
  const Value last = b.broadcast_to(b.dim_value(classes - 1, DType::i64), b.shape(chosen));
  op.output(0, b.convert(b.minimum(chosen, last), dtype));
}

}  // namespace

void register_random(Registry& r) {
  r.add("RandomUniform", {1, 22}, random_uniform);
  r.add("RandomNormal", {1, 22}, random_normal);
  r.add("RandomUniformLike", {1, 22}, random_uniform_like);
  r.add("RandomNormalLike", {1, 22}, random_normal_like);
  r.add("Bernoulli", {15, 22}, bernoulli);
  r.add("Multinomial", {7, 22}, multinomial);
}

}  // namespace transmuter::ops
