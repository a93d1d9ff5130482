// What depends on weights alone is done once a model: a *prepare* program makes those values, the *main* program takes
// them as weights. Trainable weights never enter prepare, and prepare never grows bytes: a value larger than kFoldLimit
// and than the weights that it is made of (a widening cast, a dequantization, an Expand) stays in main, and so does
// what it is made from, up to the last value that fits. A mere view of a weight (transposed, reshaped) stays, too.
#pragma once

#include <vector>

#include "ir/program.h"

namespace transmuter::ir {

struct SplitProgram {
  Program prepare;               // no inputs; its results are the prepared values
  Program main;                  // the inputs of the original, and weights
  std::vector<size_t> prepared;  // result i of prepare becomes the weight main.parameters()[prepared[i]]
};
SplitProgram split_weights(const Program& program);
// Main with the results of prepare in their places.
Program with_prepared(SplitProgram split, std::vector<Tensor> results);

}  // namespace transmuter::ir
