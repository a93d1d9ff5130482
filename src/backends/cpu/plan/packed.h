// Weights laid out for a kernel, 64-byte aligned, and the memory they share. A product with one row does nothing but
// read weights, and one core reads small pages at half the speed of large ones (it waits for their addresses to be
// translated), so all packed weights of a model lie side by side in blocks for which the system is asked for large
// pages.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "backends/weight_store.h"

namespace transmuter::cpu {

class PackedMemory {
 public:
  // The one of a model.
  static std::shared_ptr<const PackedMemory> of(WeightStore& store);

  // 64-byte aligned; lives as long as somebody holds it. Throws std::bad_alloc.
  std::shared_ptr<std::byte> take(size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<std::byte> block_;  // what is taken from next
  mutable size_t used_ = 0, total_ = 0;
};

struct Packed {
  std::shared_ptr<const PackedMemory> memory;
  std::shared_ptr<std::byte> owner;
  std::byte* bytes;
  size_t matrix_bytes = 0;  // of one of several

  Packed(std::shared_ptr<const PackedMemory> from, size_t size)
      : memory(std::move(from)), owner(memory->take(size)), bytes(owner.get()) {}
};

}  // namespace transmuter::cpu
