// What attention is recognised by: from a product with v up to the softmax, and from there down to the product of q and
// k. All values are of the program that is looked at.
#pragma once

#include <limits>

#include "ir/passes/match.h"

namespace transmuter::ir {

inline constexpr double kLost = -1e30;  // a score added to it is lost
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A mask on the way from the softmax down to the product, as a value over the scores.
struct Mask {
  enum class Kind : uint8_t { added, keep, drop, floor };  // keep, drop: where it is true; the others become `fill`
  Kind kind;
  View view;          // floor: none
  double fill = 0;    // floor: no score is less
  Dims shape;         // of the scores there
  double factor = 1;  // that the scores with this mask are multiplied with
};

struct Scores {
  const Op* product = nullptr;
  std::vector<Mask> masks;  // from the softmax down
  double scale = 1, softcap = 0;
  std::optional<Mask> row_factor;  // a view that repeats along the keys and queries
  std::optional<Dims> heads;       // [b, h] where a reshape of the scores says so
};

// An operand of a product, its axes in the order of the composite: batch axes, then s and d.
struct Side {
  Value value;
  std::vector<int64_t> order;
};

struct Product {
  Side left, right;
  bool one_kv_head;  // the right side has no axis for the heads
};

// What the product with v reads.
struct Weights {
  Value scores;                // what the softmax is of
  bool zero_rows = false;      // NaN became 0
  std::optional<Mask> zeroed;  // weights that this mask does not keep became 0
  std::optional<View> sink;    // over the scores: one more score for each head
};

struct AttentionPattern {
  Scores scores;
  Weights weights;
  Product keys, values;
  Dims heads;  // [b, h] of q
};
// `op` is the product with v; the conditions of raise_attention.cc hold.
std::optional<AttentionPattern> match_attention(const Matcher& match, const Op& op);

// x and the number where the op multiplies x with a number, or divides by one (not 0).
std::optional<std::pair<Value, double>> scaled(const Matcher& match, const Op& op);
// The extents of a side's batch axes.
Dims batch_of(const Matcher& match, const Side& side);

}  // namespace transmuter::ir
