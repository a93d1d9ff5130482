// The plain interpreter: runs a program op by op through the primitives' evaluate functions. What the reference
// backend and constant folding use; slow and obvious, it gives the IR its meaning.
#pragma once

#include <span>
#include <vector>

#include "ir/primitive.h"
#include "ir/program.h"

namespace transmuter::ir {

// `inputs`: one tensor per parameter of kind input, in order; packed dtypes packed, any alignment. Returns the
// program's results, packed where their dtype is. `bindings` has the symbols of the inputs set (null: no scope); ops
// with data-dependent extents set theirs. Values are freed after their last use. An Error of an op carries its
// location. A composite without an evaluate function runs through its decomposition, which makes expressions in the
// program's scope: inline those first where threads share a scope.
std::vector<Tensor> evaluate(const Program& program, std::span<const Tensor> inputs, Bindings* bindings = nullptr);

// A composite without an evaluate function as a program (see above for what that does to the scope); null for others.
ProgramPtr body_of(const Program& program, const Op& op);

// One op on concrete operands; `runner` runs its regions (null: this interpreter).
std::vector<Tensor> evaluate_op(const Program& program, const Op& op, std::vector<Tensor> operands, Bindings* bindings,
                                const RegionRunner* runner = nullptr);

}  // namespace transmuter::ir
