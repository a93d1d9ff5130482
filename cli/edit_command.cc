// `transmuter edit`: changes a model and writes it as a new one.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "edit_script.h"
#include "hub_progress.h"
#include "transmuter/transmuter.h"

namespace transmuter::cli {

namespace {

struct EditOptions {
  std::string model;
  std::string output;
  std::string data_file;
  size_t external_from = SaveOptions().external_from;
  bool external = false;
  bool embed = false;
  bool list = false;
};

struct StepHelp {
  const char* option;
  const char* value;  // "" = a flag
  const char* help;
};

constexpr StepHelp kSteps[] = {
    {"--where", "CONDITION",
     "select nodes, as the @ of the edits after it: op_type=, name=, domain=, scope=, input=, output= (with * and ?), "
     "attr.NAME=VALUE; several in a row must all hold"},
    {"--in", "SCOPE", "names of values mean this graph from here on: \"NODE.body\", \"function DOMAIN.NAME\", \"\""},
    {"--set-op", "[NODE=]OP", "another operator (DOMAIN.OP for one that is not ai.onnx)"},
    {"--set-attr", "[NODE.]ATTR=VALUE", "set an attribute: a number, [list], string, FILE.npy"},
    {"--remove-attr", "[NODE.]ATTR", "remove an attribute"},
    {"--rename-node", "NODE=NAME", "rename a node"},
    {"--remove", "NODE", "remove a node"},
    {"--bypass", "NODE", "remove a node; what read its first output reads its first input"},
    {"--add-node", "NODE", "add \"Op(INPUT, ...; ATTR=VALUE, ...) -> OUTPUT, ...\"; its place is found"},
    {"--prune", "", "remove nodes and initializers that no output needs"},
    {"--rewire", "OLD=NEW", "everything that reads the value OLD reads NEW; NODE[I]=VALUE: one input of one node"},
    {"--rename", "OLD=NEW", "rename a value, an input or an output"},
    {"--add-output", "NAME[:TYPE]", "make a value an output; TYPE, as float32[batch,8], where it isn't known"},
    {"--remove-output", "NAME", "an output no more"},
    {"--add-input", "NAME:TYPE", "a new input"},
    {"--remove-input", "NAME", "an input no more"},
    {"--set-type", "NAME:TYPE", "declare another type"},
    {"--rename-dim", "OLD=NEW", "rename the symbol of an extent"},
    {"--fix-dim", "SYMBOL=NUMBER", "give an extent a fixed size"},
    {"--set-initializer", "NAME=TENSOR", "add or replace: FILE.npy, FILE.pb or DTYPE:JSON, as float32:[0.5, 1]"},
    {"--convert-initializer", "NAME=DTYPE", "store it as another dtype; a Cast restores it for its readers"},
    {"--initializer-to-input", "NAME", "the value comes from outside"},
    {"--remove-initializer", "NAME", "remove an initializer"},
    {"--set-opset", "[DOMAIN=]N", "import another version; no node is converted"},
    {"--set-metadata", "KEY=VALUE", "set a metadata property"},
    {"--remove-metadata", "KEY", "remove a metadata property"},
};

constexpr const char* kExamples = R"(Edits happen in the order given; the result is checked as loading it would, and
written whole or not at all. NODE is a node's name, a value that it makes, or @ for what --where selected.

Examples:
  transmuter edit m.onnx --list --where op_type=Greater
  transmuter edit m.onnx --where op_type=Greater --where output=mask --set-op GreaterOrEqual -o out.onnx
  transmuter edit m.onnx --set-attr /Softmax.axis=1 -o out.onnx
  transmuter edit m.onnx --add-output /encoder/layer.3/Add_output_0 -o out.onnx
  transmuter edit m.onnx --rename-dim unk__7=batch --fix-dim sequence=128 -o out.onnx
  transmuter edit m.onnx --convert-initializer weight=float16 -o out.onnx
  transmuter edit m.onnx --add-node "Relu(x) -> x2" --rewire x=x2 -o out.onnx
  transmuter edit m.onnx --external-data weights.bin -o out.onnx)";

// An attribute's value as one word of a line.
struct Print {
  std::string operator()(std::monostate) const { return "..."; }
  std::string operator()(int64_t i) const { return std::to_string(i); }
  std::string operator()(float f) const {
    char text[32];
    std::snprintf(text, sizeof text, "%g", static_cast<double>(f));
    return text;
  }
  std::string operator()(const std::string& s) const { return '"' + s + '"'; }
  std::string operator()(const Tensor& t) const { return describe(t); }
  std::string operator()(const std::vector<int64_t>& values) const { return list(values); }
  std::string operator()(const std::vector<float>& values) const { return list(values); }
  std::string operator()(const std::vector<std::string>& values) const { return list(values); }
  template <class T>
  std::string list(const std::vector<T>& values) const {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + (*this)(values[i]);
    return text + "]";
  }
};

std::string value_text(const AttributeValue& value) { return std::visit(Print{}, value); }

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
  return text;
}

void print_nodes(const std::vector<NodeInfo>& nodes) {
  for (const NodeInfo& node : nodes) {
    std::string line = full_label(node) + ": " + (node.domain.empty() ? "" : node.domain + ".") + node.op_type + "(" +
                       joined(node.inputs);
    const char* separator = "; ";
    for (const auto& [name, value] : node.attributes) {
      line += separator + name + "=" + value_text(value);
      separator = ", ";
    }
    std::printf("%s) -> %s\n", line.c_str(), joined(node.outputs).c_str());
  }
}

// The edits in the order of the command line: each occurrence of an option takes the next of its values.
std::vector<EditStep> steps_of(const CLI::App& command) {
  std::vector<EditStep> steps;
  std::map<const CLI::Option*, size_t> used;
  for (const CLI::Option* option : command.parse_order()) {
    const auto known = std::find_if(std::begin(kSteps), std::end(kSteps),
                                    [&](const StepHelp& step) { return option->check_name(step.option); });
    if (known == std::end(kSteps)) continue;
    const bool flag = *known->value == '\0';
    steps.push_back({known->option, flag ? "" : option->results().at(used[option]++)});
  }
  return steps;
}

void edit_model(const EditOptions& options, const std::vector<EditStep>& steps) {
  const Graph graph = Graph::load(local_path(options.model));
  EditScript script(graph);
  for (const EditStep& step : steps) script.apply(step);
  if (options.list) print_nodes(script.selected());
  if (options.output.empty()) {
    if (options.list) return;
    throw Error(ErrorCode::invalid_input, "give the file to write with -o, or --list to look");
  }
  SaveOptions save;
  save.data_file = options.data_file;
  save.external_from = options.external_from;
  if (options.external) save.weights = SaveOptions::Weights::external;
  if (options.embed) save.weights = SaveOptions::Weights::embed;
  const bool edits = std::any_of(steps.begin(), steps.end(), [](const EditStep& step) {
    return step.option != "--where" && step.option != "--in";
  });
  (edits ? script.commit() : graph).save(options.output, save);
}

}  // namespace

void add_edit(CLI::App& app) {
  auto options = std::make_shared<EditOptions>();
  CLI::App* command = app.add_subcommand("edit", "Change a model and write it as a new one");
  command->footer(kExamples);
  command->add_option("model", options->model, "an ONNX file, or hf:REPO[@REVISION][/FILE]")->required();
  command->add_option("-o,--output", options->output, "the ONNX file to write; may be the same");
  command->add_flag("--list", options->list, "print the nodes that are selected, or all");
  CLI::Option* external =
      command
          ->add_option("--external-data", options->data_file,
                       "weights in one file of this name beside the model; OUTPUT.data without a name")
          ->expected(0, 1)
          ->type_name("[FILE]");
  command->add_option("--external-from", options->external_from, "bytes from which on a tensor goes there")
      ->capture_default_str();
  command->add_flag("--embed-data", options->embed, "all weights inside the model")->excludes(external);
  for (const StepHelp& step : kSteps) {
    if (*step.value == '\0') {
      command->add_flag(step.option, step.help)->group("Edits");
    } else {
      command->add_option(step.option, step.help)->expected(1)->take_all()->type_name(step.value)->group("Edits");
    }
  }
  command->callback([options, command, external] {
    options->external = external->count() > 0;
    edit_model(*options, steps_of(*command));
  });
}

}  // namespace transmuter::cli
