// `transmuter inspect`: what a model is made of, what of it is missing here, and what tracing it does.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hub_progress.h"
#include "inputs.h"

namespace transmuter::cli {

using nlohmann::json;

namespace {

struct InspectOptions {
  EngineOptions engine;
  std::string model;
  std::vector<std::string> extents;
  std::vector<std::string> inputs;
  std::string data_set;
  bool as_json = false;
  bool trace = false;
  bool memory = false;
};

std::string spec_text(const ValueSpec& spec) {
  if (spec.kind == Value::Kind::map) return std::string("map from ") + name(spec.key_dtype) + " to " + name(spec.dtype);
  if (spec.kind != Value::Kind::tensor) {
    const std::string element = spec.element.empty() ? "anything" : spec_text(spec.element[0]);
    return (spec.kind == Value::Kind::sequence ? "sequence of " : "optional ") + element;
  }
  std::string text = name(spec.dtype);
  if (!spec.has_shape) return text + " of any shape";
  text += " [";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    const ValueSpec::Dim& d = spec.shape[i];
    text += (i ? ", " : "") + (d.value >= 0 ? std::to_string(d.value) : d.symbol.empty() ? std::string("?") : d.symbol);
  }
  return text + "]" + (spec.optional ? " (has a default)" : "");
}

json spec_json(const ValueSpec& spec) {
  json shape = json::array();
  for (const ValueSpec::Dim& d : spec.shape) shape.push_back(d.value >= 0 ? json(d.value) : json(d.symbol));
  return {{"name", spec.name},
          {"dtype", name(spec.dtype)},
          {"shape", spec.has_shape ? shape : json()},
          {"optional", spec.optional}};
}

json memory_json(const MemoryUse& use) {
  return {{"stored", use.stored}, {"prepared", use.prepared}, {"arenas", use.arenas}};
}

void print_json(const Model& model, const ModelSummary& summary, const MemoryUse* memory = nullptr) {
  json out = {{"ir_version", summary.ir_version},
              {"producer", summary.producer},
              {"opsets", summary.opsets},
              {"operators", summary.operators},
              {"unsupported", summary.unsupported}};
  for (const ValueSpec& spec : model.inputs()) out["inputs"].push_back(spec_json(spec));
  for (const ValueSpec& spec : model.outputs()) out["outputs"].push_back(spec_json(spec));
  for (const auto& [dtype, weights] : summary.weights)
    out["weights"][dtype] = {{"tensors", weights.first}, {"bytes", weights.second}};
  if (memory) out["memory"] = memory_json(*memory);
  std::printf("%s\n", out.dump().c_str());
}

void print_text(const Model& model, const ModelSummary& summary) {
  std::printf("producer   %s, IR %lld, opsets", summary.producer.c_str(), static_cast<long long>(summary.ir_version));
  for (const auto& [domain, version] : summary.opsets) {
    std::printf(" %s %lld", domain.empty() ? "ai.onnx" : domain.c_str(), static_cast<long long>(version));
  }
  std::printf("\n");
  for (const ValueSpec& spec : model.inputs())
    std::printf("input      %s: %s\n", spec.name.c_str(), spec_text(spec).c_str());
  for (const ValueSpec& spec : model.outputs())
    std::printf("output     %s: %s\n", spec.name.c_str(), spec_text(spec).c_str());
  int64_t total = 0;
  for (const auto& [dtype, weights] : summary.weights) {
    std::printf("weights    %s: %lld tensors, %.2f MB\n", dtype.c_str(), static_cast<long long>(weights.first),
                static_cast<double>(weights.second) / 1e6);
    total += weights.second;
  }
  std::printf("weights    %.2f MB in all\noperators ", static_cast<double>(total) / 1e6);
  for (const auto& [op, count] : summary.operators) std::printf(" %s:%lld", op.c_str(), static_cast<long long>(count));
  std::printf("\n");
  if (summary.unsupported.empty()) std::printf("every operator is supported\n");
  for (const std::string& node : summary.unsupported) std::printf("unsupported  %s\n", node.c_str());
}

void print_memory(const MemoryUse& use) {
  const auto rows = [](const char* what, const std::map<std::string, int64_t>& bytes) {
    for (const auto& [dtype, count] : bytes)
      std::printf("memory     %s as %s: %.2f MB\n", what, dtype.c_str(), static_cast<double>(count) / 1e6);
  };
  rows("stored", use.stored);
  rows("prepared", use.prepared);
  if (use.prepared.empty()) std::printf("memory     nothing prepared: weights are read as they are stored\n");
  std::printf("memory     arenas: %.2f MB\n", static_cast<double>(use.arenas) / 1e6);
}

void inspect(const InspectOptions& options) {
  const Model model = Model::load(local_path(options.model));
  const ModelSummary summary = model.summary();
  if (!options.as_json) print_text(model, summary);
  if (!options.trace && !options.memory) {
    if (options.as_json) print_json(model, summary);
    return;
  }
  TensorMap inputs;
  if (!options.data_set.empty()) {
    inputs = read_data_set(model, options.data_set);
  } else if (!options.inputs.empty()) {
    inputs = read_inputs(model, options.inputs);
  } else {
    inputs = generated_inputs(model, parse_extents(options.extents), 100);
  }
  const CompiledModel run = model.compile(options.engine.compile_options());
  run(inputs);
  const MemoryUse use = run.memory();
  if (options.as_json) print_json(model, summary, options.memory ? &use : nullptr);
  if (options.memory && !options.as_json) print_memory(use);
  if (options.trace) std::printf("%s", run.trace_text().c_str());
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Inputs, outputs, operators, weights, what is unsupported");
  command->add_option("model", options->model, "an ONNX file, or hf:REPO[@REVISION][/FILE]")->required();
  command->add_flag("--json", options->as_json, "one JSON object");
  command->add_flag("--trace", options->trace,
                    "run once and print the trace: segments, guards, assertions, breaks, specialisations");
  command->add_flag("--memory", options->memory,
                    "run once and print what the weights take: as stored, and as the backend prepared them");
  command->add_option("--dim", options->extents, "NAME=VALUE for --trace and --memory with generated inputs");
  command->add_option("-i,--input", options->inputs, "inputs for --trace and --memory, as run takes them");
  command->add_option("--data-set", options->data_set, "a test_data_set_N folder for --trace and --memory");
  options->engine.add_to(*command);
  command->callback([options] { inspect(*options); });
}

}  // namespace transmuter::cli
