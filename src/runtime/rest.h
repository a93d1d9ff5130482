// Rest: what follows a break. Where tracing goes on, as the tracer knew it when the trace before ended, and the
// continuations that were traced from there, kept by guards like every trace.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/context.h"
#include "runtime/trace.h"

namespace transmuter::runtime {

// Traces that begin at the same place, most recently used first.
struct TraceList {
  std::mutex tracing;  // held by the thread that traces; taken before `mutex`
  mutable std::mutex mutex;
  std::list<std::shared_ptr<const Trace>> traces;  // under `mutex`

  std::vector<std::shared_ptr<const Trace>> all() const {
    const std::lock_guard<std::mutex> lock(mutex);
    return {traces.begin(), traces.end()};
  }
};

struct Rest {
  // A graph that is being traced. Values are never changed: a continuation works on copies.
  struct Frame {
    const onnx::Graph* graph;
    size_t node;                                             // the next; of a graph around others, the If they are of
    std::unordered_map<std::string, ops::TracedPtr> values;  // those that are read from here on
  };
  std::vector<Frame> frames;  // the whole graph, then the branches in it, each in the one before
  bool again = false;         // the next node was begun before the break, and what it asked for is there now
  std::vector<ops::TracedPtr> graph_inputs;  // by slot; null where nothing has read it yet
  ops::TracedPtr random;
  std::vector<int32_t> first_items, read_values, static_inputs;
  int32_t input_slots = 0, newest_segment = 0;
  std::vector<std::pair<size_t, size_t>> inner_symbols;
  std::vector<std::pair<std::string, int32_t>> made;  // by a node that ran alone: names and slots, of any type
  std::vector<bool> reads;                            // by graph input: something may read it from here on

  TraceList traces;
};

}  // namespace transmuter::runtime
