// StableHLO text of a program, and the pieces that the primitives' print functions are made of.
#pragma once

#include <string>
#include <vector>

#include "ir/primitive.h"

namespace transmuter::ir {

// A module of the given name with one func.func @main over the program's inputs and weights, in parameter order.
// Composites are inlined first. Dims are replaced by their bound values, without bindings by the hints, which a comment
// at the top says. Those that only the run knows print as "?", and are computed where an op needs them. The same
// program always prints the same text.
std::string print_stablehlo(const Program& program, Bindings* bindings = nullptr,
                            const std::string& module_name = "transmuter");

// The same for a program that is in StableHLO's terms already (stablehlo_form.h, no composites): prints, and makes no
// expressions in its scope.
struct ModuleOptions {
  std::string name = "transmuter";
  std::vector<std::string> argument_attributes = {};  // by parameter, "" or "{...}"
  std::vector<Tensor> constants = {};                 // by value: what to write in place of the op that computes it
};
std::string print_module(const Program& plain, Bindings* bindings, const ModuleOptions& options);

// The program as it is, composites and symbolic extents included, one op a line: for dumps and tests.
std::string to_text(const Program& program);

std::string element_type_text(DType dtype);                     // "f32", "i1", "ui8", "complex<f32>"
std::string tensor_type_text(DType dtype, const Shape& shape);  // "tensor<2x3xf32>"
std::string array_text(const std::vector<int64_t>& values);     // "array<i64: 1, 2>"
std::string dense_text(const Tensor& value);                    // "dense<...> : tensor<2xf32>"
struct GatherAttributes;
std::string gather_text(const GatherAttributes& gather);  // "dimension_numbers = #stablehlo.gather<...>"
// For ops that StableHLO has no words for, as their results' extents depend on data: custom_call @transmuter.NAME with
// the attributes as text in its backend_config.
PrintedOp print_custom_call(const PrintContext& context);

}  // namespace transmuter::ir
