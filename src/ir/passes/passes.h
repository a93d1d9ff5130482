// The passes that need no options: each returns a new program that computes the same results.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

// Constants up to this size are computed at compile time; more would only bloat the program.
inline constexpr size_t kFoldLimit = 64 * 1024;

// Merges ops with equal primitives, operands, attributes and result types (cse.cc).
Program cse(const Program& program);
// Drops ops and weights that no result needs; inputs stay (dce.cc). An op that defines a data-dependent extent stays as
// long as something reads the extent.
Program dce(const Program& program);
// Evaluates ops whose operands are all constants, results up to kFoldLimit; an elementwise op of splats becomes a splat
// of whatever shape (fold.cc).
Program fold(const Program& program);
// Identities that remove or shorten: x * 1, transpose of transpose, slice of everything, ... (simplify.cc).
Program simplify(const Program& program);

}  // namespace transmuter::ir
