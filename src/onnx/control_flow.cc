#include "base/strings.h"
#include "onnx/build.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

const Graph& body(const Node& node, const char* attribute) {
  const Attribute* found = node.find(attribute);
  if (!found || !found->graph) refuse(str("the node has no graph \"", attribute, "\""));
  return *found->graph;
}

void check_count(const char* what, size_t got, size_t expected) {
  if (got != expected) refuse(str(what, " has ", got, " instead of ", expected));
}

void check_if(const Node& node) {
  check_count("the inputs: the node", node.inputs.size(), 1);
  const Graph& then_branch = body(node, "then_branch");
  const Graph& else_branch = body(node, "else_branch");
  for (const Graph* branch : {&then_branch, &else_branch}) {
    check_count("the inputs: a branch", branch->inputs.size(), 0);
    check_count("the outputs: a branch", branch->outputs.size(), node.outputs.size());
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueInfo& a = then_branch.outputs[i];
    const ValueInfo& b = else_branch.outputs[i];
    if (a.kind == ValueInfo::Kind::tensor && b.kind == ValueInfo::Kind::tensor && a.dtype != DType::invalid &&
        b.dtype != DType::invalid && a.dtype != b.dtype)
      refuse(str("the branches give output ", i, " as ", name(a.dtype), " and ", name(b.dtype)));
  }
}

void check_loop(const Node& node) {
  const Graph& graph = body(node, "body");
  // max_trip_count and condition may be left out together where nothing follows.
  const size_t carried = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  check_count("the inputs: the body", graph.inputs.size(), carried + 2);
  if (graph.outputs.size() < carried + 1)
    refuse(str("the body has ", graph.outputs.size(), " outputs for the condition and ", carried, " carried values"));
  if (node.outputs.size() > graph.outputs.size() - 1)
    refuse(str("the node has ", node.outputs.size(), " outputs, its body ", graph.outputs.size() - 1));
}

void check_scan(const Node& node) {
  const Graph& graph = body(node, "body");
  const Attribute* count = node.find("num_scan_inputs");
  if (!count || count->kind != Attribute::Kind::i) refuse("the node has no integer \"num_scan_inputs\"");
  // Version 8 has the sequence lengths as its first input.
  const size_t skipped = node.version < 9 ? 1 : 0;
  if (node.inputs.size() < skipped) refuse("the node has no inputs");
  const size_t inputs = node.inputs.size() - skipped;
  if (count->i < 1 || count->i > static_cast<int64_t>(inputs))
    refuse(str("num_scan_inputs is ", count->i, ", but the node has ", inputs, " inputs"));
  check_count("the inputs: the body", graph.inputs.size(), inputs);
  const size_t states = inputs - static_cast<size_t>(count->i);
  if (graph.outputs.size() < states)
    refuse(str("the body has ", graph.outputs.size(), " outputs for ", states, " state values"));
  if (node.outputs.size() > graph.outputs.size())
    refuse(str("the node has ", node.outputs.size(), " outputs, its body ", graph.outputs.size()));
}

}  // namespace

void check_control_flow(const Node& node) {
  if (!node.domain.empty()) return;
  if (node.op_type == "If") check_if(node);
  if (node.op_type == "Loop") check_loop(node);
  if (node.op_type == "Scan") check_scan(node);
}

}  // namespace transmuter::onnx
