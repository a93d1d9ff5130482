// Values in memory with room to grow.
#pragma once

#include "backends/cpu/run/block_memory.h"
#include "backends/cpu/run/view.h"
#include "base/thread_pool.h"
#include "transmuter/backend.h"

namespace transmuter::cpu {

DType dtype_of(const Buffer& buffer);
const Shape& shape_of(const Buffer& buffer);
const std::byte* bytes_of(const Buffer& buffer);
// How the elements lie (buffer number 0).
View layout_of(const Buffer& buffer);
// A copy that is dense.
Tensor compacted(const Buffer& buffer, ThreadPool* pool);
// The value in memory with room for `rows` along `axis`: where it is, if it may grow (or be written) there, else a
// copy, with room for more rows if it grows and more are to come. `copied`: which of the two.
Buffer with_room(const Buffer& buffer, int64_t axis, int64_t rows, bool grows, const BlockMemory& memory,
                 ThreadPool* pool, bool& copied);

}  // namespace transmuter::cpu
