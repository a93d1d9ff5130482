// softmax(q k^T * scale + mask) v without the score matrix in memory, computed in f32.
#pragma once

#include <cstdint>

#include "transmuter/tensor.h"

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

// q [batch, q_heads, q_len, dim], k [batch, kv_heads, kv_len, dim], v [batch, kv_heads, kv_len, v_dim],
// out [batch, q_heads, q_len, v_dim], each with strides in elements for its four dims in that order (nothing need be
// dense). q_heads is a multiple of kv_heads; query head h reads key head h / (q_heads / kv_heads).
// Scores: s = (q . k) * scale; softcap * tanh(s / softcap) if softcap > 0; + mask, or excluded where keep is 0. Query i
// of batch item b stands at position p = i + offset (offsets[b] if given) and sees key j iff
//   j < kv_len (key_lengths[b] if given), j <= p when causal, j >= p - left when left >= 0, j <= p + right when right
//   >= 0.
// sink[h] is one more score whose value is nothing. A query that sees no key (or only -infinity) gets 0, or NaN if
// empty_row is that.
// The same numbers for any number of threads; pool may be null. out overlaps nothing.
struct Attention {
  const float* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  DType kv_dtype = DType::f32;  // of k and v; f16 and bf16 are widened a block at a time
  float* out = nullptr;
  int64_t batch = 1, q_heads = 1, kv_heads = 1, q_len = 0, kv_len = 0, dim = 0, v_dim = 0;
  int64_t q_strides[4] = {}, k_strides[4] = {}, v_strides[4] = {}, out_strides[4] = {};
  float scale = 1.0f;
  float softcap = 0.0f;
  // At most one of the two; [batch, q_heads, q_len, kv_len] by strides, 0 broadcasts.
  const float* mask = nullptr;
  const uint8_t* keep = nullptr;
  int64_t mask_strides[4] = {};
  bool causal = false;
  int64_t offset = 0;
  int64_t left = -1, right = -1;
  const int64_t* offsets = nullptr;      // [batch]
  const int64_t* key_lengths = nullptr;  // [batch]
  const float* sink = nullptr;           // [q_heads]
  float empty_row = 0.0f;
};
void attention(const Attention& attention, ThreadPool* pool);

}  // namespace transmuter::cpu
