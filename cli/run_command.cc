// `transmuter run`: one run; a summary of each output, or files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "commands.h"
#include "hub_progress.h"
#include "inputs.h"

namespace transmuter::cli {

namespace fs = std::filesystem;

namespace {

struct RunOptions {
  EngineOptions engine;
  std::string model;
  std::vector<std::string> inputs;
  std::string data_set;
  std::string output;
  std::vector<std::string> warm_up;
  std::vector<std::string> outputs;
  bool eager = false;
};

// The model with values inside of it as outputs, too: those named, or with "all" whatever a node of the main graph
// gives.
Model with_outputs(const std::string& path, const std::vector<std::string>& names) {
  const Graph graph = Graph::load(path);
  std::set<std::string> taken;
  for (const ValueSpec& spec : graph.outputs()) taken.insert(spec.name);
  GraphEdit edit = graph.edit();
  auto add = [&](const std::string& name) {
    if (!name.empty() && taken.insert(name).second) edit.add_output(name);
  };
  for (const std::string& name : names) {
    if (name != "all") {
      add(name);
      continue;
    }
    for (const NodeInfo& node : graph.find(where::scope("")))
      for (const std::string& output : node.outputs) add(output);
  }
  return Model::from_graph(edit.commit());
}

std::string summary(const Tensor& t) {
  std::string text = describe(t);
  if (t.dtype() == DType::string) {
    for (int64_t i = 0; i < std::min<int64_t>(t.size(), 4); ++i)
      text += (i ? ", \"" : "  \"") + t.strings()[static_cast<size_t>(i)] + "\"";
    return text;
  }
  if (t.size() == 0 || is_complex(t.dtype())) return text;
  const std::vector<double> v = t.aligned().cast(DType::f64).to_vector<double>();
  double low = v[0], high = v[0], sum = 0;
  for (double x : v) {
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x;
  }
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "  min %.6g  max %.6g  mean %.6g  first", low, high,
                sum / static_cast<double>(v.size()));
  text += numbers;
  for (size_t i = 0; i < std::min<size_t>(v.size(), 4); ++i) {
    std::snprintf(numbers, sizeof numbers, " %.6g", v[i]);
    text += numbers;
  }
  return text;
}

std::string element_text(const Tensor& list, int64_t i) {
  if (list.dtype() == DType::string) return '"' + list.strings()[static_cast<size_t>(i)] + '"';
  if (!is_float(list.dtype())) return std::to_string(list.aligned().cast(DType::i64).data<int64_t>()[i]);
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", list.aligned().cast(DType::f64).data<double>()[i]);
  return text;
}

std::string map_text(const Value& map) {
  constexpr int64_t kShown = 16;
  std::string text = "{";
  for (int64_t i = 0; i < std::min(map.keys.size(), kShown); ++i)
    text += (i ? ", " : "") + element_text(map.keys, i) + ": " + element_text(map.tensor, i);
  return text + (map.keys.size() > kShown ? ", ... }" : "}") + "  " + std::to_string(map.keys.size()) + " entries";
}

void print_value(const std::string& label, const Value& value) {
  if (value.is_tensor()) {
    std::printf("%s: %s\n", label.c_str(), summary(value.tensor).c_str());
    return;
  }
  if (value.kind == Value::Kind::map) {
    std::printf("%s: %s\n", label.c_str(), map_text(value).c_str());
    return;
  }
  if (value.kind == Value::Kind::optional && value.items.empty()) {
    std::printf("%s: nothing\n", label.c_str());
    return;
  }
  if (value.kind == Value::Kind::optional) return print_value(label, value.items[0]);
  std::printf("%s: %zu elements\n", label.c_str(), value.items.size());
  for (size_t i = 0; i < value.items.size(); ++i)
    print_value("  " + label + "[" + std::to_string(i) + "]", value.items[i]);
}

// '/' in names becomes '_'. A failure leaves no new file behind.
void write_outputs(const TensorMap& outputs, const std::string& folder) {
  const fs::path target(folder);
  std::error_code ignored;
  const bool existed = fs::exists(target, ignored);
  if (existed && !fs::is_directory(target)) throw Error(ErrorCode::io, folder + " is not a folder");
  std::vector<fs::path> written;
  try {
    fs::create_directories(target);
    for (const auto& [name, value] : outputs) {
      std::string file = name;
      std::replace(file.begin(), file.end(), '/', '_');
      written.push_back(target / (file + (value.is_tensor() ? ".npy" : ".pb")));
      if (value.is_tensor())
        write_npy(written.back().string(), value.tensor);
      else
        write_value(written.back().string(), value, name);
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCode::io, std::string("cannot write to ") + folder + ": " + error.code().message());
  } catch (...) {
    for (const fs::path& path : written) fs::remove(path, ignored);
    if (!existed) fs::remove(target, ignored);
    throw;
  }
}

void run_model(const RunOptions& options) {
  const std::string path = local_path(options.model);
  const Model model = options.outputs.empty() ? Model::load(path) : with_outputs(path, options.outputs);
  TensorMap inputs;
  if (!options.data_set.empty()) inputs = read_data_set(model, options.data_set);
  for (auto& [name, value] : read_inputs(model, options.inputs)) inputs[name] = value;
  CompileOptions compile = options.engine.compile_options();
  compile.eager = options.eager;
  const CompiledModel compiled = model.compile(compile);
  if (!options.warm_up.empty()) compiled.warm_up(parse_warm_up(options.warm_up));
  const TensorMap outputs = compiled(inputs);
  if (!options.output.empty()) return write_outputs(outputs, options.output);
  for (const ValueSpec& spec : model.outputs()) print_value(spec.name, outputs.at(spec.name));
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a model once");
  command->add_option("model", options->model, "an ONNX file, or hf:REPO[@REVISION][/FILE]")->required();
  command->add_option(
      "-i,--input", options->inputs,
      "NAME=FILE.npy, NAME=FILE.pb or NAME=JSON (a sequence: a list of its elements; an optional: null or "
      "its content; a map: an object)");
  command->add_option("--data-set", options->data_set, "a test_data_set_N folder to take the inputs from");
  command->add_option("-o,--output", options->output,
                      "folder for OUTPUT.npy files, OUTPUT.pb of what is no tensor; without it a summary is printed");
  command->add_option("--outputs", options->outputs,
                      "values inside of the main graph to give out, too, by name; all: each of them (they are then "
                      "computed as such, so less is fused)");
  command->add_option("--warm-up", options->warm_up, kWarmUpHelp);
  command->add_flag("--eager", options->eager, "operator by operator, each compiled by itself");
  options->engine.add_to(*command);
  command->callback([options] { run_model(*options); });
}

}  // namespace transmuter::cli
