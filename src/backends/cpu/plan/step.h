// Step: one or several ops of a program, and the kernel chosen for them. Made once a program; bound to sizes many
// times.
#pragma once

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

}  // namespace transmuter::cpu
