// What the operators of ai.onnx.ml share.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

inline constexpr const char* kMl = "ai.onnx.ml";

// The post_transform attribute (NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT) of scores [n, c].
ir::Value post_transform(OpContext& op, ir::Value scores, const std::string& kind);

// Input 0 as a matrix [n, features] of f32 (f64 stays).
ir::Value features_of(OpContext& op);

// A list of numbers from an attribute of floats or, where that is absent, of a tensor.
std::vector<double> numbers_attribute(OpContext& op, const char* floats, const char* tensor);

// Class labels for positions [n] (i64): of `integers`, an attribute; names are not values of a program.
ir::Value labels_at(OpContext& op, ir::Value positions, const char* integers, const char* names);
// The number of labels.
int64_t label_count(OpContext& op, const char* integers, const char* names);

}  // namespace transmuter::ops
