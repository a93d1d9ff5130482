// What finds how much there is, in StableHLO's own words.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

// `nonzero` and `compress`, in regions too, become a stable sort that brings the places found to the front, their
// count, which is read as the size that they defined, and a slice of so many.
Program counts_as_sorts(const Program& program);

}  // namespace transmuter::ir
