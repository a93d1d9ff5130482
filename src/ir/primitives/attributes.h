// The attribute structs of the primitives. Axes are plain integers in [0, rank); extents, starts, limits and pads are
// Dims.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

enum class CompareDirection : uint8_t { eq, ne, lt, le, gt, ge };
struct CompareAttributes : Attributes {
  CompareDirection direction;
  explicit CompareAttributes(CompareDirection d) : direction(d) {}
  void visit(AttributeVisitor& v) const override { v.integer("direction", static_cast<int64_t>(direction)); }
};

// convert and bitcast_convert
struct ConvertAttributes : Attributes {
  DType dtype;
  explicit ConvertAttributes(DType d) : dtype(d) {}
  void visit(AttributeVisitor& v) const override { v.text("dtype", name(dtype)); }
};

struct ConstantAttributes : Attributes {
  Tensor value;
  explicit ConstantAttributes(Tensor t) : value(std::move(t)) {}
  void visit(AttributeVisitor& v) const override { v.tensor("value", value); }
};

// Of a case whose branches have assertions of their own.
struct CaseAttributes : Attributes {
  std::vector<Dims> entries;  // by branch, none or one: the symbol to be set while it runs (ShapeScope::Local)
  void visit(AttributeVisitor& v) const override {
    for (const Dims& entry : entries) v.dims("entry", entry);
  }
};

// 0-d tensor from a Dim (integer dtypes, bool, or floats rounded) or from a Real.
struct DimValueAttributes : Attributes {
  Dim dim;
  Real real;
  bool is_real;
  DType dtype;
  DimValueAttributes(Dim d, DType t) : dim(d), is_real(false), dtype(t) {}
  DimValueAttributes(Real r, DType t) : real(r), is_real(true), dtype(t) {}
  void visit(AttributeVisitor& v) const override {
    if (is_real)
      v.real_expression("real", real);
    else
      v.dims("dim", {dim});
    v.text("dtype", name(dtype));
  }
};

struct IotaAttributes : Attributes {
  DType dtype;
  Dims shape;
  int64_t dimension;
  IotaAttributes(DType d, Dims s, int64_t axis) : dtype(d), shape(std::move(s)), dimension(axis) {}
  void visit(AttributeVisitor& v) const override {
    v.text("dtype", name(dtype));
    v.dims("shape", shape);
    v.integer("iota_dimension", dimension);
  }
};

// Operand axis i becomes result axis dimensions[i]; an operand extent that is 1 at run time repeats.
struct BroadcastInDimAttributes : Attributes {
  Dims shape;
  std::vector<int64_t> dimensions;
  BroadcastInDimAttributes(Dims s, std::vector<int64_t> d) : shape(std::move(s)), dimensions(std::move(d)) {}
  void visit(AttributeVisitor& v) const override {
    v.dims("shape", shape);
    v.integers("broadcast_dimensions", dimensions);
  }
};

struct ReshapeAttributes : Attributes {
  Dims shape;
  explicit ReshapeAttributes(Dims s) : shape(std::move(s)) {}
  void visit(AttributeVisitor& v) const override { v.dims("shape", shape); }
};

// transpose: permutation; reverse, reduce: axes
struct AxesAttributes : Attributes {
  std::vector<int64_t> axes;
  explicit AxesAttributes(std::vector<int64_t> a) : axes(std::move(a)) {}
  void visit(AttributeVisitor& v) const override { v.integers("axes", axes); }
};

// concatenate, iota-like ops with one axis
struct AxisAttributes : Attributes {
  int64_t axis;
  explicit AxisAttributes(int64_t a) : axis(a) {}
  void visit(AttributeVisitor& v) const override { v.integer("axis", axis); }
};

// Element i of the result along an axis is operand[start + i * stride], up to limit; 0 <= start <= limit <= extent,
// stride >= 1.
struct SliceAttributes : Attributes {
  Dims start, limit, stride;
  SliceAttributes(Dims s, Dims l, Dims t) : start(std::move(s)), limit(std::move(l)), stride(std::move(t)) {}
  void visit(AttributeVisitor& v) const override {
    v.dims("start", start);
    v.dims("limit", limit);
    v.dims("stride", stride);
  }
};

// Operands: x, 0-d padding value. Negative low/high crop; interior >= 0.
struct PadAttributes : Attributes {
  Dims low, high, interior;
  PadAttributes(Dims l, Dims h, Dims i) : low(std::move(l)), high(std::move(h)), interior(std::move(i)) {}
  void visit(AttributeVisitor& v) const override {
    v.dims("low", low);
    v.dims("high", high);
    v.dims("interior", interior);
  }
};

// dynamic_slice: x, then one 0-d integer start per axis; starts are clamped.
struct DynamicSliceAttributes : Attributes {
  Dims sizes;
  explicit DynamicSliceAttributes(Dims s) : sizes(std::move(s)) {}
  void visit(AttributeVisitor& v) const override { v.dims("sizes", sizes); }
};

// As StableHLO's gather. Start indices are clamped to the operand.
struct GatherAttributes : Attributes {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
      start_index_map;
  int64_t index_vector_dim = 0;
  Dims slice_sizes;
  void visit(AttributeVisitor& v) const override {
    v.integers("offset_dims", offset_dims);
    v.integers("collapsed_slice_dims", collapsed_slice_dims);
    v.integers("operand_batching_dims", operand_batching_dims);
    v.integers("start_indices_batching_dims", start_indices_batching_dims);
    v.integers("start_index_map", start_index_map);
    v.integer("index_vector_dim", index_vector_dim);
    v.dims("slice_sizes", slice_sizes);
  }
};

enum class ReduceKind : uint8_t { add, mul, min, max, logical_and, logical_or };

// As StableHLO's scatter with one operand: x, indices, updates. Out-of-range windows are dropped; later updates come
// later.
struct ScatterAttributes : Attributes {
  enum class Kind : uint8_t { set, add, mul, min, max };
  Kind kind = Kind::set;
  std::vector<int64_t> update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  void visit(AttributeVisitor& v) const override {
    v.integer("kind", static_cast<int64_t>(kind));
    v.integers("update_window_dims", update_window_dims);
    v.integers("inserted_window_dims", inserted_window_dims);
    v.integers("input_batching_dims", input_batching_dims);
    v.integers("scatter_indices_batching_dims", scatter_indices_batching_dims);
    v.integers("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims);
    v.integer("index_vector_dim", index_vector_dim);
  }
};

// Result axes: batch, lhs free, rhs free. Operand dtypes may differ (mixed storage, integers); `dtype` is the result's
// and the accumulation is at least f32 for floats, exact in `dtype` for integers.
struct DotGeneralAttributes : Attributes {
  std::vector<int64_t> lhs_batching, rhs_batching, lhs_contracting, rhs_contracting;
  DType dtype = DType::invalid;
  void visit(AttributeVisitor& v) const override {
    v.integers("lhs_batching", lhs_batching);
    v.integers("rhs_batching", rhs_batching);
    v.integers("lhs_contracting", lhs_contracting);
    v.integers("rhs_contracting", rhs_contracting);
    v.text("dtype", name(dtype));
  }
};

// Layouts: input [n, c, spatial...], kernel [o, c / groups, spatial...], result [n, o, spatial...]. Correlation (no
// flip).
struct ConvolutionAttributes : Attributes {
  std::vector<int64_t> strides;
  Dims pad_low, pad_high;
  std::vector<int64_t> lhs_dilation, rhs_dilation;
  int64_t feature_groups = 1;
  int64_t batch_groups = 1;
  DType dtype = DType::invalid;  // of the result
  void visit(AttributeVisitor& v) const override {
    v.integers("strides", strides);
    v.dims("pad_low", pad_low);
    v.dims("pad_high", pad_high);
    v.integers("lhs_dilation", lhs_dilation);
    v.integers("rhs_dilation", rhs_dilation);
    v.integer("feature_groups", feature_groups);
    v.integer("batch_groups", batch_groups);
    v.text("dtype", name(dtype));
  }
};

// Reduces over `axes` from the kind's identity; the axes disappear.
struct ReduceAttributes : Attributes {
  ReduceKind kind;
  std::vector<int64_t> axes;
  ReduceAttributes(ReduceKind k, std::vector<int64_t> a) : kind(k), axes(std::move(a)) {}
  void visit(AttributeVisitor& v) const override {
    v.integer("kind", static_cast<int64_t>(kind));
    v.integers("axes", axes);
  }
};

// All of the operand's axes are windowed. Padding counts as the kind's identity.
struct ReduceWindowAttributes : Attributes {
  ReduceKind kind = ReduceKind::add;
  Dims window;
  std::vector<int64_t> strides, base_dilation, window_dilation;
  Dims pad_low, pad_high;
  void visit(AttributeVisitor& v) const override {
    v.integer("kind", static_cast<int64_t>(kind));
    v.dims("window", window);
    v.integers("strides", strides);
    v.integers("base_dilation", base_dilation);
    v.integers("window_dilation", window_dilation);
    v.dims("pad_low", pad_low);
    v.dims("pad_high", pad_high);
  }
};

// Sorts all operands along an axis by the first `keys` of them, lexicographically. `nan_last`: NaN after everything,
// whatever the direction; else NaN is the greatest value.
struct SortAttributes : Attributes {
  int64_t axis = 0;
  int64_t keys = 1;
  bool descending = false;
  bool stable = true;
  bool nan_last = false;
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.integer("keys", keys);
    v.integer("descending", descending);
    v.integer("stable", stable);
    v.integer("nan_last", nan_last);
  }
};

enum class FftKind : uint8_t { fft, ifft, rfft, irfft };
struct FftAttributes : Attributes {
  FftKind kind = FftKind::fft;
  Dims lengths;
  void visit(AttributeVisitor& v) const override {
    v.integer("kind", static_cast<int64_t>(kind));
    v.dims("lengths", lengths);
  }
};

}  // namespace transmuter::ir
