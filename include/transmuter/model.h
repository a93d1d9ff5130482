// Model: an ONNX file, loaded. compile() gives a callable that traces on the first call and keeps what it compiled;
// run() goes operator by operator. Both take and give every kind of Value.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transmuter/backend.h"
#include "transmuter/tensor.h"
#include "transmuter/value.h"
#include "transmuter/value_spec.h"

namespace transmuter {

class Graph;

struct LoadOptions {
  bool map = true;         // false: read the files into memory instead of mapping them
  bool trainable = false;  // weights may change later: nothing is folded into the program
};

struct CompileOptions {
  std::string backend = "cpu";
  int cache_size = 8;  // traces kept for the graph, and for each loop body; least recently used first to go
  int threads = 0;     // 0: one per physical core. Compiled models with the same number share the threads
  bool passes = true;
  // "f32": intermediates that the model has as f16 or bf16 are f32; its inputs and outputs keep their types, weights
  // stay stored as they are. "native": everything as the model has it.
  std::string compute_type = "f32";
  // Operator by operator: each node is compiled by itself on its first use, and kept for the next ones by dtypes and
  // ranks. Nothing is fused and nothing breaks; the reference for what a trace gives, and quick to start.
  bool eager = false;
  // Inputs whose values are known while tracing, by name: whatever depends on them alone is computed then. A call with
  // another value makes another trace. They must be given in each call. (The lengths of sequences, what an optional
  // holds, and small integers that steer shapes need no listing; strings are handed to the operators that read them.)
  std::vector<std::string> static_inputs = {};
  // Of the random operators. The same seed gives the same numbers in the same call, on every backend, eager or not.
  uint64_t seed = 0;
  bool verbose = false;  // traces note the values that steered shapes, for trace_text()
  // Trips after which a Loop that gives no trip count of its own is taken for endless: Error(limit).
  int64_t max_loop_trips = int64_t{1} << 24;
};

// Stops runs from another thread: they end with Error(cancelled) at the next step or trip of a loop. Copies are the
// same token; it stays cancelled. The compiled model may be called again at once.
class CancelToken {
 public:
  CancelToken() : stop_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { stop_->store(true, std::memory_order_relaxed); }
  bool cancelled() const { return stop_->load(std::memory_order_relaxed); }
  const std::atomic<bool>* flag() const { return stop_.get(); }

 private:
  std::shared_ptr<std::atomic<bool>> stop_;
};

// What one call may say.
struct RunOptions {
  const CancelToken* cancel = nullptr;  // lives as long as the call
};

// What a compiled model did so far. Reading it costs next to nothing and never waits for a run; while calls are in
// flight the figures are each right, but not of one moment.
struct RunStats {
  int64_t runs = 0;           // calls that found or made a trace
  int64_t traces = 0;         // made so far, those dropped since included
  int64_t body_traces = 0;    // the same of bodies that the host drives (Loop, Scan, SequenceMap)
  int64_t node_traces = 0;    // the same of single nodes: breaks, and all that eager runs do
  int64_t continuations = 0;  // traces of what follows a break: each break keeps its own
  int64_t trace_hits = 0;     // a trace that was there served, at the start of a run or behind a break; of all kinds
  int64_t evictions = 0;      // traces dropped because there were more than cache_size, bodies' and nodes' included
  int64_t breaks = 0;         // graph breaks in the traces
  int64_t specializations = 0;
  int64_t compiles = 0;  // segments compiled, bodies' and nodes' included
  // The CPU backend binds a program once for each set of sizes: no tracing, no compiling. Several bindings a run where
  // a trace has breaks or data-dependent sizes.
  int64_t binds = 0;
  int64_t plan_hits = 0;       // the sizes had been met before
  int64_t plan_evictions = 0;  // of the sizes met longest ago
  double trace_ms = 0;         // tracing and passes, all traces
  double compile_ms = 0;
  double bind_us = 0;
  int64_t arena_bytes = 0;  // working memory held now: by runs in flight, and kept for the next
  // Composites of the first trace, by name ("layer_norm"): what operators gave and what passes recognised.
  std::map<std::string, int64_t> composites;
  // What runs did with memory. A cache is a value that an input grows into (past -> present).
  int64_t appends = 0;       // caches that grew in place
  int64_t cache_copies = 0;  // caches that were copied, in order to grow or because a kernel cannot read strides
  int64_t cache_copy_bytes = 0;
  int64_t allocated_bytes = 0;  // results, caches, working memory; all runs
};

// Bytes that a model holds now, by what they are. Weights that kernels read as they are stored are not prepared.
struct MemoryUse {
  std::map<std::string, int64_t> stored;    // weights as the model has them, by dtype; mapped from the file, most of it
  std::map<std::string, int64_t> prepared;  // what the backend made of them, by the type of the elements ("f32", "u4")
  int64_t arenas = 0;                       // working memory: of runs in flight, and kept for the next
};

// What CompiledModel::warm_up prepares for.
struct WarmUp {
  struct Range {
    int64_t low = 1;
    int64_t high = 1;
  };
  // Sizes to expect, by the name that the model declares ("batch"), or "INPUT:AXIS" where it declares none. A declared
  // sum ("past + sequence") follows from its parts.
  std::map<std::string, Range> sizes = {};
  // These very shapes, by input. Also how inputs that the model declares without a shape, or as optional, take part.
  std::map<std::string, Shape> shapes = {};
  // Inputs whose values matter. The others are zeros (empty strings), single bools both ways.
  TensorMap values = {};
};

// Where the random numbers of a compiled model stand: call number `call` of seed `seed` comes next. Each call draws
// numbers of its own, and so does each random node; a node with a `seed` attribute ignores `seed`, not `call`.
struct RandomState {
  uint64_t seed = 0;
  uint64_t call = 0;
};

// One program of a trace as StableHLO text, with what its @main takes and gives, in order.
struct StableHloModule {
  struct Argument {
    std::string name;
    Tensor weight;  // of a weight; no tensor: an input of the run
  };
  std::string name;  // of the module
  std::string text;
  std::vector<Argument> arguments;
  std::vector<std::string> results;
};
struct StableHloOptions {
  bool embed_weights = false;  // weights are constants in the text (twice their bytes), not arguments
};

class CompiledModel {
 public:
  // Inputs by name -> outputs by name. Throws Error(invalid_input) for a missing, unknown or mistyped input. May be
  // called from several threads at once: the first calls of a kind trace once, the others of that kind wait for it, and
  // those that have a trace go on. After an error the next call works as if it hadn't been made.
  TensorMap operator()(const TensorMap& inputs) const { return (*this)(inputs, RunOptions()); }
  TensorMap operator()(const TensorMap& inputs, const RunOptions& options) const;
  // The same; tensors that nobody else holds are given to the run (its caches grow in place, in memory with room) and
  // are gone from the map when it succeeds. One held elsewhere silently isn't taken: what grows from it is a copy.
  TensorMap operator()(TensorMap&& inputs) const { return (*this)(std::move(inputs), RunOptions()); }
  TensorMap operator()(TensorMap&& inputs, const RunOptions& options) const;
  const std::vector<ValueSpec>& inputs() const;
  const std::vector<ValueSpec>& outputs() const;
  // Traces (if no trace fits) without running; breaks still run what leads up to them.
  void trace(const TensorMap& inputs) const;
  // Ahead of traffic: for each range runs the kinds of sizes that get traces of their own (0, 1, and the largest, which
  // stands for all others), in all combinations, so that later calls neither trace nor allocate. Throws
  // Error(invalid_input) naming a size that nothing tells, and passes on what a run throws, with the sizes.
  void warm_up(const WarmUp& expected) const;
  // Frees working memory and plans that no run is using. Traces and packed weights stay, so later calls only bind and
  // allocate anew.
  void trim() const;
  // Frees all that can be made again: working memory, plans, traces with their compiled programs, and so what was
  // prepared of the weights, unless another compiled model uses it. Runs in flight keep what they use. The next call
  // traces and compiles as the first one did.
  void release_cached_memory() const;
  RunStats stats() const;
  MemoryUse memory() const;
  // Calls from several threads take consecutive states, each its own.
  RandomState random_state() const;
  void set_random_state(const RandomState& state) const;
  // The traces made so far as text: segments, guards, assertions, known values, breaks, specialisations.
  std::string trace_text() const;
  // The programs of the trace used last as StableHLO text, a module each (breaks: several); extents substituted.
  std::string stablehlo(const StableHloOptions& options = {}) const;
  // The same, module by module, with their weights.
  std::vector<StableHloModule> stablehlo_modules(const StableHloOptions& options = {}) const;

  struct Impl;

 private:
  friend class Model;
  std::shared_ptr<Impl> impl_;
};

struct ModelSummary {
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;
  std::map<std::string, int64_t> operators;                    // "domain.Op" -> nodes, subgraphs included
  std::vector<std::string> unsupported;                        // every node that cannot run: "node X (Op): why"
  std::map<std::string, std::pair<int64_t, int64_t>> weights;  // dtype name -> tensors, bytes
};

class Model {
 public:
  static Model load(const std::string& path, const LoadOptions& options = {});
  static Model from_bytes(std::vector<std::byte> bytes, const LoadOptions& options = {});
  // A loaded or edited graph (transmuter/graph.h) without saving it; weights are shared, not copied.
  static Model from_graph(const Graph& graph, const LoadOptions& options = {});

  const std::vector<ValueSpec>& inputs() const;
  const std::vector<ValueSpec>& outputs() const;
  ModelSummary summary() const;
  // An integer of the file's metadata properties ("vocab_size").
  int64_t metadata_integer(const std::string& key, int64_t otherwise) const;
  // Compiled models of one model share its weights, and what a backend makes of them.
  CompiledModel compile(const CompileOptions& options = {}) const;
  // Operator by operator, as compile({.backend = backend, .eager = true}) would; what that compiles is kept with the
  // model.
  TensorMap run(const TensorMap& inputs, const std::string& backend = "cpu") const;
  // Frees what run() keeps, on all backends. The next call makes it again.
  void release_cached_memory() const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

// Every operator in the registry, for `transmuter ops`.
struct OperatorInfo {
  std::string domain;  // "" is ai.onnx
  std::string name;
  std::vector<int64_t> versions;  // opset versions at which its meaning changes
  std::string notes;
};
std::vector<OperatorInfo> supported_operators();

}  // namespace transmuter
