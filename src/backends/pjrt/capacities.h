// Sizes that change from run to run (the length of a text, of a cache) without a compiled program for each: values get
// room for more than they hold, in steps, and one program serves all sizes that fit (padded.h).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/program.h"

namespace transmuter::pjrt {

class Capacities {
 public:
  // Of the extents in a program that depend on these symbols. Makes expressions in the program's scope, which is to be
  // current, here only. `least`: no extent gets less room.
  Capacities(const ir::Program& program, std::vector<int32_t> symbols, int64_t least);

  bool varies(int32_t symbol) const;
  bool depends(Dim dim) const;
  bool depends(const Dims& dims) const;
  bool depends(const ir::Op& op) const;  // by its attributes or in its regions
  // Extents that differ by a constant (past and past + 1) are of one class, which has one capacity: what one run
  // appends to, the next finds as it needs it. By class, for sizes of a run:
  std::vector<int64_t> rooms(Bindings& bindings) const;
  // The extent under which a dim lies in memory.
  Dim room(Dim dim, const std::vector<int64_t>& rooms) const;
  Dims room(const Dims& dims, const std::vector<int64_t>& rooms) const;

  // All that depend: what a padded program is told of a run, in this order.
  const Dims& sizes() const { return sizes_; }
  int64_t position(Dim dim) const;  // in sizes()

 private:
  void add(Dim dim, bool is_extent);
  void add_all(const ir::Program& program);

  std::vector<int32_t> symbols_;
  int64_t least_;
  std::shared_ptr<ShapeScope> scope_;
  mutable std::map<ExprId, bool> depends_;
  Dims sizes_;
  std::map<ExprId, int64_t> positions_;
  std::map<ExprId, size_t> classes_;
  Dims largest_;  // by class
};

// Symbols that may be padded: extents of inputs, but of no first axis (sequences of a batch, rows of a table).
std::vector<int32_t> varying_symbols(const std::vector<ir::Type>& inputs, const ShapeScope& scope);

// Some input comes back as a result with something new behind it.
bool appends_to_inputs(const ir::Program& program);

}  // namespace transmuter::pjrt
