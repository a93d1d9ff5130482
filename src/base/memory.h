// How much memory there is to take.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transmuter {

// False where `bytes` are more than half of what the system has free (Linux says; elsewhere the answer is true). Asked
// before each large allocation: overcommitted memory would end the process when it is written, not fail, and what is
// computed next to one result that takes the half (a Loop whose state doubles) would take the rest.
bool memory_is_there(size_t bytes);

// What was freed goes back to the system, where the allocator would keep it.
void give_back_free_memory();

// What a loop holds from trip to trip. One that grows by a factor, or that keeps row after row, is stopped while the
// machine can still breathe: a trip needs the old state, the new one and what lies between, the end all rows once more.
class LoopGrowth {
 public:
  void add_row(size_t bytes) { rows_ += bytes + kAroundRow; }
  // After trip `trip`, with carried values of so many bytes. Throws Error(out_of_memory).
  void check(size_t state_bytes, int64_t trip) const;

 private:
  static constexpr size_t kAroundRow = 256;  // a tensor's own bytes
  size_t rows_ = 0;
};

}  // namespace transmuter
