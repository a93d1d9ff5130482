// Ranks that an operator's inputs must have before anybody looks at their extents.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

// Error where input i is given and its rank lies outside [least, most].
inline void require_rank(OpContext& op, size_t i, int64_t least, int64_t most) {
  if (!op.has_input(i) || (op.rank(i) >= least && op.rank(i) <= most)) return;
  if (least == most) op.invalid("input ", i, " must have rank ", least, ", has ", op.rank(i));
  op.invalid("input ", i, " must have rank ", least, " to ", most, ", has ", op.rank(i));
}
inline void require_rank(OpContext& op, size_t i, int64_t rank) { require_rank(op, i, rank, rank); }

}  // namespace transmuter::ops
