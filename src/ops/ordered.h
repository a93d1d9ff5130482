// The orders in which com.microsoft's QOrdered operators store matrices (cuBLASLt's): the shape is the matrix's, the
// elements lie otherwise.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

enum class Order : uint8_t { columns = 0, rows = 1, columns_32 = 2 };  // columns_32: by rows in strips of 32 columns

// Attribute `name`; unsupported unless it is one of `allowed`.
Order order_attribute(OpContext& op, const char* name, std::initializer_list<Order> allowed);
// x [..., rows, columns] that lies in `order`, by rows; and back. A vector is one row.
ir::Value by_rows(ir::Builder& build, ir::Value x, Order order);
ir::Value from_rows(ir::Builder& build, ir::Value x, Order order);

// f32 rounded to int8 and saturated.
ir::Value to_int8(ir::Builder& build, ir::Value x);
// The same of x / the scale of input i.
ir::Value quantized_by(OpContext& op, ir::Value x, size_t i);
// x * the scale of input i.
ir::Value dequantized_by(OpContext& op, ir::Value x, size_t i);
// a x b (int8; b by rows) in units of the scale of input `result`: f32, not rounded yet. Scales of a and b are inputs
// (b's one, or one a column), `bias` an f32 vector in true units (invalid: none).
ir::Value ordered_product(OpContext& op, ir::Value a, size_t a_scale, ir::Value b, size_t b_scale, ir::Value bias,
                          size_t result);

}  // namespace transmuter::ops
