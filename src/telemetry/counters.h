// Where the figures of counters() come from.
#pragma once

#include <cstdint>
#include <utility>

#include "transmuter/telemetry.h"

namespace transmuter::telemetry {

// Whoever counts events. It is asked while it lives; what it counted by the end stays in the sums.
class CounterSource {
 public:
  CounterSource(const CounterSource&) = delete;
  CounterSource& operator=(const CounterSource&) = delete;
  virtual void add_to(Counters& sums) const = 0;

 protected:
  CounterSource() = default;
  ~CounterSource() = default;
  // At the end of the constructor and at the start of the destructor of the class that counts: add_to() needs it whole.
  void enlist();
  void retire() noexcept;
};

enum class Memory : uint8_t { weights, prepared, arena, cache };

// So many bytes of a kind are held while it lives.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(Memory kind, int64_t bytes);
  HeldBytes(HeldBytes&& other) noexcept : kind_(other.kind_), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldBytes();

 private:
  Memory kind_ = Memory::weights;
  int64_t bytes_ = 0;
};

// Of one event that has no source.
void count_load();
void count_failed_run();

// What the process holds, as an event of Kind::memory.
void tell_memory() noexcept;

}  // namespace transmuter::telemetry
