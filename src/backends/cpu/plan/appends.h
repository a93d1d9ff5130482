// Caches: an input that comes back as a result with something new behind it (past ++ now -> present), or in it (a
// buffer as long as the longest text, written at the current place, or at a place for each sequence of the batch). Such
// a result lies where the input does; before the program runs the input is moved to memory of its own, with room behind
// it, if it isn't there.
#pragma once

#include <vector>

#include "ir/program.h"

namespace transmuter::cpu {

struct Append {
  enum class Kind : uint8_t { grow, write, write_rows };
  Kind kind;
  const ir::Op* op;     // concatenate; dynamic_update_slice; write_rows
  const ir::Op* zeros;  // write: the pad that puts zeros behind what is new, to the end of the cache; may be null
  ir::Value past, present;
  int64_t axis;

  // What is new.
  ir::Value now() const { return zeros ? zeros->operands[0] : op->operands[1]; }
};

// At most one for each input and each result, in the program's order.
std::vector<Append> find_appends(const ir::Program& program);

}  // namespace transmuter::cpu
