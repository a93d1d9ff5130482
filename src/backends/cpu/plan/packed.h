// Weights laid out for a kernel, 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace transmuter::cpu {

struct Packed {
  std::unique_ptr<std::byte[]> memory;
  std::byte* bytes = nullptr;
  size_t matrix_bytes = 0;  // of one of several

  explicit Packed(size_t size) : memory(new std::byte[size + 64]) {
    bytes = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
  }
};

}  // namespace transmuter::cpu
