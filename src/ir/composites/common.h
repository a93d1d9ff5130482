// What the composites share.
#pragma once

#include "ir/composites/composites.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/walk.h"

namespace transmuter::ir {

inline bool computes(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}
inline void check_float(const InferContext& ctx, const Type& type, const char* constraint) {
  ctx.check(computes(type.dtype), constraint, "takes floats, not ", name(type.dtype));
}
// The dtype that a float computes in.
inline DType wide(DType dtype) { return bit_width(dtype) < 32 ? DType::f32 : dtype; }
inline Value widened(Builder& build, Value x) { return build.convert(x, wide(build.dtype(x))); }

// The operands that are there.
inline std::vector<Value> present(std::initializer_list<Value> values) {
  std::vector<Value> out;
  for (const Value value : values) {
    if (value) out.push_back(value);
  }
  return out;
}

// Hands out operands one by one; `take(false)` gives none.
template <class T>
class OperandReader {
 public:
  explicit OperandReader(std::span<const T> operands) : operands_(operands) {}
  T next() { return operands_[at_++]; }
  T next_if(bool present) { return present ? next() : T{}; }

 private:
  std::span<const T> operands_;
  size_t at_ = 0;
};

inline std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

// A binary function of the Builder after NumPy broadcasting.
inline Value broadcast_apply(Builder& build, Value (Builder::*function)(Value, Value), Value a, Value b) {
  const auto [x, y] = build.numpy_broadcast(a, b);
  return (build.*function)(x, y);
}

// The slices of x at the positions of a 1-D index, along an axis.
inline Value take(Builder& build, Value x, Value index, int64_t axis) {
  GatherAttributes gather;
  gather.slice_sizes = build.shape(x);
  gather.slice_sizes[static_cast<size_t>(axis)] = 1;
  gather.offset_dims = other_axes(build.rank(x), {axis});
  gather.collapsed_slice_dims = {axis};
  gather.start_index_map = {axis};
  gather.index_vector_dim = 1;
  return build.gather(x, index, gather);
}

}  // namespace transmuter::ir
