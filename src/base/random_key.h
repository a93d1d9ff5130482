// Where the streams of random numbers get their keys: 64-bit numbers that look unrelated whatever they were made from.
#pragma once

#include <cstdint>

namespace transmuter {

// SplitMix64's finaliser (Steele, Lea and Flood 2014): a bijection.
inline uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// What stands for `call` inside a loop: `loop` is the node's number in the model. ir::random_state_in_trip computes the
// same in a program.
inline uint64_t random_call_in_trip(uint64_t call, uint64_t loop, uint64_t trip) {
  return mixed(mixed(call ^ mixed(loop)) + trip);
}

}  // namespace transmuter
