// Working memory of the calling thread: grows, is kept for the thread's life, so steady state allocates nothing.
#pragma once

#include <cstddef>

namespace transmuter::cpu {

// Each kernel that nests in another uses a slot of its own. Contents are undefined at each call; 64-byte aligned; valid
// until the same thread asks for the same slot again.
enum class ScratchSlot { task, region };
void* thread_scratch(ScratchSlot slot, size_t bytes);

// A task's own memory, and what a whole parallel region shares (asked for by the thread that starts it).
inline float* task_floats(size_t count) {
  return static_cast<float*>(thread_scratch(ScratchSlot::task, count * sizeof(float)));
}
inline float* region_floats(size_t count) {
  return static_cast<float*>(thread_scratch(ScratchSlot::region, count * sizeof(float)));
}

}  // namespace transmuter::cpu
