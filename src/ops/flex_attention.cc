// FlexAttention of ai.onnx.preview: attention whose scores and weights pass through subgraphs of the model.
#include "onnx/tensor_proto.h"
#include "ops/attention_parts.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// The subgraph of that attribute applied to a value of this segment; the value itself without one.
Value modified(OpContext& op, const char* name, Value x) {
  if (!op.has_attribute(name)) return x;
  Builder& b = op.build();
  auto given = std::make_shared<Traced>();
  given->value = x;
  given->type = b.type(x);
  given->segment = op.traced(0)->segment;
  const std::vector<TracedPtr> results = op.inline_graph(op.attribute_graph(name), {given});
  op.check(results.size() == 1, name, " must give one output, gives ", results.size());
  const Value y = op.value_of(*results[0]);
  op.check(b.dtype(y) == b.dtype(x) && b.rank(y) == b.rank(x), name, " must keep the type of its input");
  return y;
}

DType softmax_dtype(OpContext& op) {
  if (op.has_attribute("softmax_precision"))
    return onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("softmax_precision")));
  return op.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
}

// q [b, hq, l, e], k [b, hkv, s, e], v [b, hkv, s, ev]; query head h reads kv head h / (hq / hkv).
void flex_attention(OpContext& op) {
  for (size_t i = 0; i < 3; ++i) {
    require_float(op, i);
    op.check(op.rank(i) == 4, "Q, K and V must have rank 4");
  }
  Builder& b = op.build();
  const Value q = op.input(0), k = op.input(1), v = op.input(2);
  const Dims qs = b.shape(q), ks = b.shape(k), vs = b.shape(v);
  const DType dtype = softmax_dtype(op);
  const Real scale = op.has_attribute("scale") ? Real(op.attribute_float("scale")) : inverse_root(qs[3]);
  if (!op.has_attribute("score_mod") && !op.has_attribute("prob_mod")) {
    ir::AttentionAttributes attributes;
    attributes.scale = scale;
    return op.output(0, ir::attention(b, q, k, v, {}, attributes)[0]);
  }
  require(less(0, ks[1]), "FlexAttention: K needs heads");
  require(equal(mod(qs[1], ks[1]), 0), "FlexAttention: heads of Q divide by those of K");
  // The query heads of one kv head are further rows of the same product.
  const Dim rows = floor_div(qs[1], ks[1]) * qs[2];
  const Dims scores{qs[0], qs[1], qs[2], ks[2]};
  ir::DotGeneralAttributes dot;
  dot.dtype = dtype;
  dot.lhs_batching = dot.rhs_batching = {0, 1};
  dot.lhs_contracting = dot.rhs_contracting = {3};
  Value x = b.reshape(b.dot_general(b.reshape(q, {qs[0], ks[1], rows, qs[3]}), k, dot), scores);
  x = b.multiply(x, b.broadcast_in_dim(b.real_value(scale, dtype), scores, {}));
  const Value weights = modified(op, "prob_mod", ir::softmax(b, modified(op, "score_mod", x), 3));
  dot.rhs_contracting = {2};
  const Value y = b.dot_general(b.reshape(weights, {qs[0], ks[1], rows, ks[2]}), v, dot);
  op.output(0, b.convert(b.reshape(y, {qs[0], qs[1], qs[2], vs[3]}), op.dtype(2)));
}

}  // namespace

void register_flex_attention(Registry& r) { r.add("FlexAttention", {1}, flex_attention, "ai.onnx.preview"); }

}  // namespace transmuter::ops
