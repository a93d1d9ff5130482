// BoundPlan: a plan for concrete sizes. Launches in order, and where each buffer lives. Kept by sizes, shared by runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/run/bind_record.h"
#include "backends/cpu/run/callables.h"
#include "backends/cpu/run/view.h"
#include "base/dim.h"
#include "base/thread_pool.h"
#include "transmuter/backend.h"

namespace transmuter::cpu {

// What a launch sees of the run it belongs to.
struct RunContext {
  std::byte* const* bases;  // by buffer
  ThreadPool& pool;
  Bindings& bindings;
  GrowingStorage* const* growing;  // by buffer: inputs in memory with room; null for others

  template <class T = float>
  T* at(const Place& place) const {
    return reinterpret_cast<T*>(bases[place.buffer] + place.offset);
  }
  template <class T = void>
  T* scratch(int32_t buffer) const {
    return reinterpret_cast<T*>(bases[buffer]);
  }
};

struct BoundLaunch {
  void (*call)(const void* state, const RunContext& context);
  const void* state;   // in the plan's callables
  const char* kernel;  // a literal: the name of the step's events
  double flops = 0;
  int32_t location = -1;

  void run(const RunContext& context) const { call(state, context); }
};

struct BoundBuffer {
  enum class Kind : uint8_t { arena, input, constant, output };
  Kind kind = Kind::arena;
  int64_t bytes = 0;
  int64_t offset = 0;                    // arena
  int32_t index = -1;                    // input: position; output: position
  bool growing = false;                  // input: in memory with room to grow
  const std::byte* constant = nullptr;   // weights, constants, packed weights: kept by the executable
  int32_t first = INT32_MAX, last = -1;  // launches that touch it
};

struct BoundPlan {
  std::vector<BoundBuffer> buffers;
  std::vector<BoundLaunch> launches;
  Callables callables;
  std::vector<std::string> shapes;  // by launch, where steps are told of
  int64_t arena_bytes = 0;
  struct Output {
    int32_t buffer;
    DType dtype;
    Shape shape;
    bool grown = false;  // lies in the memory of the input that the buffer is
  };
  std::vector<Output> outputs;
  int64_t cache_copies = 0, cache_copy_bytes = 0;  // of what lies in memory with room, for kernels that need it dense
  std::vector<Tensor> kept;                        // constants made while binding
  int64_t steps_bound = 0;                         // for this plan, not taken over from another
  // One of these: how it was bound, or the plan that it started from, which holds the launches it did not bind anew.
  std::unique_ptr<BindRecord> record;
  std::shared_ptr<const BoundPlan> from;
};

}  // namespace transmuter::cpu
