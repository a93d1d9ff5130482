// Step: one or several ops of a program, and the kernel chosen for them. Made once a program; bound to sizes many
// times.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/cpu/run/binder.h"
#include "ir/program.h"

namespace transmuter::cpu {

class Step {
 public:
  virtual ~Step() = default;
  virtual void bind(Binder& bind) const = 0;

  std::vector<ir::Value> reads;
  std::vector<ir::Value> writes;
  ir::Value any_address;  // one of `reads` that need not be aligned
  int32_t location = -1;
};

// A step of one op, which outlives it: reads all its operands, writes all its results.
class OpStep : public Step {
 public:
  explicit OpStep(const ir::Op& op) : op_(op) {
    reads = op.operands;
    writes = op.results;
  }

 protected:
  const ir::Op& op_;
};

// Asks for the memory of a step that is bound soon: after a run, which went through all weights, no cache has it, and
// waiting for it line by line would be half the time of a plan for new sizes.
inline void prefetch(const Step& step) {
  constexpr size_t kLine = 64, kLines = 5;  // most are no larger
  for (size_t i = 0; i < kLines; ++i) __builtin_prefetch(reinterpret_cast<const std::byte*>(&step) + i * kLine);
}

}  // namespace transmuter::cpu
