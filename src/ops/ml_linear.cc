// ai.onnx.ml LinearRegressor, LinearClassifier, SVMRegressor, SVMClassifier.
#include <algorithm>

#include "ir/composites/composites.h"
#include "ops/matmul.h"
#include "ops/ml.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

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

// [n, rows] scores of the coefficients and intercepts. Rows are as long as the input has features; coefficients beyond
// the last row are left over, as ONNX Runtime leaves them (its own logreg_iris model has such).
Value linear_scores(OpContext& op, int64_t rows) {
  Builder& b = op.build();
  const std::vector<float> coefficients = op.attribute_floats("coefficients", {});
  op.check(rows > 0 && !coefficients.empty() && static_cast<int64_t>(coefficients.size()) % rows == 0,
           coefficients.size(), " coefficients are not ", rows, " rows");
  const Value x = features_of(op);
  int64_t columns = static_cast<int64_t>(coefficients.size()) / rows;
  const Dim features = b.shape(x).back();
  if (features.is_constant() && features.hint() < columns) columns = features.hint();
  const std::vector<float> used(coefficients.begin(), coefficients.begin() + static_cast<ptrdiff_t>(rows * columns));
  return project(b, x, matrix(b, used, rows, columns, b.dtype(x)), op.attribute_floats("intercepts", {}));
}

void linear_regressor(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  const Value y = linear_scores(op, op.attribute_int("targets", 1));
  op.output(0, op.build().convert(post_transform(op, y, transform), DType::f32));
}

constexpr const char *kLabels = "classlabels_ints", *kNames = "classlabels_strings";

// Two classes may have the scores of the second alone.
void linear_classifier(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  op.ignore_attributes({"multi_class"});  // the coefficients say it
  const int64_t labels = label_count(op, kLabels, kNames);
  const int64_t intercepts = static_cast<int64_t>(op.attribute_floats("intercepts", {}).size());
  const int64_t rows = intercepts > 0 ? intercepts : labels;
  Builder& b = op.build();
  const Value scores = linear_scores(op, rows);
  if (rows == 1 && labels == 2) {
    const Value above = b.compare(scores, b.like(scores, 0), CompareDirection::gt);
    op.output(0, labels_at(op, b.convert(b.squeeze(above, {1}), DType::i64), kLabels, kNames));
    const Value second = post_transform(op, scores, transform);
    op.output(1, b.convert(b.concatenate({b.subtract(b.like(second, 1), second), second}, 1), DType::f32));
    return;
  }
  op.output(0, labels_at(op, ir::argmax(b, scores, 1), kLabels, kNames));
  op.output(1, b.convert(post_transform(op, scores, transform), DType::f32));
}

// The kernel of each row of x with each support vector: [n, vectors].
Value kernel(OpContext& op, Value x, const std::vector<float>& vectors, int64_t count) {
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

void svm_regressor(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  const bool one_class = op.attribute_int("one_class", 0) != 0;
  const int64_t supports = op.attribute_int("n_supports", 0);
  const std::vector<float> coefficients = op.attribute_floats("coefficients", {});
  const std::vector<float> vectors = op.attribute_floats("support_vectors", {}), rho = op.attribute_floats("rho", {});
  op.check(rho.size() == 1, "rho must have one entry, has ", rho.size());
  Builder& b = op.build();
  const Value x = features_of(op);
  Value y;
  const Value row = matrix(b, coefficients, 1, static_cast<int64_t>(coefficients.size()), b.dtype(x));
  if (supports > 0) {
    y = project(b, kernel(op, x, vectors, supports), row, rho);
  } else {
    op.ignore_attributes({"kernel_type", "kernel_params"});  // a plain product
    y = project(b, x, row, rho);
  }
  if (one_class) {
    const Value inside = b.compare(y, b.like(y, 0), CompareDirection::gt);
    y = b.select(inside, b.like(y, 1), b.like(y, -1));
  }
  op.output(0, b.convert(post_transform(op, y, transform), DType::f32));
}

// One against one: each pair of classes has a score, whose sign is a vote.
void svm_classifier(OpContext& op) {
  const std::string transform = op.attribute_string("post_transform", "NONE");
  if (!op.attribute_floats("prob_a", {}).empty() || !op.attribute_floats("prob_b", {}).empty())
    op.unsupported("probabilities (prob_a, prob_b)");
  const auto per_class = op.attribute_ints_optional("vectors_per_class").value_or(std::vector<int64_t>{});
  if (per_class.empty()) op.unsupported("a classifier without support vectors");
  const int64_t classes = static_cast<int64_t>(per_class.size()), labels = label_count(op, kLabels, kNames);
  op.check(labels == classes, labels, " labels for ", classes, " classes");
  if (classes < 3) op.unsupported("two classes");
  const std::vector<float> coefficients = op.attribute_floats("coefficients", {}), rho = op.attribute_floats("rho", {});
  std::vector<int64_t> starts{0};
  for (int64_t count : per_class) starts.push_back(starts.back() + count);
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
  const Value kernels = kernel(op, x, op.attribute_floats("support_vectors", {}), vectors);
  const Value scores = project(b, kernels, matrix(b, rows, pairs, vectors, dtype), rho);
  const Value wins = b.convert(b.compare(scores, b.like(scores, 0), CompareDirection::gt), dtype);
  const Value losses = b.subtract(b.like(wins, 1), wins);
  const Value votes = b.add(matmul(b, wins, matrix(b, first, pairs, classes, dtype), dtype),
                            matmul(b, losses, matrix(b, second, pairs, classes, dtype), dtype));
  op.output(0, labels_at(op, ir::argmax(b, votes, 1), kLabels, kNames));
  op.output(1, b.convert(post_transform(op, scores, transform), DType::f32));
}

}  // namespace

void register_ml_linear(Registry& r) {
  r.add("LinearRegressor", {1}, linear_regressor, kMl);
  r.add("LinearClassifier", {1}, linear_classifier, kMl);
  r.add("SVMRegressor", {1}, svm_regressor, kMl);
  r.add("SVMClassifier", {1}, svm_classifier, kMl, "three classes or more, without probabilities");
}

}  // namespace transmuter::ops
