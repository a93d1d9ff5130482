// ai.onnx.ml SVMClassifier.
#include <algorithm>

#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ops/matmul.h"
#include "ops/ml.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::ReduceKind;
using ir::Value;

Value matrix(Builder& b, const std::vector<float>& values, int64_t rows, int64_t columns, DType dtype) {
  return b.constant(Tensor(values, {rows, columns}).cast(dtype));
}

// x times the transpose of rows, plus one number a row.
Value project(Builder& b, Value x, Value rows, const std::vector<float>& shift) {
  ir::DotGeneralAttributes dot;
  dot.dtype = b.dtype(x);
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {1};
  const Value y = b.dot_general(x, rows, std::move(dot));
  if (shift.empty()) return y;
  const Value shifts = b.constant(Tensor(shift, {static_cast<int64_t>(shift.size())}).cast(b.dtype(x)));
  return b.add(y, b.broadcast_to(shifts, b.shape(y)));
}

Value svm_kernel(OpContext& op, Value x, const std::vector<float>& vectors, int64_t count) {
  Builder& b = op.build();
  const std::string kind = op.attribute_string("kernel_type", "LINEAR");
  const std::vector<float> parameters = op.attribute_floats("kernel_params", {});
  const auto parameter = [&](size_t i) { return i < parameters.size() ? double{parameters[i]} : 0; };
  op.check(count > 0 && static_cast<int64_t>(vectors.size()) % count == 0, vectors.size(), " numbers are not ", count,
           " support vectors");
  const int64_t width = static_cast<int64_t>(vectors.size()) / count;
  const Value rows = matrix(b, vectors, count, width, b.dtype(x));
  if (kind == "RBF") {
    // Squares of differences, not the difference of squares: near ones stay exact.
    const Dims shape{b.shape(x)[0], count, width};
    const Value apart = b.subtract(b.broadcast_in_dim(x, shape, {0, 2}), b.broadcast_in_dim(rows, shape, {1, 2}));
    const Value distance = b.reduce(b.multiply(apart, apart), ReduceKind::add, {2});
    return b.exponential(b.multiply(distance, b.like(distance, -parameter(0))));
  }
  const Value products = project(b, x, rows, {});
  if (kind == "LINEAR") return products;
  const Value shifted = b.add(b.multiply(products, b.like(products, parameter(0))), b.like(products, parameter(1)));
  if (kind == "POLY") return b.power(shifted, b.like(shifted, parameter(2)));
  if (kind == "SIGMOID") return b.tanh(shifted);
  op.invalid("kernel_type ", kind, " is not one of the operator's");
}

namespace {

constexpr const char *kLabels = "classlabels_ints", *kNames = "classlabels_strings";

Value column(Builder& b, Value x, int64_t i) { return b.slice_axis(x, 1, i, i + 1); }
Value wide(Builder& b, Value column, Value like) { return b.broadcast_to(column, b.shape(like)); }

// Probabilities [n, classes] from those that one class beats another, `wins[i][j]` [n, 1]: Wu, Lin and Weng's second
// method (2004) with libsvm's iteration and its end.
Value coupled(Builder& b, const std::vector<std::vector<Value>>& wins) {
  constexpr int64_t kTrips = 100;
  const int64_t classes = static_cast<int64_t>(wins.size());
  std::vector<Value> rows;  // of the quadratic form, [n, classes] each
  for (size_t i = 0; i < wins.size(); ++i) {
    std::vector<Value> row(wins.size());
    Value own;
    for (size_t j = 0; j < wins.size(); ++j) {
      if (i == j) continue;
      const Value square = b.multiply(wins[j][i], wins[j][i]);
      own = own ? b.add(own, square) : square;
      row[j] = b.negate(b.multiply(wins[j][i], wins[i][j]));
    }
    row[i] = own;
    rows.push_back(b.concatenate(std::move(row), 1));
  }
  const double enough = 0.005 / static_cast<double>(classes);
  const std::vector<Value> start{b.like(rows[0], 1.0 / static_cast<double>(classes)), b.like(column(b, rows[0], 0), 0)};
  const auto trip = [&](Builder& t, Value, std::span<const Value> state, std::span<const Value> form) {
    Value p = state[0];
    std::vector<Value> parts;
    for (const Value row : form) parts.push_back(t.reduce_keep(t.multiply(row, p), ReduceKind::add, {1}));
    Value products = t.concatenate(std::move(parts), 1);
    Value value = t.reduce_keep(t.multiply(p, products), ReduceKind::add, {1});
    const Value error = t.reduce_keep(t.abs(t.subtract(products, wide(t, value, products))), ReduceKind::max, {1});
    const Value near = t.convert(t.compare(error, t.like(error, enough), CompareDirection::lt), t.dtype(error));
    const Value done = t.maximum(state[1], near);
    for (int64_t i = 0; i < classes; ++i) {
      const Value row = form[static_cast<size_t>(i)], own = column(t, row, i), product = column(t, products, i);
      const Value step = t.divide(t.subtract(value, product), own), scale = t.add(t.like(step, 1), step);
      std::vector<double> unit(static_cast<size_t>(classes), 0);
      unit[static_cast<size_t>(i)] = 1;
      const Value at = t.broadcast_to(t.constant(Tensor(unit, {1, classes}).cast(t.dtype(p))), t.shape(p));
      const Value steps = wide(t, step, p), scales = wide(t, scale, p);
      p = t.divide(t.add(p, t.multiply(steps, at)), scales);
      const Value grown = t.multiply(step, t.add(t.multiply(step, own), t.multiply(t.like(product, 2), product)));
      value = t.divide(t.divide(t.add(value, grown), scale), scale);
      products = t.divide(t.add(products, t.multiply(steps, row)), scales);
    }
    const Value stays = t.compare(done, t.like(done, 0), CompareDirection::gt);
    return std::vector<Value>{t.select(wide(t, stays, p), state[0], p), done};
  };
  return ir::counted_loop(b, Dim(kTrips), start, rows, trip)[0];
}

// Platt's sigmoids of the scores [n, pairs], kept away from 0 and 1, then coupled.
Value probabilities(OpContext& op, Value scores, int64_t classes) {
  const std::vector<float> slopes = op.attribute_floats("prob_a", {}), shifts = op.attribute_floats("prob_b", {});
  const size_t pairs = static_cast<size_t>(classes * (classes - 1) / 2);
  op.check(slopes.size() == pairs && shifts.size() == pairs, "prob_a and prob_b must have ", pairs, " entries");
  Builder& b = op.build();
  std::vector<std::vector<Value>> wins(static_cast<size_t>(classes), std::vector<Value>(static_cast<size_t>(classes)));
  size_t pair = 0;
  for (size_t i = 0; i < wins.size(); ++i) {
    for (size_t j = i + 1; j < wins.size(); ++j, ++pair) {
      const Value score = column(b, scores, static_cast<int64_t>(pair));
      const Value x = b.add(b.multiply(score, b.like(score, slopes[pair])), b.like(score, shifts[pair]));
      const Value one = b.like(x, 1), raw = b.subtract(one, b.logistic(x));
      wins[i][j] = b.clamp(b.like(x, 1e-7), raw, b.like(x, 1 - 1e-7));
      wins[j][i] = b.subtract(one, wins[i][j]);
    }
  }
  return coupled(b, wins);
}

// Two classes have one score, the first's; as ONNX Runtime makes two of it.
Value both_scores(OpContext& op, Value score, const std::string& transform) {
  Builder& b = op.build();
  if (transform == "PROBIT") op.unsupported("post_transform PROBIT of two classes");
  const bool mirrored = transform == "NONE" || transform == "LOGISTIC";
  const Value first = mirrored ? b.negate(score) : b.subtract(b.like(score, 1), score);
  const Value both = b.concatenate({first, score}, 1);
  return transform == "LOGISTIC" ? b.logistic(both) : both;
}

// Without support vectors: a row of coefficients for each class. Of two classes ONNX Runtime takes the second wherever
// the greater score is positive (with coefficients that are all positive: at least 0.5).
void classify_by_rows(OpContext& op, const std::vector<float>& coefficients, const std::string& transform) {
  op.ignore_attributes({"kernel_type", "kernel_params", "support_vectors", "prob_a", "prob_b"});  // plain products
  const int64_t classes = label_count(op, kLabels, kNames), count = static_cast<int64_t>(coefficients.size());
  const std::vector<float> rho = op.attribute_floats("rho", {});
  op.check(classes > 0 && count > 0 && count % classes == 0, count, " coefficients are not ", classes, " rows");
  op.check(!rho.empty(), "rho is missing");
  Builder& b = op.build();
  const Value x = features_of(op);
  const Value rows = matrix(b, coefficients, classes, count / classes, b.dtype(x));
  const Value scores = project(b, x, rows, std::vector<float>(static_cast<size_t>(classes), rho[0]));
  Value chosen = b.convert(ir::argmax(b, scores, 1), DType::i64);
  if (classes == 2) {
    const bool positive = std::all_of(coefficients.begin(), coefficients.end(), [](float c) { return c >= 0; });
    const Value most = b.reduce(scores, ReduceKind::max, {1});
    const Value second = positive ? b.compare(most, b.like(most, 0.5), CompareDirection::ge)
                                  : b.compare(most, b.like(most, 0), CompareDirection::gt);
    chosen = b.select(second, b.like(chosen, 1), chosen);
  }
  output_labels(op, chosen, kLabels, kNames);
  op.output(1, b.convert(post_transform(op, scores, transform), DType::f32));
}

// One against one: each pair of classes has a score, whose sign is a vote.
void svm_classifier(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  const std::vector<float> coefficients = op.attribute_floats("coefficients", {});
  const auto per_class = op.attribute_ints_optional("vectors_per_class").value_or(std::vector<int64_t>{});
  if (per_class.empty()) return classify_by_rows(op, coefficients, transform);
  const int64_t classes = static_cast<int64_t>(per_class.size()), labels = label_count(op, kLabels, kNames);
  op.check(labels == classes, labels, " labels for ", classes, " classes");
  op.check(classes >= 2, "one class leaves nothing to decide");
  const std::vector<float> rho = op.attribute_floats("rho", {});
  std::vector<int64_t> starts{0};
  for (int64_t count : per_class) {
    op.check(count >= 0 && count < (int64_t{1} << 31), "vectors_per_class has ", count);
    starts.push_back(starts.back() + count);
  }
  const int64_t vectors = starts.back(), pairs = classes * (classes - 1) / 2;
  op.check(static_cast<int64_t>(coefficients.size()) == vectors * (classes - 1), "coefficients and vectors differ");
  op.check(static_cast<int64_t>(rho.size()) == pairs, "rho must have ", pairs, " entries, has ", rho.size());
  std::vector<float> rows(static_cast<size_t>(pairs * vectors), 0), first(static_cast<size_t>(pairs * classes), 0),
      second = first;
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto fill = [&](int64_t own, int64_t other_row) {
        for (int64_t k = starts[static_cast<size_t>(own)]; k < starts[static_cast<size_t>(own + 1)]; ++k)
          rows[static_cast<size_t>(pair * vectors + k)] = coefficients[static_cast<size_t>(other_row * vectors + k)];
      };
      fill(i, j - 1);
      fill(j, i);
      first[static_cast<size_t>(pair * classes + i)] = 1;
      second[static_cast<size_t>(pair * classes + j)] = 1;
    }
  }
  Builder& b = op.build();
  const Value x = features_of(op);
  const DType dtype = b.dtype(x);
  const Value kernels = svm_kernel(op, x, op.attribute_floats("support_vectors", {}), vectors);
  const Value scores = project(b, kernels, matrix(b, rows, pairs, vectors, dtype), rho);
  const Value wins = b.convert(b.compare(scores, b.like(scores, 0), CompareDirection::gt), dtype);
  const Value losses = b.subtract(b.like(wins, 1), wins);
  const Value votes = b.add(matmul(b, wins, matrix(b, first, pairs, classes, dtype), dtype),
                            matmul(b, losses, matrix(b, second, pairs, classes, dtype), dtype));
  output_labels(op, ir::argmax(b, votes, 1), kLabels, kNames);
  Value results;
  if (op.has_attribute("prob_a") && !op.attribute_floats("prob_a", {}).empty()) {
    results = post_transform(op, probabilities(op, scores, classes), transform);
  } else {
    op.ignore_attributes({"prob_a", "prob_b"});
    results = classes == 2 ? both_scores(op, scores, transform) : post_transform(op, scores, transform);
  }
  op.output(1, b.convert(results, DType::f32));
}

}  // namespace

void register_ml_svm(Registry& r) { r.add("SVMClassifier", {1}, svm_classifier, kMl); }

}  // namespace transmuter::ops
