// Errors. Everything that can go wrong with a file, a model or an input is one tm::Error: a code, one clear
// sentence, then the chain of where it happened, innermost first (operator, node, graph, file).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace transmuter {

enum class ErrorCode {
  invalid_model,  // the file or graph breaks the ONNX specification
  unsupported,    // legal, but not implemented here; the message names what
  invalid_input,  // a wrong name, dtype, rank, size or value handed to a run
  not_found,      // a file, a backend, a name
  io,             // the operating system refused
  out_of_memory,
  limit,      // a run went past a limit that it was given (trips of a Loop)
  cancelled,  // the caller asked a run to stop
  internal,   // a fault of ours; please report
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string sentence) : code_(code), sentence_(std::move(sentence)) { render(); }

  // Adds one link to the chain of where, e.g. `node "/encoder/MatMul" (MatMul)` or `file model.onnx`.
  Error& in(std::string where) {
    where_.push_back(std::move(where));
    render();
    return *this;
  }

  ErrorCode code() const { return code_; }
  const std::string& sentence() const { return sentence_; }
  const std::vector<std::string>& where() const { return where_; }
  const char* what() const noexcept override { return rendered_.c_str(); }

 private:
  void render() {
    rendered_ = sentence_;
    for (const std::string& where : where_) rendered_ += ", in " + where;
  }

  ErrorCode code_;
  std::string sentence_;
  std::vector<std::string> where_;
  std::string rendered_;
};

}  // namespace transmuter
