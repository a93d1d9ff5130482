// The passes that raise: they recognise what exporters write where an operator was missing, and put the composite in
// its place, for which backends have kernels. They match on structure, through broadcasts, transposes and extents of 1,
// never on names or on one exporter's sequence. Results agree but for rounding; values that other ops read stay until
// dce finds that nothing needs them. Each pass's file says pattern, condition and gain.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

Program raise_norms(const Program& program);        // layer_norm, rms_norm
Program raise_activations(const Program& program);  // gelu, silu
Program raise_softmax(const Program& program);      // softmax, log_softmax
Program raise_attention(const Program& program);    // attention; after raise_softmax and dce
Program raise_rotary(const Program& program);       // rotary_embedding
Program raise_weight_dots(const Program& program);  // quantized_dot
// No composites, but as much an exporter's leavings: batch normalisation after a convolution or product, reshapes
// around products, moves between products and their activations, and work done on repeated values.
Program fold_scales(const Program& program);
Program unflatten_products(const Program& program);
Program hoist_activations(const Program& program);
Program before_repeats(const Program& program);

}  // namespace transmuter::ir
