#include "text/pooling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {

Tensor mean_pool(const Tensor& hidden, const Tensor& mask) {
  if (hidden.rank() != 3 || mask.rank() != 2 || hidden.dim(0) != mask.dim(0) || hidden.dim(1) != mask.dim(1))
    throw Error(ErrorCode::invalid_input, str("mean pooling needs [batch, tokens, width] and [batch, tokens], got ",
                                              describe(hidden), " and ", describe(mask)));
  const Tensor values = hidden.cast(DType::f32).aligned();
  const int64_t batch = hidden.dim(0), tokens = hidden.dim(1), width = hidden.dim(2);
  const float* in = values.data<float>();
  const int64_t* counted = mask.data<int64_t>();
  Tensor pooled = Tensor::zeros(DType::f32, {batch, width});
  float* out = pooled.mutable_data<float>();
  std::vector<double> sums(static_cast<size_t>(width));
  for (int64_t b = 0; b < batch; ++b) {
    std::fill(sums.begin(), sums.end(), 0.0);
    int64_t count = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      if (counted[b * tokens + t] == 0) continue;
      ++count;
      const float* row = in + (b * tokens + t) * width;
      for (int64_t i = 0; i < width; ++i) sums[static_cast<size_t>(i)] += row[i];
    }
    if (count == 0) continue;
    for (int64_t i = 0; i < width; ++i)
      out[b * width + i] = static_cast<float>(sums[static_cast<size_t>(i)] / static_cast<double>(count));
  }
  return pooled;
}

namespace {

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

Tensor normalize_rows(const Tensor& rows) {
  const int64_t count = rows.dim(0), width = rows.dim(1);
  Tensor normalized = rows.clone();
  float* out = normalized.mutable_data<float>();
  for (int64_t r = 0; r < count; ++r) {
    float* row = out + r * width;
    const double length = std::sqrt(dot(row, row, width));
    if (length == 0) continue;
    for (int64_t i = 0; i < width; ++i) row[i] = static_cast<float>(row[i] / length);
  }
  return normalized;
}

Tensor cosine_similarities(const Tensor& rows) {
  const int64_t count = rows.dim(0), width = rows.dim(1);
  const float* in = rows.data<float>();
  std::vector<double> lengths;
  for (int64_t r = 0; r < count; ++r) lengths.push_back(std::sqrt(dot(in + r * width, in + r * width, width)));
  Tensor cosines = Tensor::zeros(DType::f32, {count, count});
  float* out = cosines.mutable_data<float>();
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < count; ++b) {
      const double scale = lengths[static_cast<size_t>(a)] * lengths[static_cast<size_t>(b)];
      if (scale > 0) out[a * count + b] = static_cast<float>(dot(in + a * width, in + b * width, width) / scale);
    }
  }
  return cosines;
}

}  // namespace transmuter
