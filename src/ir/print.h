// StableHLO text of a program, and the pieces that the primitives' print functions are made of.
#pragma once

#include <string>
#include <vector>

#include "ir/primitive.h"

namespace transmuter::ir {

// A module with one func.func @main over the program's inputs and weights, in parameter order. Composites are inlined
// first. Dims are replaced by their bound values, without bindings by the hints, which a comment at the top says.
// The same program always prints the same text.
std::string print_stablehlo(const Program& program, Bindings* bindings = nullptr);

std::string element_type_text(DType dtype);                     // "f32", "i1", "ui8", "complex<f32>"
std::string tensor_type_text(DType dtype, const Shape& shape);  // "tensor<2x3xf32>"
std::string array_text(const std::vector<int64_t>& values);     // "array<i64: 1, 2>"
std::string list_text(const std::vector<int64_t>& values);      // "[1, 2]"
std::string dense_text(const Tensor& value);                    // "dense<...> : tensor<2xf32>"
std::string scalar_text(DType dtype, double value);             // "dense<0.0> : tensor<f32>"
// "({...})" of a region with one block: a reduction body over 0-d arguments that applies `op` ("stablehlo.add") to
// them.
std::string binary_region_text(const std::string& op, DType dtype);
// "({...})" of a region that is a whole program, as while and case have them.
std::string program_region_text(const Program& program, Bindings* bindings);
// A constant line before the op for its init value: appends the line to `out.before` and the operand to
// `out.extra_operands`/`extra_operand_types`. `which` tells several of one op apart.
void add_constant_operand(PrintedOp& out, const PrintContext& context, const Tensor& value, int which = 0);

}  // namespace transmuter::ir
