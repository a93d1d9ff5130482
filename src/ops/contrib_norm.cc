// com.microsoft normalisations with a residual, and the embeddings of BERT.
#include "ops/attention_parts.h"
#include "ops/norm.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// y = norm(x + skip + bias) * gamma + beta; outputs y, mean, inverse deviation, the sum. The sum is in f32 at least.
template <bool centred>
void skip_norm(OpContext& op) {
  Normalisation n;
  n.centred = centred;
  n.epsilon = op.attribute_float("epsilon", 1e-12F);
  require_float(op, 0);
  n.axis = op.rank(0) - 1;
  n.statistics = op.wants_output(1) || op.wants_output(2);
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = is_half(dtype) ? DType::f32 : dtype;
  const Dims shape = op.shape(0);
  const auto term = [&](size_t i) { return b.broadcast_to(b.convert(op.input(i), inner), shape); };
  Value sum = b.add(term(0), term(1));
  const size_t bias = centred ? 4 : 3;
  if (op.has_input(bias)) sum = b.add(sum, term(bias));
  const auto parameter = [&](size_t i) { return op.has_input(i) ? b.convert(op.input(i), inner) : Value(); };
  const std::vector<Value> results = normalise(b, n, sum, parameter(2), centred ? parameter(3) : Value());
  op.output(0, b.convert(results[0], dtype));
  if (op.wants_output(1)) {
    if (!centred) op.unsupported("output mean");
    op.output(1, b.convert(results[1], DType::f32));
  }
  if (op.wants_output(2)) op.output(2, b.convert(results[centred ? 2 : 1], DType::f32));
  if (op.wants_output(3)) op.output(3, b.convert(sum, dtype));
}

// Words, positions and segments looked up, added and normalised. Outputs: y, the number of words that the mask counts,
// the sum before the norm.
void embed_layer_norm(OpContext& op) {
  Normalisation n;
  n.axis = 2;
  n.epsilon = op.attribute_float("epsilon", 1e-12F);
  op.ignore_attributes({"mask_index_type"});  // the outputs say it
  Builder& b = op.build();
  const Value words = op.input(0);
  op.check(b.rank(words) == 2, "input_ids must have rank 2, has ", b.rank(words));
  const Dims ids = b.shape(words);
  Value sum = take_checked_rows(b, op.input(2), words);
  const Dims shape = b.shape(sum);
  const Value positions =
      op.has_input(8) ? take_checked_rows(b, op.input(3), op.input(8)) : rows_from(b, op.input(3), 0, ids[1]);
  sum = b.add(sum, b.broadcast_to(positions, shape));
  if (op.has_input(1) && op.has_input(4)) sum = b.add(sum, take_checked_rows(b, op.input(4), op.input(1)));
  op.output(0, normalise(b, n, sum, op.input(5), op.input(6))[0]);
  if (op.wants_output(1)) {
    if (op.has_input(7)) {
      const Value one = b.convert(b.compare(op.input(7), b.like(op.input(7), 0), ir::CompareDirection::ne), DType::i32);
      op.output(1, b.reduce(one, ir::ReduceKind::add, {1}));
    } else {
      op.output(1, b.splat(DType::i32, 0, {ids[0]}));
    }
  }
  if (op.wants_output(2)) op.output(2, sum);
}

}  // namespace

void register_contrib_norm(Registry& r) {
  r.add("SkipLayerNormalization", {1}, skip_norm<true>, kMicrosoft);
  r.add("SkipSimplifiedLayerNormalization", {1}, skip_norm<false>, kMicrosoft);
  r.add("EmbedLayerNormalization", {1}, embed_layer_norm, kMicrosoft);
}

}  // namespace transmuter::ops
