// Scratch for the bodies of one parallel_for: at most as many run at once as the pool has threads; each takes a slot
// and gives it back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace transmuter::cpu {

inline constexpr int kMaxSlots = 256;  // more threads than this share by waiting
inline int slot_count(int threads) { return threads < kMaxSlots ? threads : kMaxSlots; }

class Slots {
 public:
  Slots(void* memory, size_t bytes_each, int count)
      : memory_(static_cast<std::byte*>(memory)), bytes_each_(bytes_each), count_(count) {}

  class Lease {
   public:
    explicit Lease(Slots& slots) : slots_(slots) {
      for (index_ = 0; slots_.taken_[index_].exchange(true, std::memory_order_acquire);) {
        index_ = index_ + 1 == slots_.count_ ? 0 : index_ + 1;
      }
    }
    ~Lease() { slots_.taken_[index_].store(false, std::memory_order_release); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    std::byte* memory() const { return slots_.memory_ + static_cast<size_t>(index_) * slots_.bytes_each_; }

   private:
    Slots& slots_;
    int index_;
  };

 private:
  std::byte* memory_;
  size_t bytes_each_;
  int count_;
  std::atomic<bool> taken_[kMaxSlots] = {};
};

}  // namespace transmuter::cpu
