#include "backends/cpu/kernels/attention.h"

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/attention_task.h"
#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/scratch.h"
#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/attention-inl.h"
#include "backends/cpu/kernels/attention_few-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(attention_task);
HWY_EXPORT(attention_few_rows);
HWY_EXPORT(attention_prefers_dots);

namespace {

void write_row(const Attention& a, int64_t b, int64_t kv_head, int64_t row, const float* value, float factor) {
  const int64_t group = a.q_heads / a.kv_heads, head = kv_head * group + row % group;
  float* out = a.out + b * a.out_strides[0] + head * a.out_strides[1] + row / group * a.out_strides[2];
  for (int64_t c = 0; c < a.v_dim; ++c) out[c * a.out_strides[3]] = value[c] * factor;
}

// Joins the partial results of `chunks` chunks of keys for one block of rows, in order.
void merge(const Attention& a, const AttentionTask& t, float* partial, int64_t chunks) {
  const int64_t size = state_floats(a);
  for (int64_t r = 0; r < t.rows; ++r) {
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t c = 0; c < chunks; ++c) top = std::max(top, state_at(a, partial + c * size).top[r]);
    float* total = state_at(a, partial).value + r * value_pitch(a);
    double sum = 0;
    for (int64_t c = 0; c < chunks; ++c) {
      const AttentionState state = state_at(a, partial + c * size);
      // A NaN sum has to come through although its maximum may not say so.
      const float weight = std::isinf(state.top[r]) ? 0.0f : std::exp(state.top[r] - top);
      sum += state.sum[r] == 0.0f ? 0.0 : double{state.sum[r]} * weight;
      const float* value = state.value + r * value_pitch(a);
      for (int64_t k = 0; k < a.v_dim; ++k) total[k] = (c == 0 ? 0.0f : total[k]) + value[k] * weight;
    }
    write_row(a, t.b, t.kv_head, t.first_row + r, total, sum == 0 ? a.empty_row : static_cast<float>(1 / sum));
  }
}

}  // namespace

void attention(const Attention& a, ThreadPool* pool) {
  init_target();
  if (a.batch == 0 || a.kv_heads == 0 || a.q_len == 0 || a.v_dim == 0) return;
  const int64_t rows = a.q_heads / a.kv_heads * a.q_len, blocks = ceil_div(rows, kRowBlock);
  const int64_t items = a.batch * a.kv_heads * blocks;
  // Few rows over many keys: the keys are cut too, by sizes alone.
  const int64_t chunks = rows > 16 ? 1 : std::max<int64_t>(1, ceil_div(a.kv_len, kKeyChunk));
  const int64_t chunk = chunks == 1 ? std::max<int64_t>(a.kv_len, 1) : kKeyChunk;
  const int64_t size = state_floats(a);
  const bool dots = HWY_DYNAMIC_DISPATCH(attention_prefers_dots)(rows) &&
                    (a.kv_dtype != DType::f32 || (a.k_strides[3] == 1 && a.v_strides[3] == 1));
  const int64_t floats = dots ? few_rows_floats(a) : many_rows_floats(a);
  const auto task_of = [&](int64_t index) {
    const int64_t c = index % chunks, block = index / chunks % blocks, item = index / chunks / blocks;
    return AttentionTask{item / a.kv_heads, item % a.kv_heads,
                         block * kRowBlock, std::min(kRowBlock, rows - block * kRowBlock),
                         c * chunk,         std::min(a.kv_len, (c + 1) * chunk)};
  };
  float* partial = chunks > 1 ? region_floats(static_cast<size_t>(items * chunks * size)) : nullptr;
  const int64_t work = 4 * std::min(rows, kRowBlock) * std::min(chunk, a.kv_len) * (a.dim + a.v_dim);
  parallel(pool, items * chunks, grain_for(work, 400000), [&](int64_t begin, int64_t end) {
    float* memory = task_floats(static_cast<size_t>(floats + size));
    for (int64_t index = begin; index < end; ++index) {
      const AttentionTask t = task_of(index);
      const AttentionState state = state_at(a, partial ? partial + index * size : memory + floats);
      if (dots) {
        HWY_DYNAMIC_DISPATCH(attention_few_rows)(a, t, state, memory);
      } else {
        HWY_DYNAMIC_DISPATCH(attention_task)(a, t, state, memory);
      }
      if (partial) continue;
      for (int64_t r = 0; r < t.rows; ++r) {
        write_row(a, t.b, t.kv_head, t.first_row + r, state.value + r * value_pitch(a),
                  state.sum[r] == 0.0f ? a.empty_row : 1.0f / state.sum[r]);
      }
    }
  });
  if (!partial) return;
  for (int64_t item = 0; item < items; ++item) merge(a, task_of(item * chunks), partial + item * chunks * size, chunks);
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
