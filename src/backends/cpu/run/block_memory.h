// Memory for what lives long and is read from end to end at each step of a decoder: packed weights, caches. One core
// reads small pages at half the speed of large ones (it waits for their addresses to be translated), so such memory
// lies side by side in blocks for which the system is asked for large pages.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "backends/weight_store.h"

namespace transmuter::cpu {

class BlockMemory {
 public:
  // The one of a model for this purpose.
  static std::shared_ptr<const BlockMemory> of(WeightStore& store, const std::string& purpose);

  // 64-byte aligned. A block is freed when nobody holds anything of it. Throws std::bad_alloc.
  std::shared_ptr<std::byte> take(size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  mutable std::weak_ptr<std::byte> block_;  // what is taken from next; whoever took from it keeps it
  mutable size_t used_ = 0, total_ = 0;
};

}  // namespace transmuter::cpu
