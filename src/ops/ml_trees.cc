// ai.onnx.ml TreeEnsembleRegressor, TreeEnsembleClassifier, TreeEnsemble: all rows go down all trees at once, a level a
// step; a leaf leads to itself.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ir/composites/composites.h"
#include "ops/attention_parts.h"
#include "ops/ml.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::ReduceKind;
using ir::Value;

enum class Mode : uint8_t { leq, lt, gte, gt, eq, neq, member, leaf };
constexpr CompareDirection kDirections[] = {CompareDirection::le, CompareDirection::lt, CompareDirection::ge,
                                            CompareDirection::gt, CompareDirection::eq, CompareDirection::ne};

struct TreeNode {
  Mode mode = Mode::leaf;
  int64_t feature = 0;
  double value = 0;
  int64_t if_true = 0, if_false = 0;  // positions in the forest
  bool missing_is_true = false;
  std::vector<double> members;
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
  std::vector<double> weights;  // [nodes, targets]
  std::vector<bool> counts;     // the same: does the leaf say anything of the target?
  int64_t targets = 0;

  void set_targets(int64_t n) {
    targets = n;
    weights.assign(static_cast<size_t>(element_count({static_cast<int64_t>(nodes.size()), n})), 0);
    counts.assign(weights.size(), false);
  }
  void add_weight(int64_t node, int64_t target, double weight) {
    const size_t at = static_cast<size_t>(node * targets + target);
    weights[at] += weight;
    counts[at] = true;
  }
  // Steps from the roots to the deepest leaf; nothing where there is a cycle.
  std::optional<int64_t> depth() const {
    std::vector<int64_t> level = roots;
    for (int64_t steps = 0; steps <= static_cast<int64_t>(nodes.size()); ++steps) {
      std::vector<int64_t> next;
      for (int64_t at : level) {
        const TreeNode& node = nodes[static_cast<size_t>(at)];
        if (node.mode == Mode::leaf) continue;
        next.push_back(node.if_true);
        next.push_back(node.if_false);
      }
      if (next.empty()) return steps;
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      level = std::move(next);
    }
    return std::nullopt;
  }
};

enum class Aggregate { average, sum, min, max };

// A table of the forest's nodes as a constant, looked up by positions.
template <class Field>
Value look_up(Builder& b, const Forest& forest, DType dtype, Value positions, Field field) {
  std::vector<double> values;
  for (const TreeNode& node : forest.nodes) values.push_back(field(node));
  const int64_t count = static_cast<int64_t>(values.size());
  return take_rows(b, b.constant(Tensor(values, {count}).cast(dtype)), positions);
}

// x[row, feature] for features [n, t].
Value pick_features(Builder& b, Value x, Value features) {
  ir::GatherAttributes gather;
  gather.operand_batching_dims = {0};
  gather.start_indices_batching_dims = {0};
  gather.collapsed_slice_dims = {1};
  gather.start_index_map = {1};
  gather.index_vector_dim = 2;
  gather.slice_sizes = {1, 1};
  return b.gather(x, b.expand_dims(features, {2}), std::move(gather));
}

// Is x in the set of the node? The sets are rows padded with NaN, which nothing equals.
Value is_member(Builder& b, const Forest& forest, Value x, Value positions) {
  size_t longest = 1;
  for (const TreeNode& node : forest.nodes) longest = std::max(longest, node.members.size());
  std::vector<double> rows;
  for (const TreeNode& node : forest.nodes) {
    rows.insert(rows.end(), node.members.begin(), node.members.end());
    rows.resize((rows.size() + longest - 1) / longest * longest, std::nan(""));
    if (node.members.empty()) rows.insert(rows.end(), longest, std::nan(""));
  }
  const int64_t width = static_cast<int64_t>(longest), count = static_cast<int64_t>(forest.nodes.size());
  const Value sets = take_rows(b, b.constant(Tensor(rows, {count, width}).cast(b.dtype(x))), positions);
  const Value hit = b.compare(b.broadcast_in_dim(x, b.shape(sets), {0, 1}), sets, CompareDirection::eq);
  return b.reduce(hit, ReduceKind::logical_or, {2});
}

Value descend(Builder& b, const Forest& forest, Value x, Value at) {
  const DType dtype = b.dtype(x);
  const Value features =
      look_up(b, forest, DType::i32, at, [](const TreeNode& n) { return static_cast<double>(n.feature); });
  const Value value = pick_features(b, x, features);
  const Value threshold = look_up(b, forest, dtype, at, [](const TreeNode& n) { return n.value; });
  const auto has = [&](Mode mode) {
    return std::any_of(forest.nodes.begin(), forest.nodes.end(), [&](const TreeNode& n) { return n.mode == mode; });
  };
  const Value modes = look_up(b, forest, DType::i32, at, [](const TreeNode& n) { return static_cast<double>(n.mode); });
  Value taken;
  for (int m = 0; m <= static_cast<int>(Mode::member); ++m) {
    const Mode mode = static_cast<Mode>(m);
    if (!has(mode)) continue;
    const Value answer =
        mode == Mode::member ? is_member(b, forest, value, at) : b.compare(value, threshold, kDirections[m]);
    taken = taken ? b.select(b.compare(modes, b.like(modes, m), CompareDirection::eq), answer, taken) : answer;
  }
  if (std::any_of(forest.nodes.begin(), forest.nodes.end(), [](const TreeNode& n) { return n.missing_is_true; })) {
    const Value follows = look_up(b, forest, DType::boolean, at, [](const TreeNode& n) { return n.missing_is_true; });
    taken = b.logical_or(taken, b.logical_and(follows, b.compare(value, value, CompareDirection::ne)));
  }
  const auto next = [&](int64_t TreeNode::*field) {
    return look_up(b, forest, DType::i32, at, [field](const TreeNode& n) { return static_cast<double>(n.*field); });
  };
  return b.select(taken, next(&TreeNode::if_true), next(&TreeNode::if_false));
}

// [n, targets]
Value evaluate(OpContext& op, const Forest& forest, Aggregate aggregate) {
  Builder& b = op.build();
  const Value x = features_of(op);
  const DType dtype = b.dtype(x);
  const int64_t trees = static_cast<int64_t>(forest.roots.size()), nodes = static_cast<int64_t>(forest.nodes.size());
  op.check(trees > 0, "there are no trees");
  const std::optional<int64_t> depth = forest.depth();
  op.check(depth.has_value(), "a tree has a cycle");
  for (const TreeNode& node : forest.nodes)
    require(less(node.feature, b.shape(x)[1]), str(op.node().op_type, ": feature ", node.feature, " is not there"));
  const Value roots = b.constant(Tensor(forest.roots, {trees}).cast(DType::i32));
  Value at = b.broadcast_in_dim(roots, {b.shape(x)[0], trees}, {1});
  for (int64_t step = 0; step < *depth; ++step) at = descend(b, forest, x, at);
  const bool extreme = aggregate == Aggregate::min || aggregate == Aggregate::max;
  const double nothing = aggregate == Aggregate::min ? HUGE_VAL : -HUGE_VAL;
  std::vector<double> weights = forest.weights;
  for (size_t i = 0; i < weights.size() && extreme; ++i)
    if (!forest.counts[i]) weights[i] = nothing;
  const Value table = b.constant(Tensor(weights, {nodes, forest.targets}).cast(dtype));
  const Value leaves = take_rows(b, table, at);
  if (!extreme) {
    const Value sum = b.reduce(leaves, ReduceKind::add, {1});
    return aggregate == Aggregate::sum ? sum : b.divide(sum, b.like(sum, static_cast<double>(trees)));
  }
  const Value y = b.reduce(leaves, aggregate == Aggregate::min ? ReduceKind::min : ReduceKind::max, {1});
  return b.select(b.compare(y, b.like(y, nothing), CompareDirection::eq), b.like(y, 0), y);
}

Mode mode_named(OpContext& op, const std::string& text) {
  const char* const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                               "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (int i = 0; i < 8; ++i)
    if (text == names[i] && i != static_cast<int>(Mode::member)) return static_cast<Mode>(i);
  op.invalid("nodes_modes has ", text);
}

using Places = std::map<std::pair<int64_t, int64_t>, int64_t>;  // tree and node to position

int64_t place(OpContext& op, const Places& places, int64_t tree, int64_t node) {
  const auto found = places.find({tree, node});
  if (found == places.end()) op.invalid("there is no node ", node, " in tree ", tree);
  return found->second;
}

// The nodes_* attributes of the two older operators.
Forest read_nodes(OpContext& op, Places& places) {
  op.ignore_attributes({"nodes_hitrates", "nodes_hitrates_as_tensor"});  // how often a node is met
  const std::vector<int64_t> trees = op.attribute_ints("nodes_treeids"), ids = op.attribute_ints("nodes_nodeids");
  const std::vector<int64_t> features = op.attribute_ints("nodes_featureids");
  const std::vector<int64_t> yes = op.attribute_ints("nodes_truenodeids"), no = op.attribute_ints("nodes_falsenodeids");
  const std::vector<std::string> modes = op.attribute_strings("nodes_modes", {});
  const std::vector<double> values = numbers_attribute(op, "nodes_values", "nodes_values_as_tensor");
  const auto missing = op.attribute_ints_optional("nodes_missing_value_tracks_true");
  const size_t count = ids.size();
  for (size_t size : {trees.size(), features.size(), yes.size(), no.size(), modes.size(), values.size()})
    op.check(size == count, "the lists of nodes differ in length");
  Forest forest;
  for (size_t i = 0; i < count; ++i) {
    op.check(places.emplace(std::pair(trees[i], ids[i]), static_cast<int64_t>(i)).second, "node ", ids[i], " of tree ",
             trees[i], " occurs twice");
    // A tree starts with its first node.
    if (i == 0 || std::find(trees.begin(), trees.begin() + static_cast<std::ptrdiff_t>(i), trees[i]) ==
                      trees.begin() + static_cast<std::ptrdiff_t>(i))
      forest.roots.push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < count; ++i) {
    TreeNode node;
    node.mode = mode_named(op, modes[i]);
    node.if_true = node.if_false = static_cast<int64_t>(i);
    if (node.mode != Mode::leaf) {
      op.check(features[i] >= 0, "nodes_featureids has ", features[i]);
      node.feature = features[i];
      node.value = values[i];
      node.if_true = place(op, places, trees[i], yes[i]);
      node.if_false = place(op, places, trees[i], no[i]);
      node.missing_is_true = missing && i < missing->size() && (*missing)[i] != 0;
    }
    forest.nodes.push_back(std::move(node));
  }
  return forest;
}

// PREFIX_treeids, PREFIX_nodeids, PREFIX_ids, PREFIX_weights.
struct LeafList {
  std::vector<int64_t> trees, nodes, ids;
  std::vector<double> weights;
};

LeafList read_leaves(OpContext& op, const std::string& prefix) {
  const auto named = [&](const char* rest) { return prefix + rest; };
  LeafList list;
  list.trees = op.attribute_ints(named("_treeids").c_str());
  list.nodes = op.attribute_ints(named("_nodeids").c_str());
  list.ids = op.attribute_ints(named("_ids").c_str());
  list.weights = numbers_attribute(op, named("_weights").c_str(), named("_weights_as_tensor").c_str());
  for (size_t size : {list.trees.size(), list.nodes.size(), list.weights.size()})
    op.check(size == list.ids.size(), "the lists of leaves differ in length");
  return list;
}

void add_leaves(OpContext& op, Forest& forest, const Places& places, const LeafList& list) {
  for (size_t i = 0; i < list.ids.size(); ++i) {
    op.check(list.ids[i] >= 0 && list.ids[i] < forest.targets, "target ", list.ids[i], " is not there");
    forest.add_weight(place(op, places, list.trees[i], list.nodes[i]), list.ids[i], list.weights[i]);
  }
}

Value with_base(OpContext& op, Value y) {
  const std::vector<double> base = numbers_attribute(op, "base_values", "base_values_as_tensor");
  if (base.empty()) return y;
  Builder& b = op.build();
  const Value values = b.constant(Tensor(base, {static_cast<int64_t>(base.size())}).cast(b.dtype(y)));
  return b.add(y, b.broadcast_to(values, b.shape(y)));
}

void regressor(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  const std::string aggregate = op.attribute_string("aggregate_function", "SUM");
  op.check(aggregate == "SUM" || aggregate == "AVERAGE" || aggregate == "MIN" || aggregate == "MAX",
           "aggregate_function ", aggregate, " is not one of the operator's");
  Places places;
  Forest forest = read_nodes(op, places);
  forest.set_targets(op.attribute_int("n_targets", 1));
  add_leaves(op, forest, places, read_leaves(op, "target"));
  const Value y = evaluate(op, forest,
                           aggregate == "SUM"       ? Aggregate::sum
                           : aggregate == "AVERAGE" ? Aggregate::average
                           : aggregate == "MIN"     ? Aggregate::min
                                                    : Aggregate::max);
  op.output(0, op.build().convert(post_transform(op, with_base(op, y), transform), DType::f32));
}

constexpr const char *kLabels = "classlabels_int64s", *kNames = "classlabels_strings";

// Two classes with the weights of the first alone, which ONNX Runtime takes for the second's: from its score to both.
void output_both_scores(OpContext& op, Value score, bool positive, const std::string& transform) {
  Builder& b = op.build();
  const bool logistic = transform == "LOGISTIC";
  const Value other = positive && !logistic ? b.subtract(b.like(score, 1), score) : b.negate(score);
  const Value both = b.concatenate({other, score}, 1);
  op.output(1, b.convert(logistic ? b.logistic(both) : both, DType::f32));
}

void classifier(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  Places places;
  Forest forest = read_nodes(op, places);
  const LeafList leaves = read_leaves(op, "class");
  const int64_t classes = label_count(op, kLabels, kNames);
  forest.set_targets(classes);
  add_leaves(op, forest, places, leaves);
  Builder& b = op.build();
  Value scores = evaluate(op, forest, Aggregate::sum);
  const bool one = classes == 2 && std::all_of(leaves.ids.begin(), leaves.ids.end(),
                                               [&](int64_t id) { return id == leaves.ids.front(); });
  if (one) {
    const int64_t id = leaves.ids.empty() ? 0 : leaves.ids.front();
    const bool positive =
        std::all_of(leaves.weights.begin(), leaves.weights.end(), [](double weight) { return weight >= 0; });
    const double bound = positive ? 0.5 : 0;
    const std::vector<double> base = numbers_attribute(op, "base_values", "base_values_as_tensor");
    Value score = b.slice_axis(scores, 1, id, id + 1);
    if (id == 0) {
      if (!base.empty()) score = b.add(score, b.like(score, base.back()));
      output_binary_labels(op, score, bound, kLabels, kNames);
      return output_both_scores(op, score, positive, transform);
    }
    if (base.size() < 2) {  // one base value, where the specification wants two, is not used
      output_binary_labels(op, score, bound, kLabels, kNames);
      return op.output(1, b.convert(post_transform(op, scores, transform), DType::f32));
    }
  }
  scores = with_base(op, scores);
  output_labels(op, ir::argmax(b, scores, 1), kLabels, kNames);
  op.output(1, b.convert(post_transform(op, scores, transform), DType::f32));
}

// From version 5: leaves have lists of their own.
void ensemble(OpContext& op) {
  op.ignore_attributes({"nodes_hitrates"});  // how often a node is met
  const int64_t aggregate = op.attribute_int("aggregate_function", 1),
                transform = op.attribute_int("post_transform", 0);
  op.check(aggregate >= 0 && aggregate <= 3 && transform >= 0 && transform <= 4, "an enumeration is out of range");
  const std::vector<int64_t> features = op.attribute_ints("nodes_featureids");
  const std::vector<int64_t> yes = op.attribute_ints("nodes_truenodeids"), no = op.attribute_ints("nodes_falsenodeids");
  const std::vector<int64_t> yes_leaf = op.attribute_ints("nodes_trueleafs"),
                             no_leaf = op.attribute_ints("nodes_falseleafs");
  const std::vector<double> splits = numbers_attribute(op, "", "nodes_splits");
  const std::vector<double> modes = numbers_attribute(op, "", "nodes_modes");
  std::vector<double> members = numbers_attribute(op, "", "membership_values");
  const auto missing = op.attribute_ints_optional("nodes_missing_value_tracks_true");
  const std::vector<int64_t> targets = op.attribute_ints("leaf_targetids");
  const std::vector<double> weights = numbers_attribute(op, "", "leaf_weights");
  const size_t count = features.size(), leaves = targets.size();
  for (size_t size : {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), splits.size(), modes.size()})
    op.check(size == count, "the lists of nodes differ in length");
  op.check(weights.size() == leaves, "the lists of leaves differ in length");
  Forest forest;
  forest.roots = op.attribute_ints("tree_roots");
  for (int64_t root : forest.roots) op.check(root >= 0 && root < static_cast<int64_t>(count), "tree_roots has ", root);
  const auto target = [&](int64_t at, int64_t leaf) {
    op.check(at >= 0 && at < static_cast<int64_t>(leaf != 0 ? leaves : count), "there is no node ", at);
    return leaf != 0 ? at + static_cast<int64_t>(count) : at;
  };
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    TreeNode node;
    op.check(modes[i] >= 0 && modes[i] <= 6, "nodes_modes has ", modes[i]);
    op.check(features[i] >= 0, "nodes_featureids has ", features[i]);
    node.mode = static_cast<Mode>(static_cast<int>(modes[i]));
    node.feature = features[i];
    node.value = splits[i];
    node.if_true = target(yes[i], yes_leaf[i]);
    node.if_false = target(no[i], no_leaf[i]);
    node.missing_is_true = missing && i < missing->size() && (*missing)[i] != 0;
    if (node.mode == Mode::member) {
      for (; member < members.size() && !std::isnan(members[member]); ++member) node.members.push_back(members[member]);
      ++member;
    }
    forest.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < leaves; ++i) {
    TreeNode leaf;
    leaf.if_true = leaf.if_false = static_cast<int64_t>(count + i);
    forest.nodes.push_back(leaf);
  }
  forest.set_targets(op.attribute_int("n_targets"));
  for (size_t i = 0; i < leaves; ++i) {
    op.check(targets[i] >= 0 && targets[i] < forest.targets, "leaf_targetids has ", targets[i]);
    forest.add_weight(static_cast<int64_t>(count + i), targets[i], weights[i]);
  }
  const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const Value y = evaluate(op, forest, static_cast<Aggregate>(aggregate));
  op.output(0, op.build().convert(post_transform(op, y, transforms[transform]), op.dtype(0)));
}

}  // namespace

void register_ml_trees(Registry& r) {
  r.add("TreeEnsembleRegressor", {1, 3, 5}, regressor, kMl);
  r.add("TreeEnsembleClassifier", {1, 3, 5}, classifier, kMl);
  r.add("TreeEnsemble", {5}, ensemble, kMl);
}

}  // namespace transmuter::ops
