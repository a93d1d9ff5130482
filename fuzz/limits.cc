// Stands for base/memory.cc and for operator new.
#include "limits.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/memory.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

std::atomic<bool> limited{false};
std::atomic<size_t> tensor_bytes{0}, other_bytes{0};

bool fits(std::atomic<size_t>& taken, size_t bytes, size_t most) {
  if (!limited.load(std::memory_order_relaxed)) return true;
  if (bytes > most) return false;
  return taken.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most;
}

}  // namespace

namespace fuzzing {

Limits::Limits() {
  tensor_bytes = 0;
  other_bytes = 0;
  limited = true;
}

Limits::~Limits() { limited = false; }

}  // namespace fuzzing

bool memory_is_there(size_t bytes) { return fits(tensor_bytes, bytes, fuzzing::Limits::kTensorBytes); }

void give_back_free_memory() {}

void LoopGrowth::check(size_t state_bytes, int64_t) const {
  if (state_bytes + rows_ > fuzzing::Limits::kTensorBytes)
    throw Error(ErrorCode::out_of_memory, "Loop: more than an execution may take");
}

}  // namespace transmuter

// NOLINTBEGIN(misc-new-delete-overloads): arrays and aligned blocks are few and small.
void* operator new(size_t bytes) {
  using transmuter::fuzzing::Limits;
  if (!transmuter::fits(transmuter::other_bytes, bytes, Limits::kOtherBytes)) {
    transmuter::other_bytes = Limits::kOtherBytes - Limits::kReserveBytes;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
// NOLINTEND(misc-new-delete-overloads)
