// Weights laid out for a kernel, 64-byte aligned.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/cpu/run/block_memory.h"
#include "backends/weight_store.h"
#include "transmuter/tensor.h"

namespace transmuter::cpu {

struct Packed {
  std::shared_ptr<const BlockMemory> memory;
  std::shared_ptr<std::byte> owner;
  std::byte* bytes;
  size_t matrix_bytes = 0;  // of one of several
  DType elements;
  size_t size;

  Packed(std::shared_ptr<const BlockMemory> from, size_t count, DType type)
      : memory(std::move(from)), owner(memory->take(count)), bytes(owner.get()), elements(type), size(count) {}
};

inline StoredSize stored_size(const Packed& packed) {
  return {name(packed.elements), static_cast<int64_t>(packed.size)};
}

}  // namespace transmuter::cpu
