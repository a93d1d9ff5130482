// Which outputs of a model feed which of its inputs at the next step: by name alone, then by what both declare.
#pragma once

#include <vector>

#include "transmuter/decoder.h"

namespace transmuter::runtime {

// In the order of the inputs. Exporters' names: past_key_values.N.key -> present.N.key (also with .decoder. or
// .encoder.), past_N -> present_N, past_key_self_N -> present_key_self_N, past_conv.N -> present_conv.N, state ->
// stateN, input_states_1 -> output_states_1, cache -> new_cache, cache_out, ... Where no name says so, an input and an
// output of one shape that doesn't vary are a state.
std::vector<Decoder::Cache> find_caches(const std::vector<ValueSpec>& inputs, const std::vector<ValueSpec>& outputs,
                                        bool shared_buffers);

}  // namespace transmuter::runtime
