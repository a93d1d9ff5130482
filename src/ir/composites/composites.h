// The composites: primitives with a body. Each has a record (for backends: `op.primitive == &composite::softmax`), an
// attribute struct and a function that emits it. A backend without a kernel inlines `decompose`, which is also what the
// reference runs unless the record has an evaluation of its own. Optional operands stand at the end, in the order given
// here, and only if present (the attributes say which). f16 and bf16 compute in f32 and round once at the end.
#pragma once

#include <optional>

#include "ir/builder.h"

namespace transmuter::ir {

namespace composite {
extern const Primitive softmax, layer_norm, rms_norm, group_norm, gelu, silu;  // normalize.cc, activation.cc
extern const Primitive attention, rotary_embedding;                            // attention.cc, rotary.cc
extern const Primitive topk, arg_extreme, cumulative;                          // order.cc, cumulative.cc
extern const Primitive resize, conv_transpose, rnn;                            // resize.cc ...
extern const Primitive quantize_linear, dequantize_linear, quantized_dot;      // quantize.cc
extern const Primitive nonzero, nms, unique, compress, read_values;            // data_dependent.cc
extern const Primitive loop;                                                   // loop.cc
extern const Primitive checked_indices;                                        // indices.cc
extern const Primitive random_bits;                                            // random.cc
}  // namespace composite

// ---- normalize.cc

struct SoftmaxAttributes : Attributes {
  int64_t axis;
  bool log;
  SoftmaxAttributes(int64_t a, bool l) : axis(a), log(l) {}
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.integer("log", log);
  }
};
Value softmax(Builder& build, Value x, int64_t axis);
Value log_softmax(Builder& build, Value x, int64_t axis);

// layer_norm and rms_norm: over the axes from `axis` on. Operands: x, scale, bias, both of shape x.shape[axis:] and x's
// dtype. Results: y, and with `statistics` (f32, or f64 for f64; the normalised axes with extent 1) for layer_norm mean
// and 1 / sqrt(variance + epsilon), for rms_norm 1 / sqrt(mean square + epsilon).
struct NormAttributes : Attributes {
  int64_t axis = 0;
  double epsilon = 1e-5;
  bool has_scale = false, has_bias = false, statistics = false;
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.real("epsilon", epsilon);
    v.integer("has_scale", has_scale);
    v.integer("has_bias", has_bias);
    v.integer("statistics", statistics);
  }
};
std::vector<Value> layer_norm(Builder& build, Value x, Value scale, Value bias, int64_t axis, double epsilon,
                              bool statistics = false);
std::vector<Value> rms_norm(Builder& build, Value x, Value scale, int64_t axis, double epsilon,
                            bool statistics = false);

// x [n, c, ...] normalised over each group of channels and all spatial axes; scale and bias [c]. groups = c is instance
// normalisation.
struct GroupNormAttributes : Attributes {
  Dim groups = 1;
  double epsilon = 1e-5;
  bool has_scale = false, has_bias = false;
  void visit(AttributeVisitor& v) const override {
    v.dims("groups", {groups});
    v.real("epsilon", epsilon);
    v.integer("has_scale", has_scale);
    v.integer("has_bias", has_bias);
  }
};
Value group_norm(Builder& build, Value x, Value scale, Value bias, Dim groups, double epsilon);

// ---- activation.cc

enum class GeluKind : uint8_t { erf, tanh };
struct GeluAttributes : Attributes {
  GeluKind kind;
  explicit GeluAttributes(GeluKind k) : kind(k) {}
  void visit(AttributeVisitor& v) const override { v.integer("kind", static_cast<int64_t>(kind)); }
};
Value gelu(Builder& build, Value x, GeluKind kind = GeluKind::erf);

// x * logistic(alpha * x); alpha 1.702 is "quick gelu".
struct SiluAttributes : Attributes {
  double alpha;
  explicit SiluAttributes(double a) : alpha(a) {}
  void visit(AttributeVisitor& v) const override { v.real("alpha", alpha); }
};
Value silu(Builder& build, Value x, double alpha = 1);

// ---- attention.cc

// q [b, hq, sq, d], k [b, hkv, sk, d], v [b, hkv, sk, dv] -> y [b, hq, sq, dv]; query head h reads kv head h / (hq /
// hkv). Operands: q, k, v, then
//   mask      bool (true: takes part) or q's dtype (added to the scores); rank 4, each extent the score's or 1
//   lengths   [b] integers: only keys j < lengths[b] take part; with it offset is lengths[b] - sq
//   sink      [hq], q's dtype: one more score per head that takes weight but has no value
// score = softcap(q k^T * scale) + mask; softcap(s) = softcap * tanh(s / softcap) where softcap > 0. Query i stands at
// position p = i + offset; causal: keys j <= p; windows (-1: none): p - left_window <= j <= p + right_window.
// Rows without any key (all scores -infinity) give 0, or NaN with empty_rows_nan. smooth_softmax adds 1 = exp(0) to the
// denominator (a sink of 0). With scores != none a second result [b, hq, sq, sk] has the scores at that point.
struct AttentionAttributes : Attributes {
  enum class Scores : uint8_t { none, scaled, masked, capped, softmax };
  Real scale = 1.0;
  double softcap = 0;
  bool causal = false;
  Dim offset = 0;
  int64_t left_window = -1, right_window = -1;
  bool smooth_softmax = false;
  bool empty_rows_nan = false;
  Scores scores = Scores::none;
  bool has_mask = false, has_lengths = false, has_sink = false;  // set by attention()
  void visit(AttributeVisitor& v) const override {
    v.real_expression("scale", scale);
    v.real("softcap", softcap);
    v.integer("causal", causal);
    v.dims("offset", {offset});
    v.integer("left_window", left_window);
    v.integer("right_window", right_window);
    v.integer("smooth_softmax", smooth_softmax);
    v.integer("empty_rows_nan", empty_rows_nan);
    v.integer("scores", static_cast<int64_t>(scores));
    v.integer("has_mask", has_mask);
    v.integer("has_lengths", has_lengths);
    v.integer("has_sink", has_sink);
  }
};
struct AttentionExtras {
  Value mask, lengths, sink;
};
// One result, or two with scores.
std::vector<Value> attention(Builder& build, Value q, Value k, Value v, AttentionExtras extras,
                             AttentionAttributes attributes);

// x [b, h, s, d]; cos and sin [b or 1, s, r / 2], r <= d: the first r elements of each head are rotated, pairs (i, i +
// r/2), or (2i, 2i + 1) when interleaved.
struct RotaryAttributes : Attributes {
  bool interleaved;
  explicit RotaryAttributes(bool i) : interleaved(i) {}
  void visit(AttributeVisitor& v) const override { v.integer("interleaved", interleaved); }
};
Value rotary_embedding(Builder& build, Value x, Value cos, Value sin, bool interleaved);

// ---- order.cc

// The k greatest (or least) along an axis, in order, with their positions (i64). NaN counts as the greatest; equal
// elements come in the order of their positions.
struct TopkAttributes : Attributes {
  int64_t axis = 0;
  Dim k = 0;
  bool largest = true;
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.dims("k", {k});
    v.integer("largest", largest);
  }
};
std::pair<Value, Value> topk(Builder& build, Value x, int64_t axis, Dim k, bool largest = true);

// The position (i64) of the greatest or least element; the axis disappears. The first NaN wins; among equal ones the
// first, or with `last` the last.
struct ArgExtremeAttributes : Attributes {
  int64_t axis = 0;
  bool greatest = true;
  bool last = false;
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.integer("greatest", greatest);
    v.integer("last", last);
  }
};
Value argmax(Builder& build, Value x, int64_t axis, bool last = false);
Value argmin(Builder& build, Value x, int64_t axis, bool last = false);

// Running sums or products (kind add or mul); exclusive: without the element itself; reverse: from the end.
struct CumulativeAttributes : Attributes {
  ReduceKind kind = ReduceKind::add;
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  void visit(AttributeVisitor& v) const override {
    v.integer("kind", static_cast<int64_t>(kind));
    v.integer("axis", axis);
    v.integer("exclusive", exclusive);
    v.integer("reverse", reverse);
  }
};
Value cumulative(Builder& build, Value x, ReduceKind kind, int64_t axis, bool exclusive = false, bool reverse = false);

// ---- resize.cc

// ONNX Resize along any axes; an axis whose size is the operand's extent and whose scale is 1 is left alone.
// Coordinates are computed in f32.
struct ResizeAttributes : Attributes {
  enum class Mode : uint8_t { nearest, linear, cubic };
  enum class Coordinates : uint8_t {
    half_pixel,
    half_pixel_symmetric,
    pytorch_half_pixel,
    align_corners,
    asymmetric,
    tf_half_pixel_for_nn,
    tf_crop_and_resize
  };
  enum class Nearest : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil, simple };  // simple: opset 10
  Mode mode = Mode::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
  Nearest nearest = Nearest::round_prefer_floor;
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
  double extrapolation_value = 0;        // tf_crop_and_resize, outside the operand
  Dims sizes;                            // the result's shape
  std::vector<Real> scales;              // one an axis
  std::vector<Real> roi_start, roi_end;  // one an axis for tf_crop_and_resize, else empty
  void visit(AttributeVisitor& v) const override {
    v.integer("mode", static_cast<int64_t>(mode));
    v.integer("coordinates", static_cast<int64_t>(coordinates));
    v.integer("nearest", static_cast<int64_t>(nearest));
    v.real("cubic_a", cubic_a);
    v.integer("exclude_outside", exclude_outside);
    v.integer("antialias", antialias);
    v.real("extrapolation_value", extrapolation_value);
    v.dims("sizes", sizes);
    for (const Real scale : scales) v.real_expression("scale", scale);
    for (const Real start : roi_start) v.real_expression("roi_start", start);
    for (const Real end : roi_end) v.real_expression("roi_end", end);
  }
};
Value resize(Builder& build, Value x, ResizeAttributes attributes);

// ---- conv_transpose.cc

// x [n, c, ...], kernel [c, o / groups, ...] -> [n, o, ...] with extent (in - 1) * stride + (k - 1) * dilation + 1 -
// pad_low - pad_high. ONNX's output_padding is a smaller (also negative) pad_high.
struct ConvTransposeAttributes : Attributes {
  std::vector<int64_t> strides, dilations;
  Dims pad_low, pad_high;
  int64_t groups = 1;
  void visit(AttributeVisitor& v) const override {
    v.integers("strides", strides);
    v.integers("dilations", dilations);
    v.dims("pad_low", pad_low);
    v.dims("pad_high", pad_high);
    v.integer("groups", groups);
  }
};
Value conv_transpose(Builder& build, Value x, Value kernel, ConvTransposeAttributes attributes);

// ---- rnn.cc

// One direction of ONNX's LSTM, GRU or RNN. g = 4, 3, 1 gates, in ONNX's order (iofc, zrh, h).
// Operands: x [s, b, in], w [g h, in], r [g h, h], h0 [b, h], for LSTM c0 [b, h]; then
//   bias [2 g h] (of w, then of r), lengths [b] integers, for LSTM peephole [3 h] (i, o, f)
// Results: y [s, b, h], h [b, h], for LSTM c [b, h]. Past a sequence's length y is 0 and the state stays. `reverse`
// runs each sequence from its end.
struct RnnAttributes : Attributes {
  enum class Kind : uint8_t { lstm, gru, rnn };
  enum class Activation : uint8_t {
    sigmoid,
    tanh,
    relu,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus
  };
  Kind kind = Kind::lstm;
  bool reverse = false;
  std::vector<Activation> activations;  // lstm: f, g, h; gru: f, g; rnn: f
  std::vector<double> alpha, beta;      // one for each activation
  double clip = 0;                      // 0: none; bounds what the gates' activations get, not the memory of an LSTM
  bool input_forget = false;            // lstm: f = 1 - i
  bool linear_before_reset = false;     // gru
  bool has_bias = false, has_lengths = false, has_peephole = false;  // set by rnn()
  void visit(AttributeVisitor& v) const override {
    v.integer("kind", static_cast<int64_t>(kind));
    v.integer("reverse", reverse);
    for (const Activation activation : activations) v.integer("activation", static_cast<int64_t>(activation));
    for (const double value : alpha) v.real("alpha", value);
    for (const double value : beta) v.real("beta", value);
    v.real("clip", clip);
    v.integer("input_forget", input_forget);
    v.integer("linear_before_reset", linear_before_reset);
    v.integer("has_bias", has_bias);
    v.integer("has_lengths", has_lengths);
    v.integer("has_peephole", has_peephole);
  }
};
struct RnnOperands {
  Value x, w, r, h0, c0, bias, lengths, peephole;
};
std::vector<Value> rnn(Builder& build, const RnnOperands& operands, RnnAttributes attributes);

// ---- quantize.cc

// Scale and zero point: 0-d; or 1-D along `axis`; or with block > 0 of x's rank, one for each `block` elements along
// `axis` (the last block may be shorter).
struct QuantizeAttributes : Attributes {
  DType dtype = DType::invalid;  // of the result
  int64_t axis = 0;
  int64_t block = 0;
  bool has_zero_point = false;  // set by the functions
  void visit(AttributeVisitor& v) const override {
    v.text("dtype", name(dtype));
    v.integer("axis", axis);
    v.integer("block", block);
    v.integer("has_zero_point", has_zero_point);
  }
};
// saturate(round_half_even(x / scale) + zero_point) for integer dtypes, NaN to the least value; a saturating cast of
// x / scale for eight-bit floats. zero_point may be absent (invalid Value).
Value quantize_linear(Builder& build, Value x, Value scale, Value zero_point, QuantizeAttributes attributes);
// A scale or zero point (0-d, 1-D along `axis`, or one a block) repeated to x's shape.
Value spread_parameter(Builder& build, Value parameter, const Dims& shape, int64_t axis, int64_t block);
// (x - zero_point) * scale, the difference of integers in i32.
Value dequantize_linear(Builder& build, Value x, Value scale, Value zero_point, QuantizeAttributes attributes);

// a [..., k] times the transpose of a weight w [n, k] stored in a small integer or float type with one scale (and zero
// point) for each `block` elements along k: scales and zero points [n, ceil(k / block)]. Result [..., n] of a's dtype.
// Without zero points `zero_point` counts for all. Zero points have w's dtype or the scales'.
struct QuantizedDotAttributes : Attributes {
  int64_t block = 0;
  double zero_point = 0;
  bool has_zero_points = false;  // set by quantized_dot()
  bool may_round = false;        // a backend may round each block of a to eight bits, symmetrically
  void visit(AttributeVisitor& v) const override {
    v.integer("block", block);
    v.real("zero_point", zero_point);
    v.integer("has_zero_points", has_zero_points);
    v.integer("may_round", may_round);
  }
};
Value quantized_dot(Builder& build, Value a, Value w, Value scales, Value zero_points,
                    QuantizedDotAttributes attributes);

// ---- data_dependent.cc: the result's extent is a fresh symbol, known when the op has run. They need a scope and have
// an evaluation in place of a decomposition.

// [rank, count] i64: the indices of the elements that are not zero, in row-major order.
Value nonzero(Builder& build, Value x);

// ONNX NonMaxSuppression. boxes [b, n, 4], scores [b, c, n] (f32); max_output (i64), iou_threshold and score_threshold
// (f32) 0-d. Result [count, 3] i64: batch, class, box. Boxes below or at score_threshold are dropped (when there is
// one), and those whose IoU with a chosen one is above iou_threshold.
struct NmsAttributes : Attributes {
  bool center_point_box = false;
  bool has_score_threshold = false;  // set by nms()
  void visit(AttributeVisitor& v) const override {
    v.integer("center_point_box", center_point_box);
    v.integer("has_score_threshold", has_score_threshold);
  }
};
Value nms(Builder& build, Value boxes, Value scores, Value max_output, Value iou_threshold, Value score_threshold,
          bool center_point_box);

// ONNX Unique: the distinct elements of the flattened operand (axis -1) or the distinct slices along an axis, in
// ascending or first-come order. Results: values, first positions, inverse, counts (the last three i64).
struct UniqueAttributes : Attributes {
  int64_t axis = -1;
  bool sorted = true;
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.integer("sorted", sorted);
  }
};
std::vector<Value> unique(Builder& build, Value x, int64_t axis, bool sorted);

// The slices along an axis (-1: elements of the flattened operand) where the 1-D bool condition, which may be shorter,
// is true.
Value compress(Builder& build, Value x, Value condition, int64_t axis);

// Integers that the program computes as extents, starts and the like of what follows: defines `symbols`, one an element
// of x (i64, a constant number of elements), when it runs. The result is x.
struct ReadValuesAttributes : Attributes {
  Dims symbols;
  void visit(AttributeVisitor& v) const override { v.dims("symbols", symbols); }
};
Value read_values(Builder& build, Value x, Dims symbols);

// ---- loop.cc

// ONNX Loop and Scan. Operands: the condition before the first trip (0-d bool, if has_condition), `carried` states,
// then what every trip reads as it is. Region: (t, states..., fixed...) -> (whether to go on, if has_condition; the
// next states; a row for each stacked result); t is the number of the trip, i64.
//
// Results: the last states, then for each stacked result the rows [trips, row...]; where row_axes says an axis, the
// rows one after another along it (their extents there may differ) and a list of those extents (i64 [trips]). An extent
// of a state that differs from trip to trip, and the number of trips where a condition ends the loop, are fresh
// symbols. In the region such an extent of a state is a data-dependent symbol of its own, defined anew each trip, as is
// whatever else the region's ops define. There is no decomposition: on backends without data-dependent extents a loop
// of known length is a `while` (counted_loop.h), any other runs outside.
struct LoopAttributes : Attributes {
  Dims trips;  // one: the number of trips, at most where there is a condition; none: until the condition fails
  bool has_condition = false;
  int64_t carried = 0;
  std::vector<int64_t> row_axes;  // by stacked result; -1: a new first axis
  Dims entry;                     // ShapeScope::Local's, if the body has assertions of its own
  void visit(AttributeVisitor& v) const override {
    v.dims("trips", trips);
    v.integer("has_condition", has_condition);
    v.integer("carried", carried);
    v.integers("row_axes", row_axes);
    v.dims("entry", entry);
  }
};
std::vector<Value> loop(Builder& build, std::vector<Value> operands, LoopAttributes attributes, ProgramPtr body);

// The operand that parameter `parameter` of the region equals in every run of it; nothing for what a loop carries.
std::optional<size_t> fixed_operand(const Op& op, size_t parameter);

// Data-dependent symbols that the ops of a region define: they mean nothing outside.
std::vector<int32_t> symbols_defined_in(const Program& region);
bool reads_symbol(Dim extent, const std::vector<int32_t>& symbols);
// Sets the symbols that the extents of a result are and that are not set yet.
void define_extents(const EvaluateContext& ctx, size_t result, const Shape& shape);

// The bindings that a run of a region sees: those around it. Where the region's ops define symbols, or its parameters
// have extents of their own, a copy, in which the parameters' are set.
class RegionBindings {
 public:
  // `entry`: the symbol that says that the region runs (ShapeScope::Local); none or one.
  RegionBindings(const Program& region, const Dims& entry);
  Bindings* enter(Bindings* outer, std::span<const Tensor> operands);
  void check();  // the assertions that could only be checked inside

 private:
  bool own_ = false;  // each run has symbols of its own
  int32_t entry_ = -1;
  std::vector<std::pair<size_t, size_t>> extents_;  // parameter, axis
  std::vector<int32_t> symbols_;                    // of those
  std::optional<Bindings> inner_;
};

// ---- indices.cc

// The integer operand, where every element is in [0, extent), or with `from_end` in [-extent, extent): negative ones
// then have the extent added. One extent for all, or one for each place of the last axis. Error(invalid_input) "WHAT 7
// is out of range for extent 3" otherwise. A backend that inlines it does not check.
struct CheckedIndicesAttributes : Attributes {
  Dims extents;
  bool from_end = true;
  std::string what;
  void visit(AttributeVisitor& v) const override {
    v.dims("extents", extents);
    v.integer("from_end", from_end);
    v.text("what", what);
  }
};
Value checked_indices(Builder& build, Value indices, Dims extents, bool from_end, std::string what);

// ---- random.cc

// Independent bits, u32, a pure function of the state (u64 [2]: seed, call) and of the stream: Philox 4x32-10 with the
// key stream ^ seed (fixed: the stream alone) and the counter (block of four elements, call).
struct RandomBitsAttributes : Attributes {
  Dims shape;
  uint64_t stream = 0;
  bool fixed = false;
  void visit(AttributeVisitor& v) const override {
    v.dims("shape", shape);
    v.integer("stream", static_cast<int64_t>(stream));
    v.integer("fixed", fixed);
  }
};
Value random_bits(Builder& build, Value state, Dims shape, uint64_t stream, bool fixed = false);
// The state in trip number `trip` (0-d, i64) of a loop: another call, as random_call_in_trip gives (base/random_key.h).
Value random_state_in_trip(Builder& build, Value state, uint64_t loop, Value trip);

}  // namespace transmuter::ir
