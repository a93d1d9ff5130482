// Rotary embeddings, f32.
#pragma once

#include <cstdint>

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

// x and out [batch, heads, sequence, dim]: strides in elements for the first three axes, the last runs on. cos and sin
// [batch, sequence, half], strides likewise (0 repeats). Of each row the elements i and i + half (interleaved: 2 i and
// 2 i + 1) are turned by angle i < half; those from 2 half on stay. out overlaps nothing.
struct Rotary {
  const float* x = nullptr;
  const float* cos = nullptr;
  const float* sin = nullptr;
  float* out = nullptr;
  int64_t batch = 0, heads = 0, sequence = 0, dim = 0, half = 0;
  int64_t x_strides[3] = {}, out_strides[3] = {};
  int64_t angle_strides[2] = {};  // of cos and sin alike
  bool interleaved = false;
};
void rotary(const Rotary& rotary, ThreadPool* pool);

}  // namespace transmuter::cpu
