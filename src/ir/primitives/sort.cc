// sort: StableHLO sort of several operands along an axis by the first `keys` of them. -0 equals 0; NaN is the greatest
// value, or last in either direction with nan_last. The reference sort is always stable.
#include <numeric>

#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/walk.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  const auto& sort = ctx.as<SortAttributes>();
  ctx.check(!ctx.operands.empty(), "C1", "takes at least one operand");
  ctx.check(sort.keys >= 1 && sort.keys <= static_cast<int64_t>(ctx.operands.size()), "C6", sort.keys, " keys for ",
            ctx.operands.size(), " operands");
  check_axes(ctx, {sort.axis}, ctx.operands[0].rank(), "C4", "axis");
  for (const Type& type : ctx.operands) check_same_shape(ctx, ctx.operands[0], type, "C2");
  for (int64_t i = 0; i < sort.keys; ++i) {
    const DType dtype = ctx.operands[static_cast<size_t>(i)].dtype;
    ctx.check(dtype == DType::boolean || is_integer(dtype) || is_float(dtype), "C5", "no order among ", name(dtype));
  }
  return {ctx.operands.begin(), ctx.operands.end()};
}

template <class T>
bool before(T a, T b, const SortAttributes& sort) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return sort.descending && !sort.nan_last ? a_nan && !b_nan : b_nan && !a_nan;
  return sort.descending ? a > b : a < b;
}

// Sorts the line positions by one key; keys are applied from the last to the first, each time stably.
void sort_by(const Tensor& key, const SortAttributes& sort, int64_t line, int64_t stride, std::vector<int64_t>& order) {
  dispatch_stored(key.dtype(), "sort", [&]<class T>(TypeTag<T>) {
    const T* values = elements<T>(key) + line;
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      if constexpr (is_small_float<T>)
        return before(to_float(values[i * stride]), to_float(values[j * stride]), sort);
      else
        return before(values[i * stride], values[j * stride], sort);
    });
  });
}

void evaluate(EvaluateContext& ctx) {
  const auto& sort = ctx.as<SortAttributes>();
  const Shape shape = ctx.operands[0].shape();
  const auto strides = row_major_strides(shape);
  const int64_t extent = shape[static_cast<size_t>(sort.axis)], stride = strides[static_cast<size_t>(sort.axis)];
  for (size_t i = 0; i < ctx.operands.size(); ++i) ctx.make_result(i);
  const auto lines = other_axes(static_cast<int64_t>(shape.size()), {sort.axis});
  walk<1>(pick(shape, lines), {pick(strides, lines)}, [&](const auto& line) {
    std::vector<int64_t> order(static_cast<size_t>(extent));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t key = sort.keys; key-- > 0;)
      sort_by(ctx.operands[static_cast<size_t>(key)], sort, line[0], stride, order);
    for (size_t i = 0; i < ctx.operands.size(); ++i) {
      dispatch_width(ctx.operands[i].dtype(), "sort", [&]<class T>(TypeTag<T>) {
        const T* from = elements<T>(ctx.operands[i]) + line[0];
        T* to = mutable_elements<T>(ctx.results[i]) + line[0];
        for (const int64_t position : order) {
          *to = from[position * stride];
          to += stride;
        }
      });
    }
  });
}

// Sorting the positions along gives the permutation; sorting the gradients by it brings them home.
std::vector<Value> vjp(VjpContext& ctx) {
  Builder& build = ctx.build;
  const auto& sort = ctx.op.as<SortAttributes>();
  std::vector<Value> keyed(ctx.operands.begin(), ctx.operands.begin() + sort.keys);
  keyed.push_back(build.iota(DType::i64, build.shape(ctx.operands[0]), sort.axis));
  const Value origin = build.sort(keyed, sort).back();
  SortAttributes home;
  home.axis = sort.axis;
  std::vector<Value> back{origin}, gradients(ctx.operands.size());
  for (const Value gradient : ctx.gradients) {
    if (gradient) back.push_back(gradient);
  }
  back = build.sort(back, home);
  size_t next = 1;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (ctx.gradients[i]) gradients[i] = back[next++];
  }
  return gradients;
}

// A comparator body: names are numbered within the op.
class ComparatorText {
 public:
  ComparatorText(const PrintContext& ctx, const SortAttributes& sort) : ctx_(ctx), sort_(sort) {}

  std::string text() {
    const size_t operands = ctx_.op.operands.size();
    std::string arguments;
    for (size_t i = 0; i < operands; ++i) {
      const std::string type = scalar_type(i);
      arguments += str(i ? ", " : "", value("a", i), ": ", type, ", ", value("b", i), ": ", type);
    }
    std::string result;
    for (size_t key = static_cast<size_t>(sort_.keys); key-- > 0;) {
      const std::string less = before(key, "a", "b");
      if (result.empty()) {
        result = less;
        continue;
      }
      const std::string greater = before(key, "b", "a");
      const std::string equal = unary("not", binary("or", less, greater));
      result = binary("or", less, binary("and", equal, result));
    }
    return str("({ ^bb0(", arguments, "):", body_, " \"stablehlo.return\"(", result, ") : (tensor<i1>) -> () })");
  }

 private:
  std::string value(const char* side, size_t operand) const {
    return str("%", side, operand, "_", ctx_.op.results[0].id);
  }
  std::string scalar_type(size_t operand) const {
    return ctx_.type_text(Type{ctx_.program.type(ctx_.op.operands[operand]).dtype, {}});
  }
  std::string fresh() { return str("%t", next_++, "_", ctx_.op.results[0].id); }
  std::string unary(const char* op, const std::string& a) {
    const std::string out = fresh();
    body_ += str(" ", out, " = \"stablehlo.", op, "\"(", a, ") : (tensor<i1>) -> tensor<i1>");
    return out;
  }
  std::string binary(const char* op, const std::string& a, const std::string& b) {
    const std::string out = fresh();
    body_ += str(" ", out, " = \"stablehlo.", op, "\"(", a, ", ", b, ") : (tensor<i1>, tensor<i1>) -> tensor<i1>");
    return out;
  }
  std::string compare(const char* direction, size_t key, const std::string& a, const std::string& b) {
    const std::string out = fresh(), type = scalar_type(key);
    body_ += str(" ", out, " = \"stablehlo.compare\"(", a, ", ", b,
                 ") {comparison_direction = #stablehlo<comparison_direction ", direction, ">} : (", type, ", ", type,
                 ") -> tensor<i1>");
    return out;
  }
  std::string before(size_t key, const char* left, const char* right) {
    const std::string a = value(left, key), b = value(right, key);
    const std::string ordered = compare(sort_.descending ? "GT" : "LT", key, a, b);
    if (!is_float(ctx_.program.type(ctx_.op.operands[key]).dtype)) return ordered;
    const std::string a_nan = compare("NE", key, a, a), b_nan = compare("NE", key, b, b);
    const bool nan_first = sort_.descending && !sort_.nan_last;
    return binary("or", ordered,
                  nan_first ? binary("and", a_nan, unary("not", b_nan)) : binary("and", b_nan, unary("not", a_nan)));
  }

  const PrintContext& ctx_;
  const SortAttributes& sort_;
  std::string body_;
  int next_ = 0;
};

PrintedOp print(const PrintContext& ctx) {
  const auto& sort = ctx.op.as<SortAttributes>();
  PrintedOp out;
  out.attributes = str("dimension = ", sort.axis, " : i64, is_stable = ", sort.stable ? "true" : "false");
  out.regions = ComparatorText(ctx, sort).text();
  return out;
}

}  // namespace

const Primitive prim::sort{.name = "sort", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

std::vector<Value> Builder::sort(std::vector<Value> xs, SortAttributes attributes) {
  return emit(prim::sort, std::move(xs), std::make_shared<SortAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
