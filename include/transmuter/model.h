// Model: an ONNX file, loaded. compile() gives a callable that traces on the first call and keeps what it compiled;
// run() goes operator by operator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transmuter/backend.h"
#include "transmuter/tensor.h"
#include "transmuter/value.h"

namespace transmuter {

struct LoadOptions {
  bool map = true;         // false: read the files into memory instead of mapping them
  bool trainable = false;  // weights may change later: nothing is folded into the program
};

struct CompileOptions {
  std::string backend = "cpu";
  int cache_size = 8;  // traces kept, least recently used first to go
  int threads = 0;     // 0: one per physical core
  bool passes = true;
  // "f32": intermediates that the model has as f16 or bf16 are f32; its inputs and outputs keep their types, weights
  // stay stored as they are. "native": everything as the model has it.
  std::string compute_type = "f32";
  bool verbose = false;
};

// One input or output as declared.
struct ValueSpec {
  struct Dim {
    int64_t value = -1;  // -1: not fixed
    std::string symbol;  // "batch"; may be empty
  };
  std::string name;
  Value::Kind kind = Value::Kind::tensor;
  DType dtype = DType::invalid;
  bool has_shape = false;
  std::vector<Dim> shape;
  bool optional = false;  // an input with a default (an initializer of the same name)
};

struct RunStats {
  int64_t traces = 0;  // made so far
  int64_t runs = 0;
  int64_t breaks = 0;  // graph breaks in the traces
  int64_t specializations = 0;
  double trace_ms = 0;  // tracing and passes, all traces
  double compile_ms = 0;
  // Composites of the first trace, by name ("layer_norm"): what operators gave and what passes recognised.
  std::map<std::string, int64_t> composites;
};

class CompiledModel {
 public:
  // Inputs by name -> outputs by name. Throws Error(invalid_input) for a missing, unknown or mistyped input. May be
  // called from several threads at once.
  TensorMap operator()(const TensorMap& inputs) const;
  // Traces (if no trace fits) without running; breaks still run what leads up to them.
  void trace(const TensorMap& inputs) const;
  RunStats stats() const;
  // The traces made so far as text: segments, guards, assertions, known values, breaks, specialisations.
  std::string trace_text() const;
  // The programs of the trace used last as StableHLO text, a module each (breaks: several); extents substituted.
  std::string stablehlo() const;

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

  const std::vector<ValueSpec>& inputs() const;
  const std::vector<ValueSpec>& outputs() const;
  ModelSummary summary() const;
  // An integer of the file's metadata properties ("vocab_size").
  int64_t metadata_integer(const std::string& key, int64_t otherwise) const;
  CompiledModel compile(const CompileOptions& options = {}) const;
  TensorMap run(const TensorMap& inputs, const std::string& backend = "cpu") const;

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
