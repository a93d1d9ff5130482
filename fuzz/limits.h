// What one execution of a fuzzer may allocate: enough for small models. Beyond it, allocations fail as they would where
// memory runs out, so that a size which a mutation made large costs nothing.
#pragma once

#include <cstddef>

namespace transmuter::fuzzing {

// While it lives, tensors may take kTensorBytes and all else kOtherBytes, in sum over what was freed since; after each
// refusal kReserveBytes more, as what handles it finds the memory of the frames that were left.
class Limits {
 public:
  static constexpr size_t kTensorBytes = size_t{4} << 20, kOtherBytes = size_t{64} << 20;
  static constexpr size_t kReserveBytes = size_t{1} << 20;
  Limits();
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;
  ~Limits();
};

}  // namespace transmuter::fuzzing
