// Inputs made up from what a model declares, so that traces and memory are there before the first request.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transmuter/model.h"

namespace transmuter::runtime {

// One set of inputs for each combination of the sizes that get traces of their own: 0, 1, and the largest, which stands
// for all others; single bools both ways. With each its sizes: "batch = 1, sequence = 128". Throws Error(invalid_input)
// for a size that nothing tells, and for names that the model doesn't have.
std::vector<std::pair<std::string, TensorMap>> warm_up_inputs(const std::vector<ValueSpec>& specs,
                                                              const WarmUp& expected);

}  // namespace transmuter::runtime
