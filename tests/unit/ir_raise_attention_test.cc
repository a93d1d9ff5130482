// Raising attention and rotary embeddings.
#include "raise_testing.h"

namespace transmuter::ir {
namespace {

// ---- attention

// All axes but the last two.
std::vector<int64_t> outer_axes(Builder& b, Value x) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis + 2 < b.rank(x); ++axis) axes.push_back(axis);
  return axes;
}
// [b, h, s, t] = q k^T over [b, h, s, d] and [b, h, t, d].
Value scores_of(Builder& b, Value q, Value k) {
  const int64_t last = b.rank(q) - 1;
  return contract(b, q, k, outer_axes(b, q), last, last);
}
Value product_of(Builder& b, Value w, Value v) {
  const int64_t last = b.rank(w) - 1;
  return contract(b, w, v, outer_axes(b, w), last, last - 1);
}
Value attend(Builder& b, Value scores, Value v) { return product_of(b, softmax(b, scores, b.rank(scores) - 1), v); }
// Query i sees keys up to i + 1; query 0 sees none if `empty`.
Value visible(Builder& b, int64_t queries, int64_t keys, bool empty = false) {
  std::vector<double> keep;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) keep.push_back(j <= i + 1 && !(empty && i == 0));
  return b.constant(make(DType::boolean, keep, {1, 1, queries, keys}));
}
Value where(Builder& b, Value keep, Value x, double fill) { return b.select(spread(b, keep, x), x, b.like(x, fill)); }
constexpr double kInf = std::numeric_limits<double>::infinity();

// q [2, 4, 3, 8], k and v [2, 4, 5, 8], mask [2, 1, 3, 5], kv of two heads [2, 2, 5, 8], q and kv of [8, ...]
const std::vector<Shape> kAttention{{2, 4, 3, 8}, {2, 4, 5, 8}, {2, 4, 5, 8}, {2, 1, 3, 5}, {2, 2, 5, 8}, {2, 3, 32}};

TEST(Raise, Attention) {
  check(kAttention,
        {{"plain", "attention", [](Builder& b, Values v) { return attend(b, scores_of(b, v[0], v[1]), v[2]); }},
         {"k transposed, scaled, masked", "attention",
          [](Builder& b, Values v) {
            const Value s = contract(b, v[0], b.transpose(v[1], {0, 1, 3, 2}), {0, 1}, 3, 2);
            return attend(b, b.add(b.divide(s, b.like(s, std::sqrt(8.0))), spread(b, v[3], s)), v[2]);
          }},
         {"the root of the scale on both sides, heads behind the sequence", "attention",
          [](Builder& b, Values v) {
            const auto heads = [&](Value x) {
              return times(b, b.transpose(b.transpose(x, {0, 2, 1, 3}), {0, 2, 1, 3}), 0.6);
            };
            return attend(b, scores_of(b, heads(v[0]), heads(v[1])), v[2]);
          }},
         {"merged batch and heads, the scale on the hidden states, the mask over four axes", "attention",
          [](Builder& b, Values v) {
            const Value q =
                b.reshape(b.transpose(b.reshape(times(b, v[5], 0.35), {2, 3, 4, 8}), {0, 2, 1, 3}), {8, 3, 8});
            const Value s = scores_of(b, q, b.reshape(v[1], {8, 5, 8}));
            const Value four = b.reshape(s, {2, 4, 3, 5});
            const Value masked = b.reshape(b.add(four, spread(b, v[3], four)), {8, 3, 5});
            return attend(b, masked, b.reshape(v[2], {8, 5, 8}));
          }},
         {"one head", "attention",
          [](Builder& b, Values v) {
            const Value k = b.reshape(v[1], {8, 5, 8});
            return attend(b, scores_of(b, b.reshape(v[0], {8, 3, 8}), k), k);
          }},
         {"two masks added, a factor between them", "attention",
          [](Builder& b, Values v) {
            const Value s = scores_of(b, v[0], v[1]), bias = spread(b, b.tanh(v[3]), s);
            return attend(b, b.add(spread(b, v[3], s), times(b, b.add(s, bias), 0.5)), v[2]);
          }},
         {"softcap", "attention",
          [](Builder& b, Values v) {
            const Value s = times(b, scores_of(b, v[0], v[1]), 0.25);
            const Value capped = times(b, b.tanh(b.divide(s, b.like(s, 5))), 5);
            return attend(b, b.add(capped, spread(b, v[3], s)), v[2]);
          }},
         {"grouped heads", "attention",
          [](Builder& b, Values v) {
            const Value wide = b.broadcast_in_dim(v[4], {2, 2, 2, 5, 8}, {0, 1, 3, 4});
            const Value kv = b.reshape(wide, {2, 4, 5, 8});
            return attend(b, times(b, scores_of(b, times(b, v[0], 0.5), times(b, kv, 0.5)), 0.5), kv);
          }},
         {"one kv head", "attention",
          [](Builder& b, Values v) {
            const Value kv = b.reshape(b.slice_axis(v[4], 1, 0, 1), {2, 5, 8});
            const Value w = softmax(b, contract(b, v[0], kv, {0}, 3, 2), 3);
            return contract(b, w, kv, {0}, 3, 1);
          }},
         {"selected, minus infinity", "attention",
          [](Builder& b, Values v) {
            return attend(b, where(b, visible(b, 3, 5), scores_of(b, v[0], v[1]), -kInf), v[2]);
          }},
         {"rows without a key that get the lowest number are means", "attention",
          [](Builder& b, Values v) {
            return attend(b, where(b, visible(b, 3, 5, true), scores_of(b, v[0], v[1]), -3.4e38), v[2]);
          }},
         {"a mask selected and one added", "attention",
          [](Builder& b, Values v) {
            const Value s = where(b, visible(b, 3, 5), scores_of(b, v[0], v[1]), -kInf);
            return attend(b, b.add(s, spread(b, v[3], s)), v[2]);
          }},
         {"NaN made 0", "attention",
          [](Builder& b, Values v) {
            const Value w = softmax(b, where(b, visible(b, 3, 5, true), scores_of(b, v[0], v[1]), -kInf), 3);
            return product_of(b, b.select(b.compare(w, w, CompareDirection::ne), b.like(w, 0), w), v[2]);
          }},
         {"weights made 0 by the same mask", "attention", [](Builder& b, Values v) {
            const Value keep = spread(b, visible(b, 3, 5, true), scores_of(b, v[0], v[1]));
            const Value s = scores_of(b, v[0], v[1]);
            const Value w = softmax(b, b.select(keep, s, b.like(s, -3.4e38)), 3);
            return product_of(b, b.select(keep, w, b.like(w, 0)), v[2]);
          }}});
}

TEST(Raise, AttentionInOtherShapes) {
  check(kAttention,
        {{"three batch axes, a mask for some of them", "attention",
          [](Builder& b, Values v) {
            const auto five = [&](Value x) { return b.reshape(x, {2, 2, 2, b.shape(x)[2], 8}); };
            const Value s = scores_of(b, five(v[0]), five(v[1]));
            const Value mask = b.broadcast_in_dim(v[3], {2, 2, 2, 3, 5}, {0, 1, 3, 4});
            return attend(b, b.add(s, mask), five(v[2]));
          }},
         {"windows: the batch parted for the mask", "attention",
          [](Builder& b, Values v) {
            const auto windows = [&](Value x) { return b.reshape(x, {4, 2, b.shape(x)[2], 8}); };
            const Value s = b.reshape(scores_of(b, windows(v[0]), windows(v[1])), {2, 2, 2, 3, 5});
            const Value mask = b.broadcast_in_dim(b.reshape(v[3], {2, 3, 5}), {2, 2, 2, 3, 5}, {1, 3, 4});
            return attend(b, b.reshape(b.add(s, mask), {4, 2, 3, 5}), windows(v[2]));
          }},
         {"a bias over the last axes, parted", "attention",
          [](Builder& b, Values v) {
            const Value s = scores_of(b, v[0], v[0]);  // [2, 4, 3, 3]
            const Value parted = b.reshape(s, {2, 4, 3, 3, 1});
            const Value bias = b.broadcast_in_dim(b.reduce(v[0], kAdd, {3}), b.shape(parted), {0, 1, 2});
            return attend(b, b.reshape(b.add(parted, bias), {8, 3, 3}), b.reshape(v[0], {8, 3, 8}));
          }},
         {"a factor for each head", "attention",
          [](Builder& b, Values v) {
            const Value s = scores_of(b, v[0], v[1]);
            const Value factor = b.broadcast_in_dim(b.exponential(b.reduce(v[4], kAdd, {1, 2, 3})), b.shape(s), {0});
            return attend(b, b.add(b.multiply(s, factor), spread(b, v[3], s)), v[2]);
          }},
         {"shifted by the maximum, scaled back", "attention",
          [](Builder& b, Values v) {
            const Value s = times(b, scores_of(b, v[0], v[1]), 0.125);
            const Value shifted = b.subtract(s, spread(b, b.reduce_keep(s, ReduceKind::max, {3}), s));
            return attend(b, times(b, shifted, 8), v[2]);
          }},
         {"a floor above an infinite mask: means", "attention",
          [](Builder& b, Values v) {
            const Value s = where(b, visible(b, 3, 5, true), scores_of(b, v[0], v[1]), -kInf);
            return attend(b, b.maximum(b.add(s, spread(b, v[3], s)), b.like(s, -3.4e38)), v[2]);
          }},
         {"a sink", "attention", [](Builder& b, Values v) {
            const Value s = scores_of(b, v[0], v[1]);
            const Value sink = b.broadcast_in_dim(b.constant(make(DType::f32, {1, 2, -1, 0})), {2, 4, 3, 1}, {1});
            const Value both = b.concatenate({s, sink}, 3);
            const Value shifted = b.subtract(both, spread(b, b.reduce_keep(both, ReduceKind::max, {3}), both));
            return product_of(b, b.slice_axis(softmax(b, shifted, 3), 3, 0, 5), v[2]);
          }}});
}

TEST(Raise, AttentionStaysWhereItWouldDiffer) {
  check(kAttention,
        {{"a fill that scores can still be told apart on", "softmax",
          [](Builder& b, Values v) {
            return attend(b, where(b, visible(b, 3, 5, true), scores_of(b, v[0], v[1]), -1e4), v[2]);
          }},
         {"weights that are read elsewhere", "softmax",
          [](Builder& b, Values v) {
            const Value w = softmax(b, scores_of(b, v[0], v[1]), 3);
            return b.add(product_of(b, w, v[2]), spread(b, b.reduce_keep(w, kAdd, {3}), v[0]));
          }},
         {"a sink that differs by query", "softmax",
          [](Builder& b, Values v) {
            const Value both = b.concatenate({scores_of(b, v[0], v[1]), b.reduce_keep(v[0], kAdd, {3})}, 3);
            return product_of(b, b.slice_axis(softmax(b, both, 3), 3, 0, 5), v[2]);
          }},
         {"another axis", "softmax",
          [](Builder& b, Values v) { return product_of(b, softmax(b, scores_of(b, v[0], v[1]), 2), v[2]); }},
         {"a mask under the cap", "softmax",
          [](Builder& b, Values v) {
            const Value s = scores_of(b, v[0], v[1]);
            return attend(b, b.tanh(b.add(s, spread(b, v[3], s))), v[2]);
          }},
         {"weights made 0 by another mask", "softmax", [](Builder& b, Values v) {
            const Value w = softmax(b, where(b, visible(b, 3, 5, true), scores_of(b, v[0], v[1]), -3.4e38), 3);
            return product_of(b, where(b, visible(b, 3, 5), w, 0), v[2]);
          }}});
}

TEST(Raise, AttentionKeepsNanRows) {
  Builder b(nullptr);
  const Value q = b.input({DType::f32, {1, 1, 2, 4}}, "q"), k = b.input({DType::f32, {1, 1, 3, 4}}, "k");
  const Value keep = visible(b, 2, 3, true);
  const Program before = b.finish({attend(b, where(b, keep, scores_of(b, q, k), -kInf), k)});
  const Program after = raised(before);
  EXPECT_EQ(composites(after), "attention");
  const std::vector<double> y =
      numbers(evaluate(after, std::vector{random({1, 1, 2, 4}, 1), random({1, 1, 3, 4}, 2)})[0]);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(y[i]));
  for (size_t i = 4; i < 8; ++i) EXPECT_FALSE(std::isnan(y[i]));
}

// Query heads in groups: kv heads repeated by Expand alone, after an Unsqueeze, or the only one without a reshape.
class AttentionOfSymbolicExtents : public testing::TestWithParam<int> {};

TEST_P(AttentionOfSymbolicExtents, TakesKvHeadsOnce) {
  auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  const Dim batch = scope->input_extent(0, 0, 2, "batch"), s = scope->input_extent(0, 1, 3, "s");
  const Dim t = scope->input_extent(1, 1, 5, "t");
  Builder b(scope);
  const auto heads = [&](Value x, int64_t count) {
    return b.transpose(b.reshape(x, {b.shape(x)[0], b.shape(x)[1], count, 8}), {0, 2, 1, 3});
  };
  const bool one = GetParam() == 2;
  const Value q = heads(b.input({DType::f32, {batch, s, 32}}, "q"), 4);
  const Value kv = heads(b.input({DType::f32, {batch, t, one ? 8 : 16}}, "kv"), one ? 1 : 2);
  const Value mask = b.input({DType::f32, {batch, 1, 1, t}}, "mask");
  const Dims split{batch, 2, 2, t, 8}, joined{batch, 4, t, 8};
  const Value wide = one ? b.broadcast_in_dim(kv, joined, {0, 1, 2, 3})
                     : GetParam() == 1
                         ? b.reshape(b.broadcast_in_dim(b.expand_dims(kv, {2}), split, {0, 1, 2, 3, 4}), joined)
                         : b.reshape(b.broadcast_in_dim(kv, split, {0, 1, 3, 4}), joined);
  const Value scores = scores_of(b, q, wide);
  const Program before = b.finish({attend(b, b.add(scores, spread(b, mask, scores)), wide)});
  const size_t guards = scope->guards().size(), assertions = scope->assertions().size();
  const Program after = raised(before);
  EXPECT_EQ(composites(after), "attention");
  for (const Op& op : after.ops()) EXPECT_NE(op.primitive, &prim::broadcast_in_dim);
  EXPECT_EQ(scope->guards().size(), guards);
  EXPECT_EQ(scope->assertions().size(), assertions);
}

INSTANTIATE_TEST_SUITE_P(Raise, AttentionOfSymbolicExtents, testing::Values(0, 1, 2));

// ---- rotary embeddings

// x [2, 4, 3, 8]; angles [2, 3, 4]; x by sequence [2, 3, 4, 8]; [3, 4, 8]; angles of the sequence [3, 4]
const std::vector<Shape> kRotary{{2, 4, 3, 8}, {2, 3, 4}, {2, 3, 4, 8}, {3, 4, 8}, {3, 4}};
Value half(Builder& b, Value x, int64_t which) {
  const int64_t last = b.rank(x) - 1;
  const Dim width = floor_div(b.shape(x).back(), 2);
  return b.slice_axis(x, last, width * which, width * (which + 1));
}
Value turn(Builder& b, Value x) { return b.concatenate({b.negate(half(b, x, 1)), half(b, x, 0)}, b.rank(x) - 1); }
Value turn_pairs(Builder& b, Value x) {
  const int64_t last = b.rank(x) - 1;
  const Value even = b.slice_axis(x, last, 0, b.shape(x).back(), 2),
              odd = b.slice_axis(x, last, 1, b.shape(x).back(), 2);
  const Value pairs =
      b.concatenate({b.expand_dims(b.negate(odd), {last + 1}), b.expand_dims(even, {last + 1})}, last + 1);
  return b.reshape(pairs, b.shape(x));
}
Value twice(Builder& b, Value angles) { return b.concatenate({angles, angles}, b.rank(angles) - 1); }
Value pairs(Builder& b, Value angles) {  // each angle and itself again
  Dims wide = b.shape(angles), flat = wide;
  wide.push_back(2);
  flat.back() = flat.back() * 2;
  std::vector<int64_t> dimensions;
  for (int64_t i = 0; i < b.rank(angles); ++i) dimensions.push_back(i);
  return b.reshape(b.broadcast_in_dim(angles, wide, dimensions), flat);
}
// x cos + turned sin, the angles along these axes of x.
Value rotate(Builder& b, Value x, Value turned, Value cos, Value sin, const std::vector<int64_t>& axes) {
  return b.add(b.multiply(x, b.broadcast_in_dim(cos, b.shape(x), axes)),
               b.multiply(turned, b.broadcast_in_dim(sin, b.shape(x), axes)));
}
// Both halves of x [b, h, s, d], and cos and sin of the angles [b, s, d / 2] for each of them.
struct Halves {
  Value first, second, cos, sin;
};
Halves halves(Builder& b, Value x, Value angles) {
  const Value first = half(b, x, 0);
  const auto wide = [&](Value of) { return b.broadcast_in_dim(of, b.shape(first), {0, 2, 3}); };
  return {first, half(b, x, 1), wide(b.cosine(angles)), wide(b.sine(angles))};
}

TEST(Raise, RotaryEmbedding) {
  check(kRotary,
        {{"as Llama is exported, cos scaled", "rotary_embedding",
          [](Builder& b, Values v) {
            const Value a = twice(b, v[1]);
            return rotate(b, v[0], turn(b, v[0]), times(b, b.cosine(a), 1.5), b.sine(a), {0, 2, 3});
          }},
         {"the sequence before the heads", "rotary_embedding",
          [](Builder& b, Values v) {
            const Value a = twice(b, v[1]);
            return rotate(b, v[2], turn(b, v[2]), b.cosine(a), b.sine(a), {0, 1, 3});
          }},
         {"without a batch", "rotary_embedding",
          [](Builder& b, Values v) {
            const Value a = twice(b, v[4]);
            return rotate(b, v[3], turn(b, v[3]), b.cosine(a), b.sine(a), {0, 2});
          }},
         {"one sequence of angles for all, minus one multiplied", "rotary_embedding",
          [](Builder& b, Values v) {
            const Value a = twice(b, v[4]);
            const Value turned = b.concatenate({times(b, half(b, v[0], 1), -1), half(b, v[0], 0)}, 3);
            return rotate(b, v[0], turned, b.cosine(a), b.sine(a), {2, 3});
          }},
         {"interleaved", "rotary_embedding",
          [](Builder& b, Values v) {
            const Value a = pairs(b, v[1]);
            return rotate(b, v[2], turn_pairs(b, v[2]), b.cosine(a), b.sine(a), {0, 1, 3});
          }},
         {"rows of a table", "rotary_embedding",
          [](Builder& b, Values v) {
            std::vector<double> table;
            for (int i = 0; i < 5; ++i)
              for (int j = 0; j < 8; ++j) table.push_back(std::cos(i * std::pow(10, -(j % 4))));
            GatherAttributes g;
            g.offset_dims = {1};
            g.collapsed_slice_dims = {0};
            g.start_index_map = {0};
            g.index_vector_dim = 1;
            g.slice_sizes = {1, 8};
            const Value rows = b.gather(b.weight(make(DType::f32, table, {5, 8}), "table"),
                                        b.constant(Tensor(std::vector<int64_t>{2, 0, 4}, {3})), g);
            return rotate(b, v[0], turn(b, v[0]), rows, rows, {2, 3});
          }},
         {"a part of each head", "rotary_embedding",
          [](Builder& b, Values v) {
            const Value a = b.slice_axis(twice(b, b.slice_axis(v[1], 2, 0, 2)), 2, 0, 4);
            const Value x = b.slice_axis(v[0], 3, 0, 4);
            return b.concatenate(
                {rotate(b, x, turn(b, x), b.cosine(a), b.sine(a), {0, 2, 3}), b.slice_axis(v[0], 3, 4, 8)}, 3);
          }},
         {"the halves by themselves", "rotary_embedding",
          [](Builder& b, Values v) {
            const auto [p, q, c, s] = halves(b, v[0], v[1]);
            return b.concatenate(
                {b.subtract(b.multiply(p, c), b.multiply(q, s)), b.add(b.multiply(p, s), b.multiply(c, q))}, 3);
          }},
         {"the halves by themselves, turned the other way", "",
          [](Builder& b, Values v) {
            const auto [p, q, c, s] = halves(b, v[0], v[1]);
            return b.concatenate(
                {b.subtract(b.multiply(q, c), b.multiply(p, s)), b.add(b.multiply(q, s), b.multiply(c, p))}, 3);
          }},
         {"angles that do not repeat", "",
          [](Builder& b, Values v) {
            const Value a = b.concatenate({v[1], b.tanh(v[1])}, 2);
            return rotate(b, v[0], turn(b, v[0]), b.cosine(a), b.sine(a), {0, 2, 3});
          }},
         {"pairs turned, halves repeated", "",
          [](Builder& b, Values v) {
            const Value a = twice(b, v[1]);
            return rotate(b, v[0], turn_pairs(b, v[0]), b.cosine(a), b.sine(a), {0, 2, 3});
          }},
         {"the first half negated", "",
          [](Builder& b, Values v) {
            const Value a = twice(b, v[1]);
            const Value turned = b.concatenate({half(b, v[0], 1), b.negate(half(b, v[0], 0))}, 3);
            return rotate(b, v[0], turned, b.cosine(a), b.sine(a), {0, 2, 3});
          }},
         {"angles by head too", "", [](Builder& b, Values v) {
            const Value a = twice(b, half(b, v[0], 0));
            return rotate(b, v[0], turn(b, v[0]), b.cosine(a), b.sine(a), {0, 1, 2, 3});
          }}});
}

}  // namespace
}  // namespace transmuter::ir
