// Random draws that lowerings share.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/context.h"

namespace transmuter::ops {

// What a node draws from: a stream of its own under the model's seed, or with `seed` (its attribute, as bits) the
// stream of that seed whatever the model's.
struct Stream {
  uint64_t key;
  bool fixed;
};
Stream stream_of(OpContext& op, std::optional<uint64_t> seed);
// f32 in [0, 1), others with each call.
ir::Value uniform_draws(OpContext& op, Dims shape, Stream stream);
// Does the operator, or one in a graph inside the node, draw numbers?
bool draws_numbers(const onnx::Node& node);

}  // namespace transmuter::ops
