// From one vector a token to one a text.
#pragma once

#include "transmuter/tensor.h"

namespace transmuter {

// hidden: float [batch, tokens, width]; mask: i64 [batch, tokens], 1 where a token counts. Gives f32 [batch, width]:
// the mean over the counted tokens (zeros where none counts). Sums in f64. Throws Error(invalid_input) when the shapes
// disagree.
Tensor mean_pool(const Tensor& hidden, const Tensor& mask);

// rows: f32 [count, width]. Each row divided by its Euclidean length; a row of zeros stays.
Tensor normalize_rows(const Tensor& rows);

}  // namespace transmuter
