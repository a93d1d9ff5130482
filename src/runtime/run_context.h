// What belongs to one call of a model and is handed down to whatever runs in it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random_key.h"
#include "transmuter/model.h"
#include "transmuter/tensor.h"

namespace transmuter::runtime {

struct RunContext {
  RandomState random;

  // In trip number `trip` of a loop that the host drives; `loop` is the node's number in the model.
  RunContext in_trip(uint64_t loop, uint64_t trip) const {
    RunContext inner = *this;
    inner.random.call = random_call_in_trip(random.call, loop, trip);
    return inner;
  }
  // As programs take it (ir::random_bits).
  Tensor random_words() const { return Tensor(std::vector<uint64_t>{random.seed, random.call}, {2}); }
};

}  // namespace transmuter::runtime
