// Counts what goes through operator new.
#include <atomic>
#include <cstdlib>
#include <new>

#include "bench.h"

namespace {
std::atomic<int64_t> count{0};
}

void* operator new(size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

int64_t transmuter::bench::allocations() { return count.load(std::memory_order_relaxed); }
