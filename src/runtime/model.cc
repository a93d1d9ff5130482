#include <algorithm>
#include <charconv>
#include <new>
#include <stdexcept>
#include <tuple>

#include "backends/weight_store.h"
#include "base/memory.h"
#include "base/strings.h"
#include "onnx/batched_scan.h"
#include "onnx/each_node.h"
#include "onnx/tensor_proto.h"
#include "onnx/value_proto.h"
#include "ops/registry.h"
#include "ops/schema.h"
#include "runtime/compiled_model.h"
#include "runtime/control_flow.h"
#include "runtime/eager.h"
#include "runtime/reads.h"
#include "tensor/npy.h"
#include "transmuter/graph.h"
#include "transmuter/io.h"
#include "transmuter/model.h"

namespace transmuter {
namespace {

constexpr int kMaxThreads = 1024;

void check_schemas(const onnx::Graph& graph) {
  for (const onnx::Node& node : graph.nodes) {
    try {
      ops::check_schema(node);
      for (const onnx::Attribute& a : node.attributes) {
        if (a.graph) check_schemas(*a.graph);
        for (const auto& g : a.graphs) check_schemas(*g);
      }
    } catch (Error& error) {
      error.in(runtime::where(node));
      throw;
    }
  }
}

std::shared_ptr<Model::Impl> prepare(onnx::Model model, const LoadOptions& options, telemetry::Span& span) {
  check_model(model);
  auto impl = std::make_shared<Model::Impl>();
  impl->model = std::move(model);
  onnx::spell_out_batched_scans(impl->model.graph);
  impl->options = options;
  for (const onnx::ValueInfo& info : impl->model.graph.inputs) {
    impl->inputs.push_back(spec_of(info));
    impl->inputs.back().optional = impl->model.graph.initializers.contains(info.name);
  }
  for (const onnx::ValueInfo& info : impl->model.graph.outputs) impl->outputs.push_back(spec_of(info));
  int64_t bytes = 0;
  for (const auto& [dtype, weights] : impl->stored_weights()) bytes += weights.second;
  impl->held = telemetry::HeldBytes(telemetry::Memory::weights, bytes);
  telemetry::count_load();
  if (span) {
    span.add("file", impl->model.path);
    span.add("nodes", impl->model.graph.nodes.size());
    span.add("weight_bytes", bytes);
  }
  telemetry::tell_memory();
  return impl;
}

std::shared_ptr<const runtime::Engine> engine_of(const Model::Impl& model, const CompileOptions& options) {
  if (options.cache_size < 1)
    throw Error(ErrorCode::invalid_input, str("cache_size is ", options.cache_size, "; at least 1 trace is kept"));
  if (options.threads < 0 || options.threads > kMaxThreads)
    throw Error(ErrorCode::invalid_input, str("threads is ", options.threads, "; it must be from 0 to ", kMaxThreads));
  auto engine = std::make_shared<runtime::Engine>();
  engine->backend = Backend::get(options.backend);
  engine->options.threads = options.threads;
  engine->options.passes = options.passes;
  engine->options.weights = model.weights_for(options.backend);
  engine->options.state = engine->state;
  engine->passes = options.passes;
  if (options.compute_type != "f32" && options.compute_type != "native") {
    throw Error(ErrorCode::invalid_input, str("compute_type ", options.compute_type, " is neither f32 nor native"));
  }
  engine->widen = options.compute_type == "f32";
  engine->trainable = model.options.trainable;
  engine->cache_size = options.cache_size;
  engine->describe = options.verbose;
  return engine;
}

void check_operators(const Model::Impl& model) {
  const auto missing = unsupported_nodes(model.model.graph);
  if (missing.empty()) return;
  std::string all;
  for (size_t i = 0; i < missing.size() && i < 20; ++i) all += (i ? ", " : "") + missing[i];
  if (missing.size() > 20) all += str(" and ", missing.size() - 20, " more");
  Error error(
      ErrorCode::unsupported,
      str(missing.size(), missing.size() == 1 ? " node needs an operator that is" : " nodes need operators that are",
          " not implemented: ", all));
  model.locate(error);
  throw error;
}

// Of the graph inputs with these names.
std::vector<int32_t> positions(const Model::Impl& model, const std::vector<std::string>& names) {
  std::vector<int32_t> found;
  for (const std::string& name : names) {
    std::string all;
    const size_t before = found.size();
    for (size_t i = 0; i < model.inputs.size(); ++i) {
      all += (i ? ", " : "") + model.inputs[i].name;
      if (model.inputs[i].name == name) found.push_back(static_cast<int32_t>(i));
    }
    if (found.size() == before)
      throw Error(ErrorCode::invalid_input, str("static input ", name, ": the model has no such input; it has ", all));
  }
  return found;
}

}  // namespace

ValueSpec spec_of(const onnx::ValueInfo& info) {
  ValueSpec spec;
  spec.name = info.name;
  spec.dtype = info.dtype;
  spec.key_dtype = info.key_dtype;
  spec.has_shape = info.has_shape;
  if (info.element) spec.element.push_back(spec_of(*info.element));
  switch (info.kind) {
    case onnx::ValueInfo::Kind::sequence:
      spec.kind = Value::Kind::sequence;
      break;
    case onnx::ValueInfo::Kind::optional:
      spec.kind = Value::Kind::optional;
      break;
    case onnx::ValueInfo::Kind::map:
      spec.kind = Value::Kind::map;
      break;
    case onnx::ValueInfo::Kind::tensor:
      spec.kind = Value::Kind::tensor;
      break;
    case onnx::ValueInfo::Kind::none:
      spec.kind = Value::Kind::none;
      break;
  }
  for (const onnx::DeclaredDim& d : info.shape) spec.shape.push_back({d.value, d.param});
  return spec;
}

void check_model(const onnx::Model& model) try { check_schemas(model.graph); } catch (Error& error) {
  error.in(str("graph ", model.graph.name));
  if (!model.path.empty()) error.in("file " + model.path);
  throw;
}

std::vector<std::string> unsupported_nodes(const onnx::Graph& graph) {
  std::vector<std::string> missing;
  onnx::for_each_node(graph, [&](const onnx::Node& node) {
    if (runtime::driven_by_host(node) || ops::registry().find(node.domain, node.op_type)) return;
    missing.push_back(str("node ", node.label, " (", node.domain.empty() ? "" : node.domain + ".", node.op_type, ")"));
  });
  return missing;
}

Model Model::load(const std::string& path, const LoadOptions& options) try {
  telemetry::Span span(telemetry::Kind::load);
  Model model;
  model.impl_ = prepare(onnx::read_model(path, {.map = options.map}), options, span);
  return model;
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, "there is not enough memory to load the model").in("file " + path);
}

Model Model::from_bytes(std::vector<std::byte> bytes, const LoadOptions& options) try {
  telemetry::Span span(telemetry::Kind::load);
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  Model model;
  model.impl_ = prepare(onnx::parse_model(owner->data(), owner->size(), owner), options, span);
  return model;
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, "there is not enough memory to load the model");
}

Model Model::from_graph(const Graph& graph, const LoadOptions& options) {
  telemetry::Span span(telemetry::Kind::load);
  Model model;
  model.impl_ = prepare(onnx::parse_document_model(*graph.document_), options, span);
  return model;
}

const std::vector<ValueSpec>& Model::inputs() const { return impl_->inputs; }
const std::vector<ValueSpec>& Model::outputs() const { return impl_->outputs; }

ModelSummary Model::summary() const {
  ModelSummary summary;
  const onnx::Model& model = impl_->model;
  summary.ir_version = model.ir_version;
  summary.producer = model.producer;
  summary.opsets = model.opsets;
  onnx::for_each_node(model.graph, [&](const onnx::Node& node) {
    ++summary.operators[(node.domain.empty() ? "" : node.domain + ".") + node.op_type];
  });
  summary.unsupported = unsupported_nodes(model.graph);
  summary.weights = impl_->stored_weights();
  return summary;
}

int64_t Model::metadata_integer(const std::string& key, int64_t otherwise) const {
  const auto found = impl_->model.metadata.find(key);
  if (found == impl_->model.metadata.end()) return otherwise;
  int64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  return std::from_chars(found->second.data(), end, value).ptr == end ? value : otherwise;
}

namespace {
Error too_large_to_compile(const Model::Impl& model) {
  Error error(ErrorCode::out_of_memory, "there is not enough memory to compile the model");
  model.locate(error);
  return error;
}
}  // namespace

CompiledModel Model::compile(const CompileOptions& options) const try {
  auto impl = std::make_shared<CompiledModel::Impl>(options.seed);
  impl->model = impl_;
  impl->max_loop_trips = options.max_loop_trips;
  impl->static_inputs = options.static_inputs;
  runtime::GraphOptions graph_options;
  graph_options.static_inputs = positions(*impl_, options.static_inputs);
  impl->engine = engine_of(*impl_, options);
  check_operators(*impl_);
  if (options.eager) {
    impl->eager = std::make_unique<runtime::EagerRunner>(impl_->model.graph, impl->engine);
  } else {
    std::shared_ptr<const onnx::Graph> graph(impl_, &impl_->model.graph);  // lives as long as the model
    impl->runner = std::make_unique<runtime::GraphRunner>(std::move(graph), impl->engine,
                                                          runtime::GraphRunner::Role::model, std::move(graph_options));
  }
  CompiledModel compiled;
  compiled.impl_ = std::move(impl);
  return compiled;
} catch (const std::bad_alloc&) {
  throw too_large_to_compile(*impl_);
} catch (const std::length_error&) {
  throw too_large_to_compile(*impl_);
}

TensorMap Model::run(const TensorMap& inputs, const std::string& backend) const try {
  std::shared_ptr<EagerRuns> runs;
  {
    const std::lock_guard<std::mutex> lock(impl_->eager_mutex);
    std::shared_ptr<EagerRuns>& kept = impl_->eager[backend];
    if (!kept) {
      CompileOptions options;
      options.backend = backend;
      auto made = std::make_shared<EagerRuns>();
      made->runner = std::make_unique<runtime::EagerRunner>(impl_->model.graph, engine_of(*impl_, options));
      check_operators(*impl_);
      kept = std::move(made);
    }
    runs = kept;
  }
  telemetry::Span span(telemetry::Kind::run);
  if (span) impl_->tell_run(span, backend, true, inputs);
  TensorMap outputs = impl_->by_name(runs->runner->run(impl_->by_position(inputs), {runs->random.take()}));
  telemetry::tell_memory();
  return outputs;
} catch (...) {
  fail_run(*impl_);
}

void Model::release_cached_memory() const try {
  std::map<std::string, std::shared_ptr<EagerRuns>> eager;
  {
    const std::lock_guard<std::mutex> lock(impl_->eager_mutex);
    eager = impl_->eager;
  }
  for (const auto& [backend, runs] : eager) {
    runs->runner->forget();
    impl_->weights_for(backend)->forget_gone();
  }
  give_back_free_memory();
  telemetry::tell_memory();
} catch (const std::bad_alloc&) {
  throw out_of_memory(*impl_);
}

std::vector<OperatorInfo> supported_operators() {
  std::vector<OperatorInfo> infos;
  for (const auto& [key, op] : ops::registry().all()) infos.push_back({op.domain, op.name, op.versions, op.notes});
  // Those with bodies, which the tracer and the host run.
  infos.push_back({"", "Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, ""});
  infos.push_back({"", "Scan", {8, 9, 11, 16, 19, 21, 23, 24, 25}, ""});
  infos.push_back({"", "SequenceMap", {17}, ""});
  infos.push_back({"com.microsoft", "GreedySearch", {1}, "decoders of GPT-2's kind"});
  infos.push_back({"com.microsoft", "Sampling", {1}, "decoders of GPT-2's kind"});
  infos.push_back({"com.microsoft", "BeamSearch", {1}, "decoders of GPT-2's kind, encoders and decoders of T5's"});
  std::sort(infos.begin(), infos.end(), [](const OperatorInfo& a, const OperatorInfo& b) {
    return std::tie(a.domain, a.name) < std::tie(b.domain, b.name);
  });
  return infos;
}

namespace {

onnx::ValueInfo declared_as(const ValueSpec& spec) {
  onnx::ValueInfo info;
  info.name = spec.name;
  info.kind = onnx::ValueInfo::Kind::tensor;
  info.dtype = spec.dtype;
  if (spec.kind == Value::Kind::sequence) info.kind = onnx::ValueInfo::Kind::sequence;
  if (spec.kind == Value::Kind::optional) info.kind = onnx::ValueInfo::Kind::optional;
  if (spec.kind == Value::Kind::map) info.kind = onnx::ValueInfo::Kind::map;
  if (!spec.element.empty()) info.element = std::make_shared<onnx::ValueInfo>(declared_as(spec.element[0]));
  return info;
}

}  // namespace

std::string value_name(const std::string& path) { return path.ends_with(".npy") ? "" : onnx::read_value_name(path); }

void write_value(const std::string& path, const Value& value, const std::string& name) {
  onnx::write_value_file(path, value, name);
}

Value read_value(const std::string& path, const ValueSpec* spec) {
  if (path.ends_with(".npy")) return read_npy(path);
  onnx::ValueInfo info;
  info.kind = onnx::ValueInfo::Kind::tensor;
  if (spec) info = declared_as(*spec);
  return onnx::read_value_file(path, info);
}

}  // namespace transmuter
