// What the tests of events share: a subscriber that keeps what it got, and a model with a break.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime_models.h"
#include "transmuter/telemetry.h"

namespace transmuter::telemetry::testing {

using namespace runtime::testing;  // NOLINT(google-build-using-namespace): models and tensors

// An event that outlives its call.
struct Got {
  Kind kind;
  std::string name;
  uint64_t id, parent, thread;
  std::chrono::steady_clock::time_point start, end;
  bool failed;
  std::map<std::string, std::string> attributes;

  explicit Got(const Event& event)
      : kind(event.kind),
        name(event.name),
        id(event.id),
        parent(event.parent),
        thread(event.thread),
        start(event.start),
        end(event.start + event.duration),
        failed(event.failed) {
    for (const Attribute& a : event.attributes) {
      std::string& text = attributes[std::string(a.key)];
      if (const auto* s = std::get_if<std::string_view>(&a.value))
        text = *s;
      else if (const auto* i = std::get_if<int64_t>(&a.value))
        text = std::to_string(*i);
      else
        text = std::to_string(std::get<double>(a.value));
    }
  }
};

class Recorder {
 public:
  explicit Recorder(Kinds kinds = kAll)
      : subscription_(subscribe(
            [this](const Event& event) {
              const std::lock_guard<std::mutex> lock(mutex_);
              got_.emplace_back(event);
            },
            kinds)) {}

  std::vector<Got> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return got_;
  }
  std::vector<Got> of(Kind kind) const {
    std::vector<Got> found;
    for (const Got& got : all())
      if (got.kind == kind) found.push_back(got);
    return found;
  }
  int count(Kind kind) const { return static_cast<int>(of(kind).size()); }
  int count(Kind kind, const std::string& named) const {
    int count = 0;
    for (const Got& got : of(kind)) count += got.name == named;
    return count;
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    got_.clear();
  }
  Subscription& subscription() { return subscription_; }

 private:
  mutable std::mutex mutex_;
  std::vector<Got> got_;
  Subscription subscription_;  // the first to go
};

// x * 3, decided on by how many words there are: one break, at the words.
inline Model breaking_model() {
  const auto branch = [](const std::string& op, const Strings& inputs) {
    return graph({.nodes = {node(op, inputs, {"y" + op})}, .outputs = {value("y" + op)}, .name = op});
  };
  const GraphParts parts{
      .nodes = {node("Mul", {"x", "three"}, {"scaled"}),
                node("LabelEncoder", {"words"}, {"labels"},
                     {strings_attribute("keys_strings", {"a", "b"}), ints_attribute("values_int64s", {1, 2})},
                     "ai.onnx.ml"),
                node("Shape", {"labels"}, {"shape"}), node("Gather", {"shape", "zero"}, {"n"}),
                node("Greater", {"n", "two"}, {"many"}),
                node("If", {"many"}, {"y"},
                     {graph_attribute("then_branch", branch("Neg", {"scaled"})),
                      graph_attribute("else_branch", branch("Add", {"scaled", "scaled"}))}),
                node("Add", {"y", "x"}, {"z"})},
      .inputs = {shaped("x", kFloat, {"n"}), shaped("words", kString, {"m"})},
      .outputs = {value("z"), value("labels", kInt64)},
      .initializers = {float_tensor("three", {3}), int64_tensor("zero", {0}, true), int64_tensor("two", {2}, true)}};
  return load(model({.graph = graph(parts), .opsets = {opset("", 18), opset("ai.onnx.ml", 4)}}));
}

inline TensorMap breaking_inputs(int64_t n, size_t words) {
  return {{"x", counting({n})},
          {"words", Tensor::of_strings(std::vector<std::string>(words, "a"), {static_cast<int64_t>(words)})}};
}

inline TensorMap encoder_inputs(int64_t batch, int64_t sequence) {
  return {{"ids", ids({batch, sequence}, 32)},
          {"mask", Tensor(std::vector<int64_t>(static_cast<size_t>(batch * sequence), 1), {batch, sequence})}};
}

inline CompiledModel on_cpu(const Model& model, int cache_size = 8, const std::string& backend = "cpu") {
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  options.cache_size = cache_size;
  return model.compile(options);
}

}  // namespace transmuter::telemetry::testing
