// What the fake plugin (fake_pjrt.cc) has seen, and when it is to fail; `fake_pjrt` in the library gives it.
#pragma once

#include <atomic>
#include <cstdint>

namespace transmuter::testing {

struct FakePjrt {
  std::atomic<int64_t> calls_left{-1};  // until one fails, once, for want of memory; negative: none does
  std::atomic<bool> has_failed{false};  // that one
  std::atomic<int64_t> live{0};         // buffers, programs, events and failures that nobody has destroyed
  std::atomic<int64_t> compiled{0};     // programs
};

}  // namespace transmuter::testing
