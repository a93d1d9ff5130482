// What the operators of ai.onnx.ml share.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

inline constexpr const char* kMl = "ai.onnx.ml";

// The post_transform attribute (NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT) of scores [n, c].
ir::Value post_transform(OpContext& op, ir::Value scores, const std::string& kind);

// Input 0 as a matrix [n, features] of f32 (f64 stays).
ir::Value features_of(OpContext& op);

// `values` as a constant [rows, columns]; x times its transpose, plus one number a row unless `shift` is empty.
ir::Value matrix(ir::Builder& b, const std::vector<float>& values, int64_t rows, int64_t columns, DType dtype);
ir::Value project(ir::Builder& b, ir::Value x, ir::Value rows, const std::vector<float>& shift);
// The node's kernel (kernel_type, kernel_params) of each row of x with each support vector: [n, count].
ir::Value svm_kernel(OpContext& op, ir::Value x, const std::vector<float>& vectors, int64_t count);

// A list of numbers from an attribute of floats or, where that is absent, of a tensor.
std::vector<double> numbers_attribute(OpContext& op, const char* floats, const char* tensor);

// Output 0: the class labels of positions [n] (i64), from one of two attributes, integers or strings.
void output_labels(OpContext& op, ir::Value positions, const char* integers, const char* names);
// Likewise of two labels by one score [n, 1]: the second where it is above the bound, else the first.
void output_binary_labels(OpContext& op, ir::Value score, double bound, const char* integers, const char* names);
// The number of labels.
int64_t label_count(OpContext& op, const char* integers, const char* names);

}  // namespace transmuter::ops
