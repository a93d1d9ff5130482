// Checks that the infer functions share. An extent that cannot be proven equal becomes an assertion of the current
// scope (and is unified); passes that infer again find it proven.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "ir/primitive.h"

namespace transmuter::ir {

std::string type_list(std::span<const Type> types);  // "(float32 [2], int64 [])", for messages

void check_operand_count(const InferContext& c, size_t count);
// `what` is part of the message: "C2 operand extents along axis 1 must agree".
void check_same_extent(const InferContext& c, Dim a, Dim b, const char* constraint, const char* what);
void check_same_shape(const InferContext& c, const Type& a, const Type& b, const char* constraint);
void check_same_dtype(const InferContext& c, const Type& a, const Type& b, const char* constraint);
void check_scalar(const InferContext& c, const Type& type, const char* constraint, const char* what);
// Every axis in [0, rank), none twice.
void check_axes(const InferContext& c, const std::vector<int64_t>& axes, int64_t rank, const char* constraint,
                const char* what);
// The truth must hold: proven, else asserted.
void check_holds(const InferContext& c, Dim truth, const char* constraint, const char* what);
// Reads a symbol whose value is known only while the program runs: its hint says nothing.
bool is_data_dependent(Dim a);
// The symbol that the extent is by itself; none for a constant or another expression.
std::optional<int32_t> symbol_of(const ShapeScope& scope, Dim a);
// Equal extents, and as many of them.
inline bool provably_same(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Dim x, Dim y) { return provably_eq(x, y); });
}
// The extent among equal ones that says most: a constant where there is one.
inline Dim plainer(Dim a, Dim b) { return b.is_constant() ? b : a; }

}  // namespace transmuter::ir
