// Caches that grow: past (an input) ++ now -> present (a result). Such a result lies where the input does, in memory
// with room behind it; before the program runs the input is moved there if it isn't.
#pragma once

#include <vector>

#include "ir/program.h"

namespace transmuter::cpu {

struct Append {
  const ir::Op* op;  // the concatenation
  ir::Value past, present;
  int64_t axis;
};

// At most one for each input and each result, in the program's order.
std::vector<Append> find_appends(const ir::Program& program);

}  // namespace transmuter::cpu
