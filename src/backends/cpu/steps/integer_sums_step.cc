// Convolutions of bytes with fixed filters, exact in int32 (ConvInteger, QLinearConv): windows of bytes are laid out as
// rows, some pixels at a time, and multiplied by the packed filters. Channels last. The filters may have a zero point.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/integer_product.h"
#include "backends/cpu/steps/windows_between.h"
#include "base/strings.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// So many bytes of windows at a time: they stay in the cache until they are read.
constexpr int64_t kRowBytes = int64_t{1} << 20;

struct Filters {
  std::shared_ptr<const Packed> packed;
  bool is_signed;
  std::vector<int32_t> zeros;  // of the output channels; empty: 0
};

// The bytes that pixel `pixel` of image `image` sees, taps outermost; outside of the image they are `outside`.
void window(const Windows& w, int64_t channels, const uint8_t* x, int64_t image, int64_t pixel, uint8_t* to) {
  const int64_t at[3] = {pixel / (w.out[1] * w.out[2]), pixel / w.out[2] % w.out[1], pixel % w.out[2]};
  const uint8_t* from = x + image * w.in_pixels() * channels;
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    const int64_t step[3] = {tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1], tap % w.kernel[2]};
    int64_t place = 0;
    bool inside = true;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t position = at[i] * w.stride[i] + step[i] * w.dilation[i] - w.pad[i];
      inside = inside && position >= 0 && position < w.in[i];
      place = place * w.in[i] + position;
    }
    if (inside) {
      std::memcpy(to, from + place * channels, static_cast<size_t>(channels));
    } else {
      std::memset(to, 0, static_cast<size_t>(channels));
    }
    to += channels;
  }
}

class IntegerSumsStep : public Step {
 public:
  IntegerSumsStep(const ir::Op& op, bool x_signed, Shape shape, Filters filters)
      : attributes_(op.as<ir::ConvolutionAttributes>()),
        x_(op.operands[0]),
        result_(op.results[0]),
        x_signed_(x_signed),
        shape_(std::move(shape)),
        filters_(std::move(filters)) {
    reads = {x_};
    writes = {result_};
  }

  void bind(Binder& bind) const override {
    bind.channels_last(x_);
    bind.untouch();
    const View x = bind.view(x_);
    const View y = bind.allocate(result_, channels_last_order(x.rank()));
    if (y.size() == 0) return bind.untouch();
    const int64_t channels = x.dim(1);
    const Windows w = windows_between(x.shape, y.shape, shape_, attributes_.strides, attributes_.rhs_dilation,
                                      bind.values(attributes_.pad_low));
    QgemmArgs g;
    g.n = y.dim(1);
    g.k = channels * w.taps();
    const int64_t rows = y.size() / g.n;
    g.m = std::min(rows, std::max<int64_t>(64, kRowBytes / g.k));
    g.a_signed = x_signed_, g.a_row = g.k;
    g.b_signed = filters_.is_signed;
    g.b_zero = filters_.zeros.empty() ? nullptr : filters_.zeros.data();
    g.b_zero_per_column = true;
    g.c_row = g.n;
    const int32_t scratch = bind.scratch(static_cast<int64_t>(qgemm_scratch_bytes(g, bind.threads())));
    const int32_t block = bind.scratch(g.m * g.k);
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(g.n) * static_cast<double>(g.k);
    bind.launch("qgemm-sums", flops,
                [g, w, rows, channels, scratch, block, packed = filters_.packed, x = Place(x),
                 y = Place(y)](const RunContext& run) {
                  const auto* from = run.at<const uint8_t>(x);
                  auto* patches = run.scratch<uint8_t>(block);
                  QgemmArgs args = g;
                  args.packed_b = packed->bytes;
                  args.a = patches;
                  for (int64_t first = 0; first < rows; first += g.m) {
                    args.m = std::min(g.m, rows - first);
                    run.pool.parallel_for(args.m, grain_for(g.k), [&](int64_t begin, int64_t end) {
                      for (int64_t row = begin; row < end; ++row) {
                        const int64_t pixel = first + row;
                        window(w, channels, from, pixel / w.out_pixels(), pixel % w.out_pixels(), patches + row * g.k);
                      }
                    });
                    args.sums = run.at<int32_t>(y) + first * g.n;
                    qgemm(args, run.scratch(scratch), run.pool);
                  }
                });
  }

 private:
  const ir::ConvolutionAttributes attributes_;
  const ir::Value x_, result_;
  const bool x_signed_;
  const Shape shape_;
  const Filters filters_;
};

// Filters that are a weight of bytes, or (i16) such a weight less the zero point of each channel.
struct FixedFilters {
  ir::Value weight;
  std::vector<int32_t> zeros;
};
std::optional<FixedFilters> match_filters(const Planner& planner, ir::Value v) {
  const auto is_weight = [&](ir::Value x) { return planner.constant(x) && eight_bits(planner.type(x).dtype); };
  if (is_weight(v)) return FixedFilters{v, {}};
  const ir::Op* less = planner.definition(v);
  if (!less || less->primitive != &ir::prim::subtract || planner.type(v).dtype != DType::i16) return {};
  const ir::Op* widened = planner.definition(less->operands[0]);
  if (!widened || widened->primitive != &ir::prim::convert || !is_weight(widened->operands[0])) return {};
  int64_t axis;
  const auto zeros = fixed_numbers(planner, less->operands[1], axis);
  const auto channels = static_cast<size_t>(planner.type(v).shape[0].hint());
  if (!zeros || (axis != -1 && (axis != 0 || zeros->size() != channels))) return {};
  FixedFilters filters{widened->operands[0], {}};
  for (size_t i = 0; i < channels; ++i) filters.zeros.push_back(static_cast<int32_t>((*zeros)[axis == -1 ? 0 : i]));
  return filters;
}

}  // namespace

bool plan_integer_convolution(Planner& planner, const ir::Op& op) {
  const auto& c = op.as<ir::ConvolutionAttributes>();
  const ir::Type &x = planner.type(op.operands[0]), &filters = planner.type(op.operands[1]);
  if (planner.type(op.results[0]).dtype != DType::i32 || !eight_bits(x.dtype)) return false;
  const bool plain = std::all_of(c.lhs_dilation.begin(), c.lhs_dilation.end(), [](int64_t d) { return d == 1; });
  if (x.rank() < 3 || x.rank() > 5 || c.feature_groups != 1 || c.batch_groups != 1 || !plain) {
    planner.refuse(op, "qgemm-sums", "takes one to three axes, no groups, no holes in the image");
    return false;
  }
  Shape shape;
  for (const Dim& extent : filters.shape) {
    if (!extent.is_constant()) return false;
    shape.push_back(extent.hint());
  }
  const int64_t n = shape[0], channels = shape[1], count = element_count(shape);
  // Beyond, the sums might not fit 32 bits.
  if (count == 0 || count / n > (int64_t{1} << 31) / (255 * 255) - 1) return false;
  auto fixed = match_filters(planner, op.operands[1]);
  if (!fixed) {
    planner.refuse(op, "qgemm-sums", "takes fixed filters of bytes");
    return false;
  }
  const Tensor& weight = *planner.constant(fixed->weight);
  const bool is_signed = weight.dtype() == DType::i8;
  const int64_t depth = count / n, taps = depth / channels;
  const auto make = [&] {
    const std::byte* from = planner.aligned_bytes(weight);
    std::vector<std::byte> last(static_cast<size_t>(count));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < channels; ++i) {
        for (int64_t t = 0; t < taps; ++t)
          last[static_cast<size_t>(j * depth + t * channels + i)] = from[j * depth + i * taps + t];
      }
    }
    auto packed = std::make_shared<Packed>(planner.packed_memory(), packed_qb_bytes(depth, n), weight.dtype());
    pack_qb(depth, n, last.data(), is_signed, 1, depth, packed->bytes, planner.pool());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  const std::string key = str("qgemm sums ", reinterpret_cast<uintptr_t>(weight.bytes()), " ", depth, " ", n);
  auto packed = planner.has_lasting_address(fixed->weight) ? planner.store().get<Packed>(key, weight, make) : make();
  absorb_unread(planner, op.operands[1], op, op.operands[0]);
  planner.absorb(op);
  auto step = std::make_unique<IntegerSumsStep>(op, x.dtype == DType::i8, std::move(shape),
                                                Filters{std::move(packed), is_signed, std::move(fixed->zeros)});
  step->location = op.location;
  planner.move_to(std::move(step), op);
  return true;
}

}  // namespace transmuter::cpu
