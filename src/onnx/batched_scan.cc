#include "onnx/batched_scan.h"

#include <algorithm>

#include "base/strings.h"
#include "onnx/each_node.h"

namespace transmuter::onnx {
namespace {

bool is_batched_scan(const Node& node) { return node.domain.empty() && node.op_type == "Scan" && node.version < 9; }

bool has_batched_scans(const Graph& graph) {
  bool found = false;
  for_each_node(graph, [&](const Node& node) { found = found || is_batched_scan(node); });
  return found;
}

uint64_t greatest_number(const Graph& graph) {
  uint64_t greatest = 0;
  for_each_node(graph, [&](const Node& node) { greatest = std::max(greatest, node.number); });
  return greatest;
}

Attribute integer(std::string name, int64_t value) {
  Attribute made;
  made.name = std::move(name);
  made.kind = Attribute::Kind::i;
  made.i = value;
  return made;
}

ValueInfo tensor_named(std::string name, DType dtype = DType::invalid) {
  ValueInfo info;
  info.name = std::move(name);
  info.kind = ValueInfo::Kind::tensor;
  info.dtype = dtype;
  return info;
}

// Writes the body of the Scan over the batch.
class Batch {
 public:
  Batch(const Node& scan, uint64_t& numbered) : scan_(scan), numbered_(numbered) {
    for (const Attribute& attribute : scan.attributes)
      if (attribute.name == "body") body_ = attribute.graph;
    // No name of ours may hide one that the body reads from outside.
    prefix_ = scan.label + "/";
    while (std::any_of(body_->captures.begin(), body_->captures.end(),
                       [&](const std::string& name) { return name.starts_with(prefix_); }))
      prefix_ += "_";
  }

  Node outer() {
    const std::vector<std::string> batched(scan_.inputs.begin() + 1, scan_.inputs.end());
    const bool has_lengths = !scan_.inputs[0].empty();
    const size_t scanned = static_cast<size_t>(scan_.find("num_scan_inputs")->i), carried = batched.size() - scanned;
    one_.name = body_->name;
    one_.captures = body_->captures;
    std::vector<std::string> given;
    for (size_t i = 0; i < batched.size(); ++i) {
      given.push_back(own(str("input", i)));
      one_.inputs.push_back(tensor_named(given.back(), body_->inputs[i].dtype));
    }
    if (has_lengths) {
      one_.inputs.push_back(tensor_named(own("length"), DType::i64));
      for (size_t i = carried; i < given.size(); ++i) given[i] = cut(given[i], i == carried);
    }
    std::vector<std::string> results;
    for (size_t i = 0; i < body_->outputs.size(); ++i) results.push_back(own(str("output", i)));
    Node& inner = add("Scan", 9, given, results);
    inner.number = scan_.number;
    for (const Attribute& attribute : scan_.attributes) {
      inner.attributes.push_back(attribute);
      if (attribute.name == "directions") inner.attributes.back().name = "scan_input_directions";
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (has_lengths && i >= carried) results[i] = padded(results[i]);
      one_.outputs.push_back(tensor_named(results[i], body_->outputs[i].dtype));
    }

    Node outer = made("Scan", 9, batched, scan_.outputs);
    if (has_lengths) outer.inputs.push_back(scan_.inputs[0]);
    outer.attributes = {integer("num_scan_inputs", static_cast<int64_t>(outer.inputs.size()))};
    Attribute body;
    body.name = "body";
    body.kind = Attribute::Kind::graph;
    body.graph = std::make_shared<const Graph>(std::move(one_));
    outer.attributes.push_back(std::move(body));
    return outer;
  }

 private:
  std::string own(const std::string& name) const { return prefix_ + name; }

  Node made(const char* op, int64_t version, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    Node node;
    node.name = scan_.name;
    node.label = scan_.label;
    node.op_type = op;
    node.number = ++numbered_;
    node.version = version;
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    return node;
  }

  Node& add(const char* op, int64_t version, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    one_.nodes.push_back(made(op, version, std::move(inputs), std::move(outputs)));
    return one_.nodes.back();
  }

  // As much of a sequence as its length says. All are equally long, so the first says how much is left.
  std::string cut(const std::string& sequence, bool first) {
    if (first) {
      one_.initializers.emplace(own("zero"), Tensor(std::vector<int64_t>{0}, {1}));
      add("Unsqueeze", 13, {own("length"), own("zero")}, {own("lengths")});
      add("Shape", 15, {sequence}, {own("longest")}).attributes = {integer("end", 1)};
      add("Sub", 14, {own("longest"), own("lengths")}, {own("left")});
      add("Concat", 13, {own("lengths"), own("left")}, {own("parts")}).attributes = {integer("axis", 0)};
      add("Concat", 13, {own("zero"), own("left")}, {own("pads")}).attributes = {integer("axis", 0)};
    }
    std::string used = sequence + "/used";
    add("Split", 13, {sequence, own("parts")}, {used, sequence + "/unused"});
    return used;
  }

  std::string padded(const std::string& rows) {
    std::string all = rows + "/padded";
    add("Pad", 18, {rows, own("pads"), "", own("zero")}, {all});
    return all;
  }

  const Node& scan_;
  uint64_t& numbered_;
  std::shared_ptr<const Graph> body_;
  std::string prefix_;
  Graph one_;  // the body: what is done for one of the batch
};

void spell_out(Graph& graph, uint64_t& numbered) {
  const auto replaced = [&](std::shared_ptr<const Graph>& inner) {
    if (!inner || !has_batched_scans(*inner)) return;
    auto copy = std::make_shared<Graph>(*inner);
    spell_out(*copy, numbered);
    inner = std::move(copy);
  };
  for (Node& node : graph.nodes) {
    for (Attribute& attribute : node.attributes) {
      replaced(attribute.graph);
      for (auto& inner : attribute.graphs) replaced(inner);
    }
    if (is_batched_scan(node)) node = Batch(node, numbered).outer();
  }
}

}  // namespace

void spell_out_batched_scans(Graph& graph) {
  if (!has_batched_scans(graph)) return;
  uint64_t numbered = greatest_number(graph);
  spell_out(graph, numbered);
}

}  // namespace transmuter::onnx
