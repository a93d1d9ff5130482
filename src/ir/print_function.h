// One function, or one region in it, as StableHLO text: what print.cc puts together. Extents that the bindings give are
// numbers; those that only the run knows print as "?", and ops whose attributes they are as their dynamic forms, with
// the sizes computed by ops of their own.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/dim.h"
#include "ir/print.h"

namespace transmuter::ir {

std::string joined(const std::vector<std::string>& pieces);                // "a, b"
std::string indented(const std::string& text, const std::string& indent);  // each line

class FunctionPrinter {
 public:
  // `around`: what a region stands in. Both must outlive the printer. The parameters are named %arg0, %arg1, ...
  FunctionPrinter(const Program& program, Bindings* bindings, FunctionPrinter* around = nullptr);

  // By value: what to write in place of the op that computes it. They must outlive the printer.
  void use_constants(const std::vector<Tensor>& constants) { constants_ = &constants; }

  // The block's arguments: "%arg0: tensor<2xf32>, ..."; `attributes`: by parameter, may be empty.
  std::string arguments(const std::vector<std::string>& attributes = {});
  std::vector<std::string> result_types() { return types_of(program_.results()); }
  // The ops and the terminator, one a line.
  std::string body(const char* terminator);

 private:
  struct Source {  // of a symbol: an extent of a value, or one of its elements
    std::string value, type;
    size_t index;
    bool is_extent;
  };
  struct Carry {  // what a while hands on from trip to trip
    std::string value, type;
  };

  // print_function.cc
  const std::string& name(Value value) const { return names_[static_cast<size_t>(value.id)]; }
  void set(Value value, std::string now) { names_[static_cast<size_t>(value.id)] = std::move(now); }
  std::string type_text(const Type& type);
  std::string type_text(Value value) { return type_text(program_.type(value)); }
  std::vector<std::string> names_of(const std::vector<Value>& values) const;
  std::vector<std::string> types_of(const std::vector<Value>& values);
  // Appends an op and returns the name of its one result, or `name` for a list of them: name, or name#0, name#1, ...
  std::string emit(const std::string& op, const std::vector<std::string>& operands,
                   const std::vector<std::string>& types, const std::string& result, const std::string& attributes = "",
                   const std::string& regions = "");
  std::vector<std::string> emit_all(const std::string& op, const std::vector<std::string>& operands,
                                    const std::vector<std::string>& types, const std::vector<std::string>& results,
                                    const std::string& attributes = "", const std::string& regions = "");
  std::string cast(const std::string& value, const std::string& from, const std::string& to);
  // The results of an op, given as values of these types.
  void define(const Op& op, const std::vector<std::string>& values, const std::vector<std::string>& types);
  void note_symbols(Value value);
  void print(const Op& op);
  void print_plain(const Op& op, PrintedOp printed);
  void ops();
  void terminator(const char* name, const std::vector<std::string>& values, const std::vector<std::string>& types);
  // The parameters are these values, of these types.
  void name_parameters(const std::vector<std::string>& values, const std::vector<std::string>& types);
  // "{...}" around lines that a printer of a region made; its names become its own.
  static std::string region(const std::string& arguments, const std::string& lines);
  // How a region names a value that stands around it.
  static std::string from_inside(const std::string& value);

  // print_dims.cc: sizes, as numbers or as 0-d i64 values
  bool is_fixed(ExprId expr);
  bool is_fixed(Dim dim) { return dim.is_constant() || !bindings_ || is_fixed(dim.expr()); }
  bool is_fixed(const Dims& dims);
  bool is_fixed(const Type& type) { return is_fixed(type.shape); }
  int64_t number(Dim dim) const { return bindings_ ? bindings_->evaluate(dim) : dim.hint(); }
  std::string integer(int64_t value);
  std::string scalar(Dim dim);
  std::string vector_of(const std::vector<std::string>& scalars);
  std::string vector_of(const Dims& dims);  // tensor<Nxi64>
  std::string expression(ExprId expr);
  std::string symbol(int32_t index);
  bool knows(int32_t symbol) const { return sources_.contains(symbol) || (around_ && around_->knows(symbol)); }
  std::string floor_quotient(const std::string& a, const std::string& b);
  std::string real(ExprId expr, RealDType as);
  std::string real_operation(ExprId expr);
  std::string binary(const char* op, const std::string& a, const std::string& b, const std::string& type);
  std::string compared(const char* direction, const std::string& a, const std::string& b, const std::string& type);
  std::optional<std::string> known(ExprId expr) const;

  // print_dynamic.cc: ops whose attributes only the run knows, and those with regions
  bool print_dynamic(const Op& op);  // false: it has no such form
  void print_case(const Op& op);
  void print_while(const Op& op);
  bool print_loop(const Op& op);
  Carry no_rows(const Type& row, int64_t axis);

  const Program& program_;
  Bindings* bindings_;
  FunctionPrinter* around_;
  const std::vector<Tensor>* constants_ = nullptr;
  std::vector<std::string> names_;
  std::string text_;
  std::unordered_map<int32_t, Source> sources_;
  std::unordered_map<ExprId, std::string> expressions_;
  int next_ = 0;
};

}  // namespace transmuter::ir
