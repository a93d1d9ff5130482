// Moving elements without looking at them, and conversions between dtypes. Widths are bytes an element: 1, 2, 4, 8, 16.
// All addresses suit their width (a 16-byte element: 8). Pools may be null.
#pragma once

#include <cstdint>

#include "transmuter/tensor.h"

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

inline constexpr int kMoveMaxDims = 8;

// out[sum i_k out_strides[k]] = in[sum i_k in_strides[k]] for all i in dims; strides in elements, of any sign; input
// stride 0 broadcasts. Transposition, slice, reverse, broadcast, one operand of a concatenation, the inside of a pad.
// Overlap of input and output: none. Two dims of any two strides are transposed in cache-sized blocks.
void copy_strided(int width, int rank, const int64_t* dims, const void* in, const int64_t* in_strides, void* out,
                  const int64_t* out_strides, ThreadPool* pool);

// Dense in to dense out, out dim k is in dim permutation[k].
void transpose(int width, int rank, const int64_t* dims, const int64_t* permutation, const void* in, void* out,
               ThreadPool* pool);

// out[0, count) = *value
void fill(int width, const void* value, void* out, int64_t count, ThreadPool* pool);

// out[o][i][:] = in[o][index(i)][:], in [outer, axis, inner], out [outer, count, inner], dense. index_dtype i32 or i64.
// With `wrap` negative indices count from the end. What is then still outside [0, axis) is clamped into it, as
// StableHLO does; axis >= 1 unless count is 0. `outside` (may be null) becomes whether that changed an index.
void gather_rows(int width, const void* in, int64_t outer, int64_t axis, int64_t inner, DType index_dtype,
                 const void* indices, int64_t count, bool wrap, void* out, ThreadPool* pool, bool* outside = nullptr);

// out[..., i, ...] = in[..., index[..., i, ...], ...]: indices and out are dense of extents `dims`, in has `extent`
// elements along `axis` and the strides given. Indices as above. rank >= 1, extent >= 1 unless a dim is 0.
void gather_elements(int width, int rank, const int64_t* dims, const void* in, const int64_t* in_strides, int axis,
                     int64_t extent, DType index_dtype, const void* indices, bool wrap, void* out, ThreadPool* pool,
                     bool* outside = nullptr);

// count elements from one dtype to another, dense (not packed, not complex). Float to integer truncates and saturates,
// NaN is 0; narrowing floats round to nearest even; to bool: not equal zero.
void convert(DType from, const void* in, DType to, void* out, int64_t count, ThreadPool* pool);

}  // namespace transmuter::cpu
