#include "backends/cpu/kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/target.h"
#include "base/strings.h"
#include "tensor/cast.h"
#include "transmuter/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/quantize-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(add_bytes_run);
HWY_EXPORT(quantize_u8);
HWY_EXPORT(quantize_i8);
HWY_EXPORT(quantize_u16);
HWY_EXPORT(quantize_i16);
HWY_EXPORT(dequantize_u8);
HWY_EXPORT(dequantize_i8);
HWY_EXPORT(dequantize_u16);
HWY_EXPORT(dequantize_i16);
HWY_EXPORT(range_of);

namespace {

void quantize(const float* x, uint8_t* out, const float* scales, const uint8_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(quantize_u8)(x, out, scales, zeros, vary, n);
}
void quantize(const float* x, int8_t* out, const float* scales, const int8_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(quantize_i8)(x, out, scales, zeros, vary, n);
}
void quantize(const float* x, uint16_t* out, const float* scales, const uint16_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(quantize_u16)(x, out, scales, zeros, vary, n);
}
void quantize(const float* x, int16_t* out, const float* scales, const int16_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(quantize_i16)(x, out, scales, zeros, vary, n);
}
// Not every i32 is a float: in double.
void quantize(const float* x, int32_t* out, const float* scales, const int32_t* zeros, bool vary, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = vary ? i : 0;
    const float q = x[i] / scales[c];
    out[i] = q != q ? INT32_MIN : saturate<int32_t>(std::nearbyint(double{q}) + (zeros ? zeros[c] : 0));
  }
}
void dequantize(const uint8_t* x, float* out, const float* scales, const uint8_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(dequantize_u8)(x, out, scales, zeros, vary, n);
}
void dequantize(const int8_t* x, float* out, const float* scales, const int8_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(dequantize_i8)(x, out, scales, zeros, vary, n);
}
void dequantize(const uint16_t* x, float* out, const float* scales, const uint16_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(dequantize_u16)(x, out, scales, zeros, vary, n);
}
void dequantize(const int16_t* x, float* out, const float* scales, const int16_t* zeros, bool vary, int64_t n) {
  HWY_DYNAMIC_DISPATCH(dequantize_i16)(x, out, scales, zeros, vary, n);
}
void dequantize(const int32_t* x, float* out, const float* scales, const int32_t* zeros, bool vary, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = vary ? i : 0;
    const uint32_t difference = static_cast<uint32_t>(x[i]) - static_cast<uint32_t>(zeros ? zeros[c] : 0);
    out[i] = static_cast<float>(static_cast<int32_t>(difference)) * scales[c];
  }
}

template <class Fn>
void with_quantized(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::u8:
      return fn(uint8_t{});
    case DType::i8:
      return fn(int8_t{});
    case DType::u16:
      return fn(uint16_t{});
    case DType::i16:
      return fn(int16_t{});
    case DType::i32:
      return fn(int32_t{});
    default:
      throw Error(ErrorCode::internal, str("no kernel quantizes to or from ", name(dtype)));
  }
}

// fn(offset, count, channel, vary) over runs that share a scale, or (vary) have one an element from `channel` on.
template <class Fn>
void for_runs(const ChannelShape& shape, ThreadPool* pool, const Fn& fn) {
  constexpr int64_t kRun = 16384;
  const bool vary = shape.inner == 1 && shape.channels > 1;
  const int64_t length = vary ? shape.channels : shape.inner;
  const int64_t rows = vary ? shape.outer : shape.outer * shape.channels;
  const int64_t run = std::min(length, kRun), runs = run ? (length + run - 1) / run : 0;
  parallel(pool, rows * runs, grain_for(run), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % runs * run, row = task / runs;
      fn(row * length + first, std::min(run, length - first), vary ? first : row % shape.channels, vary);
    }
  });
}

}  // namespace

void quantize_linear(const float* x, DType dtype, void* out, const float* scales, const void* zero_points,
                     const ChannelShape& shape, ThreadPool* pool) {
  init_target();
  with_quantized(dtype, [&]<class T>(T) {
    const T* zeros = static_cast<const T*>(zero_points);
    for_runs(shape, pool, [&](int64_t at, int64_t n, int64_t c, bool vary) {
      quantize(x + at, static_cast<T*>(out) + at, scales + c, zeros ? zeros + c : nullptr, vary, n);
    });
  });
}

void dequantize_linear(DType dtype, const void* x, float* out, const float* scales, const void* zero_points,
                       const ChannelShape& shape, ThreadPool* pool) {
  init_target();
  with_quantized(dtype, [&]<class T>(T) {
    const T* zeros = static_cast<const T*>(zero_points);
    for_runs(shape, pool, [&](int64_t at, int64_t n, int64_t c, bool vary) {
      dequantize(static_cast<const T*>(x) + at, out + at, scales + c, zeros ? zeros + c : nullptr, vary, n);
    });
  });
}

void add_bytes(const AddBytes& add, const void* a, const void* b, void* out, int64_t count, ThreadPool* pool) {
  init_target();
  parallel(pool, count, 32768, [&](int64_t begin, int64_t end) {
    const auto at = [&](const void* p) { return static_cast<const std::byte*>(p) + begin; };
    HWY_DYNAMIC_DISPATCH(add_bytes_run)(add, at(a), at(b), static_cast<std::byte*>(out) + begin, end - begin);
  });
}

namespace {
constexpr int64_t kRangeTask = 32768;  // elements
}

int64_t dynamic_range_scratch(int64_t count) {
  return (count + kRangeTask - 1) / kRangeTask * static_cast<int64_t>(sizeof(ValueRange));
}

QuantizeRange dynamic_range(const float* x, int64_t count, bool is_signed, void* scratch, ThreadPool* pool) {
  init_target();
  auto* const parts = static_cast<ValueRange*>(scratch);
  const int64_t tasks = (count + kRangeTask - 1) / kRangeTask;
  parallel(pool, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kRangeTask;
      parts[i] = HWY_DYNAMIC_DISPATCH(range_of)(x + first, std::min(kRangeTask, count - first));
    }
  });
  ValueRange range;
  for (int64_t i = 0; i < tasks; ++i) {
    range.low = std::min(range.low, parts[i].low);
    range.high = std::max(range.high, parts[i].high);
    range.has_nan = range.has_nan || parts[i].has_nan;
  }
  if (range.has_nan) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float span = (range.high - range.low) / 255.0f, scale = span == 0 ? 1.0f : span;
  const float least = is_signed ? -128.0f : 0.0f, place = least - range.low / scale;
  // An infinite range leaves no place.
  if (place != place) return {scale, 0};
  return {scale, static_cast<int32_t>(std::nearbyint(std::min(std::max(place, least), least + 255.0f)))};
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
