// Engine: what everything that runs one compiled model shares - the backend and how programs are compiled for it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/run_state.h"
#include "ir/program.h"
#include "transmuter/backend.h"

namespace transmuter::runtime {

struct Engine {
  std::shared_ptr<Backend> backend;
  BackendOptions options;
  bool passes = true;      // optimisations before the backend sees a program
  bool widen = false;      // halves compute in f32 (widen_halves.h)
  bool trainable = false;  // weights may change: nothing reads their values while tracing
  int cache_size = 8;      // traces kept for each graph
  bool describe = false;   // traces note the values that they knew
  std::shared_ptr<RunState> state = std::make_shared<RunState>();  // options.state, where the backend gets it

  // What the backend is given: passes, and composites that it does not take written out. `composites`: counts those of
  // the program after the passes by name.
  ir::Program prepare(const ir::Program& program, std::map<std::string, int64_t>* composites = nullptr) const;
  // prepare(), then the backend. `segment`: its number, for those who listen.
  std::unique_ptr<Executable> compile(const ir::Program& program, size_t segment,
                                      std::map<std::string, int64_t>* composites = nullptr) const;
};

}  // namespace transmuter::runtime
