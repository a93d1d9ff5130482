// Copies strided elements.
#pragma once

#include "backends/cpu/run/view.h"
#include "base/thread_pool.h"

namespace transmuter::cpu {

class Binder;

// Launches to <- from; equal shapes and element widths, any strides. Both views' buffers count as touched by the
// caller.
void launch_copy(Binder& bind, const View& from, const View& to);
// The same at once, between the memory where the buffers start. No packed dtypes. `pool` may be null.
void copy_elements(const View& from, const std::byte* source, const View& to, std::byte* target, ThreadPool* pool);

}  // namespace transmuter::cpu
