// Weights laid out for a kernel, 64-byte aligned.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/cpu/run/block_memory.h"

namespace transmuter::cpu {

struct Packed {
  std::shared_ptr<const BlockMemory> memory;
  std::shared_ptr<std::byte> owner;
  std::byte* bytes;
  size_t matrix_bytes = 0;  // of one of several

  Packed(std::shared_ptr<const BlockMemory> from, size_t size)
      : memory(std::move(from)), owner(memory->take(size)), bytes(owner.get()) {}
};

}  // namespace transmuter::cpu
