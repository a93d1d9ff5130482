#include "backends/pjrt/products.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/passes/copier.h"
#include "ir/passes/match.h"
#include "ir/primitives/primitives.h"

namespace transmuter::pjrt {

using ir::Builder;
using ir::Copier;
using ir::Op;
using ir::Program;
using ir::Value;

namespace {

constexpr int64_t kExact = int64_t{1} << 24;  // float32 holds all integers up to here
constexpr int64_t kMostPieces = 32;

// Finds how large the integers of a value can be.
class Ranges {
 public:
  explicit Ranges(const Program& program) : match_(program) {}

  std::optional<Interval> of(Value value, int depth = 8) const {
    const DType dtype = match_.type(value).dtype;
    if (dtype == DType::boolean) return Interval{0, 1};
    if (!is_integer(dtype)) return std::nullopt;
    const int bits = bit_width(dtype);
    if (bits <= 8) {
      const int64_t count = int64_t{1} << bits;
      return is_unsigned_integer(dtype) ? Interval{0, count - 1} : Interval{-count / 2, count / 2 - 1};
    }
    const Op* op = match_.definition(value);
    if (!op || depth == 0) return std::nullopt;
    const ir::Primitive* p = op->primitive;
    const bool moves = p == &ir::prim::convert || p == &ir::prim::broadcast_in_dim || p == &ir::prim::reshape ||
                       p == &ir::prim::transpose || p == &ir::prim::slice;
    if (moves) return of(op->operands[0], depth - 1);
    if (p != &ir::prim::subtract) return std::nullopt;
    const auto a = of(op->operands[0], depth - 1), b = of(op->operands[1], depth - 1);
    if (!a || !b) return std::nullopt;
    return Interval{a->low - b->high, a->high - b->low};
  }

  // The number of products whose sum is exact; 0: none.
  int64_t exact_terms(Value x, Value y) const {
    const auto a = of(x), b = of(y);
    if (!a || !b) return 0;
    const int64_t most = std::max({int64_t{1}, -a->low, a->high}) * std::max({int64_t{1}, -b->low, b->high});
    return kExact / most;
  }

 private:
  const ir::Matcher match_;
};

// `product(x, y)` of pieces along an axis of each, `extent` long, summed.
template <class Product>
Value in_pieces(Builder& build, Value x, int64_t x_axis, Value y, int64_t y_axis, int64_t extent, int64_t most,
                const Product& product) {
  Value sum;
  for (int64_t start = 0; start < extent || start == 0; start += most) {
    const int64_t limit = std::min(extent, start + most);
    const Value part = product(build.slice_axis(x, x_axis, start, limit), build.slice_axis(y, y_axis, start, limit));
    sum = sum ? build.add(sum, part) : part;
  }
  return sum;
}

// False: it stays as it is.
bool convolve(Copier& copier, const Op& op, const Ranges& ranges) {
  Builder& build = copier.build();
  auto conv = op.as<ir::ConvolutionAttributes>();
  const Dims& kernel = copier.from().type(op.operands[1]).shape;
  int64_t taps = 1;
  for (size_t axis = 1; axis < kernel.size(); ++axis) {
    if (!kernel[axis].is_constant() || kernel[axis].hint() <= 0) return false;
    if (axis > 1) taps *= kernel[axis].hint();
  }
  const int64_t channels = kernel[1].hint(), most = ranges.exact_terms(op.operands[0], op.operands[1]) / taps;
  if (most == 0 || channels > most * (conv.feature_groups == 1 ? kMostPieces : 1)) return false;
  const DType dtype = std::exchange(conv.dtype, DType::f32);
  const Value x = build.convert(copier[op.operands[0]], DType::f32),
              w = build.convert(copier[op.operands[1]], DType::f32);
  const auto product = [&](Value a, Value b) { return build.convert(build.convolution(a, b, conv), dtype); };
  copier.set(op.results[0], channels <= most ? product(x, w) : in_pieces(build, x, 1, w, 1, channels, most, product));
  return true;
}

bool dot(Copier& copier, const Op& op, const Ranges& ranges) {
  Builder& build = copier.build();
  auto attributes = op.as<ir::DotGeneralAttributes>();
  if (attributes.lhs_contracting.size() != 1) return false;
  const int64_t x_axis = attributes.lhs_contracting[0], y_axis = attributes.rhs_contracting[0];
  const Dim extent = copier.from().type(op.operands[1]).shape[static_cast<size_t>(y_axis)];
  const int64_t most = ranges.exact_terms(op.operands[0], op.operands[1]);
  if (!extent.is_constant() || most == 0 || extent.hint() > most * kMostPieces) return false;
  const DType dtype = std::exchange(attributes.dtype, DType::f32);
  const Value x = build.convert(copier[op.operands[0]], DType::f32),
              y = build.convert(copier[op.operands[1]], DType::f32);
  const auto product = [&](Value a, Value b) { return build.convert(build.dot_general(a, b, attributes), dtype); };
  copier.set(op.results[0], extent.hint() <= most
                                ? product(x, y)
                                : in_pieces(build, x, x_axis, y, y_axis, extent.hint(), most, product));
  return true;
}

}  // namespace

Program products_in_floats(const Program& program) {
  const Ranges ranges(program);
  Copier copier(program);
  for (const Op& op : program.ops()) {
    copier.locate(op);
    const bool integers = op.results.size() == 1 && is_integer(program.type(op.results[0]).dtype) &&
                          bit_width(program.type(op.results[0]).dtype) >= 32;
    if (integers && op.primitive == &ir::prim::convolution && convolve(copier, op, ranges)) continue;
    if (integers && op.primitive == &ir::prim::dot_general && dot(copier, op, ranges)) continue;
    copier.copy(op, ir::changed_regions(op, products_in_floats));
  }
  return copier.finish();
}

}  // namespace transmuter::pjrt
