// Normalisations, f32, statistics to about 1e-7 (two passes, totals in double).
#pragma once

#include <cstdint>

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

// Rows of `cols` elements, dense. v = x + residual + add (those present); y = (v - mean) / sqrt(variance + epsilon), or
// v / sqrt(mean square + epsilon) with `rms`; out = y * scale + bias.
struct RowNorm {
  const float* x = nullptr;
  const float* residual = nullptr;  // as x
  const float* add = nullptr;       // [cols]
  const float* scale = nullptr;     // [cols]; absent: 1
  const float* bias = nullptr;      // [cols]; absent: 0
  float* out = nullptr;             // may be x or residual
  float* sum = nullptr;             // v, as x; may be x or residual; absent: not kept
  float* mean = nullptr;            // [rows]; absent: not kept (never written with rms)
  float* inv_std = nullptr;         // [rows]; 1 / sqrt(...); absent: not kept
  int64_t rows = 0, cols = 0;
  float epsilon = 1e-5f;
  bool rms = false;
};
void row_norm(const RowNorm& norm, ThreadPool* pool);

// x [batch, channels, spatial], dense; statistics over each of `groups` equal runs of channels (groups == channels:
// instance normalisation); scale and bias per channel, either may be absent. out may be x.
struct GroupNorm {
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  int64_t batch = 0, channels = 0, spatial = 0, groups = 1;
  float epsilon = 1e-5f;
  bool silu = false;  // out = y logistic(y)
};
void group_norm(const GroupNorm& norm, ThreadPool* pool);

}  // namespace transmuter::cpu
