// ai.onnx.ml operators that change single features: Scaler, Normalizer, Binarizer, Imputer, OneHotEncoder,
// FeatureVectorizer, ArrayFeatureExtractor.
#include <cmath>

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

// One number for all features or one for each.
Value by_feature(OpContext& op, Value x, const std::vector<float>& values) {
  Builder& b = op.build();
  const Value list = b.constant(Tensor(values, {static_cast<int64_t>(values.size())}).cast(b.dtype(x)));
  return b.broadcast_to(list, b.shape(x));
}

void scaler(OpContext& op) {
  Builder& b = op.build();
  require_numeric(op, 0);
  const DType inner = op.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  const Value x = b.convert(op.input(0), inner);
  const Value offset = by_feature(op, x, op.attribute_floats("offset", {0.0F}));
  const Value scale = by_feature(op, x, op.attribute_floats("scale", {1.0F}));
  op.output(0, b.convert(b.multiply(b.subtract(x, offset), scale), DType::f32));
}

// Rows over their norm; a norm of zero leaves them.
void normalizer(OpContext& op) {
  const std::string norm = op.attribute_string("norm", "MAX");
  Builder& b = op.build();
  const Value x = features_of(op);
  Value size;
  if (norm == "MAX") {
    size = b.reduce_keep(x, ReduceKind::max, {1});
  } else if (norm == "L1") {
    size = b.reduce_keep(b.abs(x), ReduceKind::add, {1});
  } else {
    op.check(norm == "L2", "norm ", norm, " is not one of the operator's");
    size = b.sqrt(b.reduce_keep(b.multiply(x, x), ReduceKind::add, {1}));
  }
  const Value safe = b.select(b.compare(size, b.like(size, 0), CompareDirection::eq), b.like(size, 1), size);
  const Value y = b.divide(x, b.broadcast_to(safe, b.shape(x)));
  op.output(0, b.convert(b.reshape(y, op.shape(0)), DType::f32));
}

void binarizer(OpContext& op) {
  const float threshold = op.attribute_float("threshold", 0.0F);
  require_numeric(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  const Value above =
      is_integer(b.dtype(x))
          ? b.compare(b.convert(x, DType::f64), b.splat(DType::f64, threshold, b.shape(x)), CompareDirection::gt)
          : b.compare(x, b.like(x, threshold), CompareDirection::gt);
  op.output(0, b.convert(above, b.dtype(x)));
}

void imputer(OpContext& op) {
  require_numeric(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  Value missing, filled;
  if (is_float(b.dtype(x))) {
    const float replaced = op.attribute_float("replaced_value_float", 0.0F);
    filled = by_feature(op, x, op.attribute_floats("imputed_value_floats", {}));
    missing = std::isnan(replaced) ? b.compare(x, x, CompareDirection::ne)
                                   : b.compare(x, b.like(x, replaced), CompareDirection::eq);
    op.ignore_attributes({"imputed_value_int64s", "replaced_value_int64"});  // of integers
  } else {
    const int64_t replaced = op.attribute_int("replaced_value_int64", 0);
    const std::vector<int64_t> values = op.attribute_ints("imputed_value_int64s");
    const Value list = b.constant(Tensor(values, {static_cast<int64_t>(values.size())}).cast(b.dtype(x)));
    filled = b.broadcast_to(list, b.shape(x));
    missing = b.compare(x, b.broadcast_to(b.integer(b.dtype(x), replaced), b.shape(x)), CompareDirection::eq);
    op.ignore_attributes({"imputed_value_floats", "replaced_value_float"});  // of floats
  }
  op.output(0, b.select(missing, filled, x));
}

// A last axis with 1 at the place of the category; categories that are not listed give zeros, or with zeros = 0 an
// Error. Strings: ml_tables.cc.
void one_hot_encoder(OpContext& op) {
  const std::vector<int64_t> categories = op.attribute_ints("cats_int64s");
  op.ignore_attributes({"cats_strings"});  // of strings
  const bool zeros = op.attribute_int("zeros", 1) != 0;
  require_numeric(op, 0);
  Builder& b = op.build();
  const Value x = b.convert(op.input(0), DType::i64);
  Dims shape = b.shape(x);
  const int64_t rank = static_cast<int64_t>(shape.size()), count = static_cast<int64_t>(categories.size());
  shape.emplace_back(count);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  const Value listed = b.broadcast_in_dim(b.constant(Tensor(categories, {count})), shape, {rank});
  Value hit = b.compare(b.broadcast_in_dim(x, shape, axes), listed, CompareDirection::eq);
  if (!zeros) {
    // The last place that hits; -1 where none does is out of range.
    const Value places = b.iota(DType::i64, shape, rank);
    const Value place = b.reduce(b.select(hit, places, b.like(places, -1)), ir::ReduceKind::max, {rank});
    const Value checked =
        ir::checked_indices(b, b.expand_dims(place, {rank}), {count}, false, "OneHotEncoder: a category");
    hit = b.compare(places, b.broadcast_to(checked, shape), CompareDirection::eq);
  }
  op.output(0, b.convert(hit, DType::f32));
}

void feature_vectorizer(OpContext& op) {
  const auto widths = op.attribute_ints_optional("inputdimensions");
  Builder& b = op.build();
  std::vector<Value> parts;
  for (size_t i = 0; i < op.input_count(); ++i) {
    Value x = b.convert(op.input(i), DType::f32);
    if (b.rank(x) == 1) x = b.expand_dims(x, {0});
    op.check(b.rank(x) == 2, "input ", i, " must have rank 1 or 2, has ", b.rank(x));
    if (widths && i < widths->size())
      require_eq(b.shape(x)[1], (*widths)[i], str("FeatureVectorizer: features of input ", i));
    parts.push_back(x);
  }
  op.check(!parts.empty(), "at least one input is needed");
  op.output(0, b.concatenate(std::move(parts), 1));
}

// Features by their places along the last axis.
void array_feature_extractor(OpContext& op) {
  require_index(op, 1);
  op.check(op.rank(0) >= 1, "the input must have an axis");
  Builder& b = op.build();
  Value x = op.input(0);
  if (b.rank(x) == 1) x = b.expand_dims(x, {0});
  const Value places = b.reshape(checked_indices(op, 1, b.shape(x).back()), {product(op.shape(1))});
  op.output(0, take(b, x, b.rank(x) - 1, places));
}

}  // namespace

void register_ml_features(Registry& r) {
  r.add("Scaler", {1}, scaler, kMl);
  r.add("Normalizer", {1}, normalizer, kMl);
  r.add("Binarizer", {1}, binarizer, kMl);
  r.add("Imputer", {1}, imputer, kMl);
  r.add("OneHotEncoder", {1}, one_hot_encoder, kMl);
  r.add("FeatureVectorizer", {1}, feature_vectorizer, kMl);
  r.add("ArrayFeatureExtractor", {1}, array_feature_extractor, kMl);
}

}  // namespace transmuter::ops
