// What attention.cc and its vector loops share: how the work is cut.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/rounding.h"

namespace transmuter::cpu {

inline constexpr int64_t kRowBlock = 48;   // query rows of a task: whole register blocks on every instruction set
inline constexpr int64_t kKeyBlock = 128;  // keys of a tile
inline constexpr int64_t kKeyChunk = 512;  // keys of a task when there are few rows: a multiple of kKeyBlock

// Rows of a key head are its group's query rows, query-major: row = query * group + head in group. A task is a block of
// rows of one (batch, key head) against the keys [key_begin, key_end).
struct AttentionTask {
  int64_t b, kv_head, first_row, rows, key_begin, key_end;
};

// Accumulators of a task: per row the maximum, the sum of exponentials, and the weighted values, v_pitch apart.
struct AttentionState {
  float* top;
  float* sum;
  float* value;
};

inline constexpr int64_t kMaxVector = 16;  // floats in the widest vector
inline int64_t value_pitch(const Attention& a) { return round_up(a.v_dim, kMaxVector); }
inline int64_t state_floats(const Attention& a) { return kRowBlock * (2 + value_pitch(a)); }
inline AttentionState state_at(const Attention&, float* p) { return {p, p + kRowBlock, p + 2 * kRowBlock}; }
// A block of keys or values of a half type, widened.
inline int64_t widened_floats(const Attention& a) {
  return a.kv_dtype == DType::f32 ? 0 : kKeyBlock * round_up(std::max(a.dim, a.v_dim), kMaxVector);
}
// Floats that a task needs besides its state. Many rows: q^T, scores, mask, packed v, row limits.
inline int64_t many_rows_floats(const Attention& a) {
  return kRowBlock * (a.dim + 2 * kKeyBlock + 3) + kKeyBlock * value_pitch(a) + widened_floats(a) + 64;
}
// Few rows: q and scores.
inline constexpr int64_t kFewRows = 8;
inline int64_t few_rows_floats(const Attention& a) {
  return kFewRows * (round_up(a.dim, kMaxVector) + kKeyBlock) + widened_floats(a) + 64;
}

struct KeyRange {
  int64_t begin, end;
};
inline KeyRange visible_keys(const Attention& a, int64_t b, int64_t query) {
  const int64_t position = query + (a.offsets ? a.offsets[b] : a.offset);
  int64_t begin = 0, end = a.key_lengths ? std::min(a.kv_len, a.key_lengths[b]) : a.kv_len;
  if (a.causal) end = std::min(end, position + 1);
  if (a.right >= 0) end = std::min(end, position + a.right + 1);
  if (a.left >= 0) begin = std::max(begin, position - a.left);
  return {begin, std::max(begin, end)};
}

}  // namespace transmuter::cpu
