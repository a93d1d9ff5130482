// nonzero, compress, unique, nms: ops whose result extent is known only when they have run.
#include "ir/composites/data_dependent.h"

#include <numeric>

#include "ir/composites/common.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

Dim fresh_extent(const InferContext& ctx, Dim bound) {
  ShapeScope* scope = ShapeScope::current();
  if (!scope) throw Error(ErrorCode::internal, str(ctx.primitive.name, " needs a shape scope"));
  return scope->data_dependent(bound, ctx.primitive.name);
}

// The extent `axis` of result 0 has turned out to be `count`.
void define(EvaluateContext& ctx, size_t axis, int64_t count) {
  const Dim extent = ctx.result_type().shape[axis];
  if (!extent.is_constant()) {
    ctx.define(extent, count);
    return;
  }
  if (extent.hint() != count)
    throw Error(ErrorCode::internal, str(ctx.op.primitive->name, ": ", count, " in place of ", extent.hint()));
}

// ---- nonzero

std::vector<Type> infer_nonzero(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const Type& x = ctx.operands[0];
  return {{DType::i64, {x.rank(), fresh_extent(ctx, product(x.shape))}}};
}

void evaluate_nonzero(EvaluateContext& ctx) {
  const Tensor& x = ctx.operands[0];
  std::vector<int64_t> found;
  dispatch_stored(x.dtype(), "nonzero", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < x.size(); ++i) {
      if (convert<bool>(elements<T>(x)[i])) found.push_back(i);
    }
  });
  const int64_t count = static_cast<int64_t>(found.size());
  define(ctx, 1, count);
  int64_t* out = mutable_elements<int64_t>(ctx.make_result());
  const auto strides = row_major_strides(x.shape());
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    for (const int64_t at : found) *out++ = at / strides[axis] % x.shape()[axis];
  }
}

// ---- compress

// x as [outer, extent, inner] around an axis; the flattened operand for axis -1.
struct Slices {
  int64_t outer = 1, extent = 1, inner = 1;
  Slices(const Shape& shape, int64_t axis) {
    if (axis < 0) {
      extent = element_count(shape);
      return;
    }
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
      (i < axis ? outer : i == axis ? extent : inner) *= shape[i];
  }
};

// The slices at `positions`, in that order.
void copy_slices(const Tensor& x, const Slices& slices, const std::vector<int64_t>& positions, Tensor& result) {
  dispatch_width(x.dtype(), "copying slices", [&]<class T>(TypeTag<T>) {
    T* to = mutable_elements<T>(result);
    for (int64_t o = 0; o < slices.outer; ++o) {
      for (const int64_t position : positions)
        to = std::copy_n(elements<T>(x) + (o * slices.extent + position) * slices.inner, slices.inner, to);
    }
  });
}

std::vector<Type> infer_compress(const InferContext& ctx) {
  check_operand_count(ctx, 2);
  const int64_t axis = ctx.as<AxisAttributes>().axis;
  const Type &x = ctx.operands[0], &condition = ctx.operands[1];
  ctx.check(axis >= -1 && axis < x.rank(), "C1", "axis ", axis, " must be -1 or in [0, ", x.rank(), ")");
  ctx.check(condition.dtype == DType::boolean && condition.rank() == 1, "C2", "the condition is a 1-D bool");
  const Dim extent = axis < 0 ? product(x.shape) : x.shape[axis];
  require(less_equal(condition.shape[0], extent), "compress: C3 the condition is longer than the axis");
  Dims shape = axis < 0 ? Dims{0} : x.shape;
  shape[axis < 0 ? 0 : axis] = fresh_extent(ctx, condition.shape[0]);
  return {{x.dtype, std::move(shape)}};
}

void evaluate_compress(EvaluateContext& ctx) {
  const int64_t axis = ctx.as<AxisAttributes>().axis;
  const Tensor &x = ctx.operands[0], &condition = ctx.operands[1];
  const bool* keep = elements<bool>(condition);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < condition.size(); ++i) {
    if (keep[i]) positions.push_back(i);
  }
  define(ctx, axis < 0 ? 0 : static_cast<size_t>(axis), static_cast<int64_t>(positions.size()));
  copy_slices(x, Slices(x.shape(), axis), positions, ctx.make_result());
}

// ---- unique

std::vector<Type> infer_unique(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const int64_t axis = ctx.as<UniqueAttributes>().axis;
  const Type& x = ctx.operands[0];
  ctx.check(axis >= -1 && axis < x.rank(), "C1", "axis ", axis, " must be -1 or in [0, ", x.rank(), ")");
  const Dim extent = axis < 0 ? product(x.shape) : x.shape[axis];
  const Dim count = fresh_extent(ctx, extent);
  Dims shape = axis < 0 ? Dims{0} : x.shape;
  shape[axis < 0 ? 0 : axis] = count;
  return {{x.dtype, std::move(shape)}, {DType::i64, {count}}, {DType::i64, {extent}}, {DType::i64, {count}}};
}

template <class T>
struct SliceOrder {
  const T* values;
  Slices slices;
  // Less, equal, greater: -1, 0, 1. NaN is the greatest; all NaN are one.
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < slices.outer; ++o) {
      for (int64_t i = 0; i < slices.inner; ++i) {
        const auto x = load<T>(values[(o * slices.extent + a) * slices.inner + i]);
        const auto y = load<T>(values[(o * slices.extent + b) * slices.inner + i]);
        const bool x_nan = x != x, y_nan = y != y;
        if (x_nan != y_nan) return x_nan ? 1 : -1;
        if (!x_nan && x != y) return x < y ? -1 : 1;
      }
    }
    return 0;
  }
};

void evaluate_unique(EvaluateContext& ctx) {
  const auto& attributes = ctx.as<UniqueAttributes>();
  const Tensor& x = ctx.operands[0];
  const Slices slices(x.shape(), attributes.axis);
  std::vector<int64_t> order(static_cast<size_t>(slices.extent)), first, inverse(order.size()), counts;
  std::iota(order.begin(), order.end(), 0);
  dispatch_stored(x.dtype(), "unique", [&]<class T>(TypeTag<T>) {
    const SliceOrder<T> by{elements<T>(x), slices};
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return by.compare(a, b) < 0; });
    for (const int64_t at : order) {
      if (first.empty() || by.compare(first.back(), at) != 0) {
        first.push_back(at);
        counts.push_back(0);
      }
      inverse[at] = static_cast<int64_t>(first.size()) - 1;
      ++counts.back();
    }
  });
  std::vector<int64_t> groups(first.size());  // in the order of the result
  std::iota(groups.begin(), groups.end(), 0);
  if (!attributes.sorted)
    std::sort(groups.begin(), groups.end(), [&](int64_t a, int64_t b) { return first[a] < first[b]; });
  const std::vector<int64_t> place = inverse_permutation(groups);
  define(ctx, attributes.axis < 0 ? 0 : static_cast<size_t>(attributes.axis), static_cast<int64_t>(first.size()));
  copy_slices(x, slices, pick(first, groups), ctx.make_result(0));
  const auto write = [&](size_t result, const std::vector<int64_t>& values) {
    std::copy(values.begin(), values.end(), mutable_elements<int64_t>(ctx.make_result(result)));
  };
  write(1, pick(first, groups));
  write(2, pick(place, inverse));
  write(3, pick(counts, groups));
}

// ---- nms

std::vector<Type> infer_nms(const InferContext& ctx) {
  const auto& attributes = ctx.as<NmsAttributes>();
  check_operand_count(ctx, 4u + attributes.has_score_threshold);
  const Type &boxes = ctx.operands[0], &scores = ctx.operands[1];
  ctx.check(boxes.rank() == 3 && scores.rank() == 3, "C1", "boxes and scores have rank 3");
  ctx.check(boxes.dtype == DType::f32 && scores.dtype == DType::f32, "C2", "boxes and scores are float32");
  check_same_extent(ctx, boxes.shape[0], scores.shape[0], "C3", "batch extents");
  check_same_extent(ctx, boxes.shape[1], scores.shape[2], "C4", "boxes and scores");
  check_same_extent(ctx, boxes.shape[2], 4, "C5", "coordinates of a box");
  check_scalar(ctx, ctx.operands[2], "C6", "max_output");
  ctx.check(ctx.operands[2].dtype == DType::i64, "C6", "max_output is int64");
  for (const Type& threshold : ctx.operands.subspan(3)) {
    check_scalar(ctx, threshold, "C7", "a threshold");
    ctx.check(threshold.dtype == DType::f32, "C7", "thresholds are float32");
  }
  return {{DType::i64, {fresh_extent(ctx, product(scores.shape)), 3}}};
}

struct Box {
  float y0, x0, y1, x1;
};

Box box_at(const float* p, bool center) {
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0), width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return false;
  const float area_a = (a.y1 - a.y0) * (a.x1 - a.x0), area_b = (b.y1 - b.y0) * (b.x1 - b.x0);
  if (area_a <= 0 || area_b <= 0) return false;
  const float both = height * width, either = area_a + area_b - both;
  return either > 0 && both / either > threshold;
}

void evaluate_nms(EvaluateContext& ctx) {
  const auto& attributes = ctx.as<NmsAttributes>();
  const Tensor &boxes = ctx.operands[0], &scores = ctx.operands[1];
  const int64_t most = elements<int64_t>(ctx.operands[2])[0], count = boxes.dim(1);
  const float iou = elements<float>(ctx.operands[3])[0];
  std::vector<int64_t> out;
  for (int64_t line = 0; line < scores.dim(0) * scores.dim(1); ++line) {
    const int64_t batch = line / scores.dim(1), category = line % scores.dim(1);
    const float* score = elements<float>(scores) + line * count;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i) {
      if (!attributes.has_score_threshold || score[i] > elements<float>(ctx.operands[4])[0]) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return score[a] > score[b] || (score[a] == score[a] && score[b] != score[b]);  // NaN comes last
    });
    std::vector<Box> chosen;
    for (const int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box box = box_at(elements<float>(boxes) + (batch * count + i) * 4, attributes.center_point_box);
      const bool covered =
          std::any_of(chosen.begin(), chosen.end(), [&](const Box& other) { return overlaps(box, other, iou); });
      if (covered) continue;
      chosen.push_back(box);
      out.insert(out.end(), {batch, category, i});
    }
  }
  define(ctx, 0, static_cast<int64_t>(out.size() / 3));
  std::copy(out.begin(), out.end(), mutable_elements<int64_t>(ctx.make_result()));
}

// ---- read_values

std::vector<Type> infer_read_values(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const Type& x = ctx.operands[0];
  const size_t count = ctx.as<ReadValuesAttributes>().symbols.size();
  ctx.check(x.dtype == DType::i64, "C1", "the values are int64");
  ctx.check(provably_eq(product(x.shape), static_cast<int64_t>(count)), "C2", "one symbol an element: ", count, " for ",
            to_string(x));
  return {x};
}

void evaluate_read_values(EvaluateContext& ctx) {
  const Dims& symbols = ctx.as<ReadValuesAttributes>().symbols;
  const Tensor& x = ctx.operands[0];
  for (size_t i = 0; i < symbols.size(); ++i) ctx.define(symbols[i], elements<int64_t>(x)[i]);
  ctx.results = {x};
}

}  // namespace

const Primitive composite::nonzero{
    .name = "nonzero", .infer = infer_nonzero, .evaluate = evaluate_nonzero, .print = print_custom_call};
const Primitive composite::compress{
    .name = "compress", .infer = infer_compress, .evaluate = evaluate_compress, .print = print_custom_call};
const Primitive composite::unique{
    .name = "unique", .infer = infer_unique, .evaluate = evaluate_unique, .print = print_custom_call};
const Primitive composite::nms{.name = "nms", .infer = infer_nms, .evaluate = evaluate_nms, .print = print_custom_call};

const Primitive composite::read_values{
    .name = "read_values", .infer = infer_read_values, .evaluate = evaluate_read_values, .print = print_custom_call};

bool defines_symbols(const Op& op) {
  const Primitive* p = op.primitive;
  return !op.regions.empty() || p == &composite::nonzero || p == &composite::nms || p == &composite::unique ||
         p == &composite::compress || p == &composite::read_values;
}

Value read_values(Builder& build, Value x, Dims symbols) {
  auto attributes = std::make_shared<ReadValuesAttributes>();
  attributes->symbols = std::move(symbols);
  return build.emit1(composite::read_values, {x}, std::move(attributes));
}

Value nonzero(Builder& build, Value x) { return build.emit1(composite::nonzero, {x}); }

Value compress(Builder& build, Value x, Value condition, int64_t axis) {
  return build.emit1(composite::compress, {x, condition}, std::make_shared<AxisAttributes>(axis));
}

std::vector<Value> unique(Builder& build, Value x, int64_t axis, bool sorted) {
  auto attributes = std::make_shared<UniqueAttributes>();
  attributes->axis = axis;
  attributes->sorted = sorted;
  return build.emit(composite::unique, {x}, std::move(attributes));
}

Value nms(Builder& build, Value boxes, Value scores, Value max_output, Value iou_threshold, Value score_threshold,
          bool center_point_box) {
  auto attributes = std::make_shared<NmsAttributes>();
  attributes->center_point_box = center_point_box;
  attributes->has_score_threshold = static_cast<bool>(score_threshold);
  return build.emit1(composite::nms, present({boxes, scores, max_output, iou_threshold, score_threshold}),
                     std::move(attributes));
}

}  // namespace transmuter::ir
