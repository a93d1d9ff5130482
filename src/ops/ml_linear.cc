// ai.onnx.ml LinearRegressor, LinearClassifier, SVMRegressor. SVMClassifier: ml_svm.cc.
#include <algorithm>

#include "ir/composites/composites.h"
#include "ops/ml.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::ReduceKind;
using ir::Value;

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
    output_binary_labels(op, scores, 0, kLabels, kNames);
    // Of one score there is no softmax: ONNX Runtime leaves it as it is.
    const bool softmax = transform == "SOFTMAX" || transform == "SOFTMAX_ZERO";
    const Value second = softmax ? scores : post_transform(op, scores, transform);
    op.output(1, b.convert(b.concatenate({b.subtract(b.like(second, 1), second), second}, 1), DType::f32));
    return;
  }
  output_labels(op, ir::argmax(b, scores, 1), kLabels, kNames);
  op.output(1, b.convert(post_transform(op, scores, transform), DType::f32));
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
    y = project(b, svm_kernel(op, x, vectors, supports), row, rho);
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

}  // namespace

void register_ml_linear(Registry& r) {
  r.add("LinearRegressor", {1}, linear_regressor, kMl);
  r.add("LinearClassifier", {1}, linear_classifier, kMl);
  r.add("SVMRegressor", {1}, svm_regressor, kMl);
}

}  // namespace transmuter::ops
