// The edits of `transmuter edit`, one option each, in the order of the command line.
#pragma once

#include <string>
#include <vector>

#include "transmuter/graph.h"

namespace transmuter::cli {

struct EditStep {
  std::string option;  // "--set-op"
  std::string value;
};

std::string full_label(const NodeInfo& node);  // "SCOPE > NAME"; of the main graph the name alone

// Applies steps one after the other. --where selects nodes for the "@" of the steps after it, several in a row narrow
// the selection; --in says which graph the names of values mean from then on.
class EditScript {
 public:
  explicit EditScript(const Graph& graph) : edit_(graph.edit()) {}
  void apply(const EditStep& step);  // throws Error with the step in the chain
  Graph commit() const { return edit_.commit(); }
  std::vector<NodeInfo> selected() const;  // all nodes where nothing is selected

 private:
  void run(const EditStep& step);
  void run_on_values(const std::string& option, const std::string& value);
  void select(const std::string& condition);
  // The node of a name ("SCOPE > NAME" and names of outputs do too), or for "@" and "" the selection.
  std::vector<NodeInfo> nodes(const std::string& wanted) const;

  GraphEdit edit_;
  std::vector<NodePredicate> where_;
  bool selecting_ = false;
  std::string scope_;
};

}  // namespace transmuter::cli
