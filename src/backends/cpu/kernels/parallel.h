// parallel_for with an optional pool, and grains by size of work.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace transmuter::cpu {

// As ThreadPool::parallel_for; without a pool everything runs in the caller, in one call.
template <class Fn>
void parallel(ThreadPool* pool, int64_t n, int64_t grain, const Fn& fn) {
  if (n <= 0) return;
  if (pool) {
    pool->parallel_for(n, grain, fn);
  } else {
    fn(int64_t{0}, n);
  }
}

// How many items make a task worth handing out, when one touches `elements` elements.
inline int64_t grain_for(int64_t elements, int64_t target = 16384) {
  return std::max<int64_t>(1, target / std::max<int64_t>(1, elements));
}

}  // namespace transmuter::cpu
