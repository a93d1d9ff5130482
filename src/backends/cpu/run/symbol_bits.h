// Which symbols an extent of a program depends on, as bits: what a plan compares to see which of its steps other sizes
// concern.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace transmuter::cpu {

class SymbolBits {
 public:
  explicit SymbolBits(const ir::Program& program);

  // Of an expression that the program has in a type or an attribute; all bits for any other.
  uint64_t of(ExprId expr) const {
    if (expr == 0) return 0;
    return expr < of_expression_.size() ? of_expression_[expr] : ~uint64_t{0};
  }
  // Of the symbols whose values, by number, are not the same.
  uint64_t differing(const std::vector<int64_t>& before, const std::vector<int64_t>& now) const;

 private:
  void add(const ir::Program& program, ExprId expr);
  void add(const ir::Program& program, const Dims& dims);

  std::vector<uint64_t> of_expression_;
  std::vector<uint64_t> of_symbol_;  // 0: nothing in the program depends on it; many may share a bit
  int used_ = 0;
};

}  // namespace transmuter::cpu
