// What a Model and a CompiledModel are inside.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onnx/graph.h"
#include "runtime/eager.h"
#include "runtime/graph_runner.h"
#include "telemetry/counters.h"
#include "telemetry/span.h"
#include "transmuter/model.h"

namespace transmuter {

// Hands out one state a call.
class RandomSequence {
 public:
  explicit RandomSequence(uint64_t seed) : state_{seed, 0} {}
  RandomState take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    RandomState taken = state_;
    ++state_.call;
    return taken;
  }
  RandomState get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return state_;
  }
  void set(const RandomState& state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_ = state;
  }

 private:
  mutable std::mutex mutex_;
  RandomState state_;
};

// What Model::run keeps for one backend.
struct EagerRuns {
  std::unique_ptr<runtime::EagerRunner> runner;
  RandomSequence random{0};
};

struct Model::Impl {
  onnx::Model model;
  LoadOptions options;
  std::vector<ValueSpec> inputs;
  std::vector<ValueSpec> outputs;

  mutable std::mutex eager_mutex;
  mutable std::map<std::string, std::shared_ptr<EagerRuns>> eager;  // by backend

  // Inputs by position, checked against what the model declares.
  std::vector<Value> by_position(const TensorMap& inputs) const;
  TensorMap by_name(std::vector<Value> outputs) const;
  // An Error on its way out gets the file's name.
  void locate(Error& error) const;
  // What backends made of the weights, for all compiled models.
  std::shared_ptr<WeightStore> weights_for(const std::string& backend) const;
  // Of weights as they are stored, by dtype name.
  std::map<std::string, std::pair<int64_t, int64_t>> stored_weights() const;  // tensors, bytes
  // Of a run that begins, for those who listen.
  void tell_run(telemetry::Span& span, const std::string& backend, bool is_eager, const TensorMap& given) const;
  telemetry::HeldBytes held;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<WeightStore>> weights_;  // by backend
};

struct CompiledModel::Impl {
  explicit Impl(uint64_t seed) : random(seed) {}
  std::shared_ptr<const Model::Impl> model;
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<runtime::GraphRunner> runner;
  int64_t max_loop_trips = 0;
  std::unique_ptr<runtime::EagerRunner> eager;  // in place of `runner`
  std::vector<std::string> static_inputs;
  RandomSequence random;

  runtime::GraphRunner& traced() const;  // Error where it runs eagerly
  std::vector<Value> inputs(const TensorMap& given) const;
  TensorMap call(const TensorMap& given, const RandomState& state, const runtime::Donation* donation = nullptr) const;
};

ValueSpec spec_of(const onnx::ValueInfo& info);
// Operators, attributes and counts of inputs and outputs are as the imported operator sets have them. Throws Error.
void check_model(const onnx::Model& model);
Error out_of_memory(const Model::Impl& model);
// For a handler around a run of the model: what it caught goes on, counted as a failed run. An Error says which file it
// was; memory that ran out is one, and so is a size that no container can have.
[[noreturn]] void fail_run(const Model::Impl& model);

// Every node of the graph (subgraphs included) whose operator is missing: "node X (Op)".
std::vector<std::string> unsupported_nodes(const onnx::Graph& graph);

}  // namespace transmuter
