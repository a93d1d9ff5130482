// Resize and Upsample. Opset 10 and Upsample place results at index / scale; from 11 on coordinate_transformation_mode
// says where, from 18 on `axes` names what scales, sizes and roi are of.
#include <cmath>

#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using Coordinates = ir::ResizeAttributes::Coordinates;
using Mode = ir::ResizeAttributes::Mode;
using Nearest = ir::ResizeAttributes::Nearest;

template <class T>
struct Word {
  const char* name;
  T value;
};

template <class T, size_t n>
T pick(OpContext& op, const char* attribute, const Word<T> (&words)[n]) {
  const std::string given = op.attribute_string(attribute, words[0].name);
  for (const Word<T>& word : words)
    if (given == word.name) return word.value;
  op.invalid(attribute, " ", given, " is not one of the operator's");
}

// The first is the default.
constexpr Word<Mode> kModes[] = {
    {"nearest", Mode::nearest}, {"linear", Mode::linear}, {"bilinear", Mode::linear}, {"cubic", Mode::cubic}};
constexpr Word<Coordinates> kCoordinates[] = {{"half_pixel", Coordinates::half_pixel},
                                              {"half_pixel_symmetric", Coordinates::half_pixel_symmetric},
                                              {"pytorch_half_pixel", Coordinates::pytorch_half_pixel},
                                              {"align_corners", Coordinates::align_corners},
                                              {"asymmetric", Coordinates::asymmetric},
                                              {"tf_half_pixel_for_nn", Coordinates::tf_half_pixel_for_nn},
                                              {"tf_crop_and_resize", Coordinates::tf_crop_and_resize}};
constexpr Word<Nearest> kNearest[] = {{"round_prefer_floor", Nearest::round_prefer_floor},
                                      {"round_prefer_ceil", Nearest::round_prefer_ceil},
                                      {"floor", Nearest::floor},
                                      {"ceil", Nearest::ceil}};
enum class Policy : uint8_t { stretch, not_larger, not_smaller };
constexpr Word<Policy> kPolicies[] = {
    {"stretch", Policy::stretch}, {"not_larger", Policy::not_larger}, {"not_smaller", Policy::not_smaller}};

// floor(extent * scale), as the product of f32 is. Whole scales and halves stay arithmetic of extents.
Dim scaled_extent(OpContext& op, Dim extent, Real scale) {
  if (!scale.is_constant() || extent.is_constant())
    return dim_from(real_binary(RealOp::mul, real_from(extent, RealDType::f32), scale, RealDType::f32));
  const double factor = scale.hint();
  op.check(factor > 0 && std::isfinite(factor), "a scale must be positive, is ", factor);
  if (factor == std::floor(factor) && factor < (1 << 20)) return extent * Dim(static_cast<int64_t>(factor));
  int exponent = 0;
  if (factor < 1 && factor > 1e-6 && std::frexp(factor, &exponent) == 0.5)
    return floor_div(extent, int64_t{1} << (1 - exponent));
  return dim_from(real_binary(RealOp::mul, real_from(extent, RealDType::f32), scale, RealDType::f32));
}

Real ratio(Dim size, Dim extent) {
  return real_binary(RealOp::div, real_from(size, RealDType::f32), real_from(extent, RealDType::f32), RealDType::f32);
}

std::vector<int64_t> read_axes(OpContext& op) {
  const int64_t rank = op.rank(0);
  std::vector<int64_t> axes;
  if (op.version() >= 18) axes = op.attribute_ints_optional("axes").value_or(std::vector<int64_t>{});
  axes = normalised_axes(op, std::move(axes), rank);
  if (axes.empty())
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

bool given(OpContext& op, size_t i) { return op.has_input(i) && !(op.rank(i) == 1 && provably_eq(op.shape(i)[0], 0)); }

void set_scales(OpContext& op, ir::ResizeAttributes& resize, const std::vector<int64_t>& axes,
                const std::vector<Real>& scales) {
  op.check(scales.size() == axes.size(), "scales must have ", axes.size(), " entries, has ", scales.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(axes[i]);
    op.check(scales[i].hint() > 0, "a scale must be positive, is ", scales[i].hint());
    resize.scales[axis] = scales[i];
    resize.sizes[axis] = scaled_extent(op, op.shape(0)[axis], scales[i]);
  }
}

void set_sizes(OpContext& op, ir::ResizeAttributes& resize, const std::vector<int64_t>& axes, const Dims& sizes,
               Policy policy) {
  op.check(sizes.size() == axes.size(), "sizes must have ", axes.size(), " entries, has ", sizes.size());
  Real common;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(axes[i]);
    op.check(sizes[i].hint() >= 0, "a size must not be negative, is ", sizes[i].hint());
    resize.sizes[axis] = sizes[i];
    const bool same = provably_eq(sizes[i], op.shape(0)[axis]);
    resize.scales[axis] = same ? Real(1.0) : ratio(sizes[i], op.shape(0)[axis]);
    const RealOp narrower = policy == Policy::not_larger ? RealOp::min : RealOp::max;
    common = i == 0 ? resize.scales[axis] : real_binary(narrower, common, resize.scales[axis], RealDType::f32);
  }
  if (policy == Policy::stretch) return;
  for (int64_t at : axes) {
    const size_t axis = static_cast<size_t>(at);
    resize.scales[axis] = common;
    const Real size = real_binary(RealOp::mul, real_from(op.shape(0)[axis], RealDType::f32), common, RealDType::f32);
    const Real shifted = real_binary(RealOp::add, size, Real(0.5), RealDType::f32);
    resize.sizes[axis] = dim_from(real_unary(RealOp::floor, shifted, RealDType::f32));
  }
}

void set_regions(OpContext& op, ir::ResizeAttributes& resize, const std::vector<int64_t>& axes, size_t input) {
  resize.roi_start.assign(resize.sizes.size(), Real(0.0));
  resize.roi_end.assign(resize.sizes.size(), Real(1.0));
  op.check(given(op, input), "tf_crop_and_resize needs roi");
  const std::vector<Real> roi = op.require_reals(input);
  op.check(roi.size() == 2 * axes.size(), "roi must have ", 2 * axes.size(), " entries, has ", roi.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    resize.roi_start[static_cast<size_t>(axes[i])] = roi[i];
    resize.roi_end[static_cast<size_t>(axes[i])] = roi[axes.size() + i];
  }
}

ir::ResizeAttributes identity_of(OpContext& op) {
  ir::ResizeAttributes resize;
  resize.sizes = op.shape(0);
  resize.scales.assign(resize.sizes.size(), Real(1.0));
  return resize;
}

void resize_op(OpContext& op) {
  ir::ResizeAttributes resize = identity_of(op);
  resize.mode = pick(op, "mode", kModes);
  if (op.version() < 11) {
    resize.coordinates = Coordinates::asymmetric;
    resize.nearest = Nearest::simple;
    set_scales(op, resize, read_axes(op), op.require_reals(1));
    return op.output(0, ir::resize(op.build(), op.input(0), std::move(resize)));
  }
  resize.coordinates = pick(op, "coordinate_transformation_mode", kCoordinates);
  resize.nearest = pick(op, "nearest_mode", kNearest);
  resize.cubic_a = op.attribute_float("cubic_coeff_a", -0.75F);
  resize.exclude_outside = op.attribute_int("exclude_outside", 0) != 0;
  resize.extrapolation_value = op.attribute_float("extrapolation_value", 0.0F);
  Policy policy = Policy::stretch;
  if (op.version() >= 18) {
    resize.antialias = op.attribute_int("antialias", 0) != 0;
    policy = pick(op, "keep_aspect_ratio_policy", kPolicies);
  }
  const std::vector<int64_t> axes = read_axes(op);
  const bool by_sizes = given(op, 3);
  op.check(by_sizes != given(op, 2), "either scales or sizes must be given");
  if (by_sizes)
    set_sizes(op, resize, axes, op.require_dims(3), policy);
  else
    set_scales(op, resize, axes, op.require_reals(2));
  if (resize.coordinates == Coordinates::tf_crop_and_resize) set_regions(op, resize, axes, 1);
  op.output(0, ir::resize(op.build(), op.input(0), std::move(resize)));
}

// Scales: attributes of height and width in opset 1, a list in 7, an input in 9.
void upsample(OpContext& op) {
  op.check(op.version() < 10, "was removed in opset 10 in favour of Resize");
  ir::ResizeAttributes resize = identity_of(op);
  resize.mode = pick(op, "mode", kModes);
  resize.coordinates = Coordinates::asymmetric;
  resize.nearest = Nearest::floor;
  std::vector<Real> scales;
  if (op.version() >= 9) {
    scales = op.require_reals(1);
  } else if (op.version() >= 7) {
    const std::vector<float> given = op.attribute_floats("scales", {});
    scales.assign(given.begin(), given.end());
  } else {
    scales = {1.0, 1.0, op.attribute_float("height_scale"), op.attribute_float("width_scale")};
  }
  set_scales(op, resize, read_axes(op), scales);
  op.output(0, ir::resize(op.build(), op.input(0), std::move(resize)));
}

}  // namespace

void register_resize(Registry& r) {
  r.add("Resize", {10, 11, 13, 18, 19}, resize_op);
  r.add("Upsample", {1, 7, 9}, upsample);
}

}  // namespace transmuter::ops
