// Inputs and weights for tests of backends.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter {

// f32, normally distributed, the same for the same seed.
inline Tensor random_tensor(Shape shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (float& v : values) v = normal(generator);
  return Tensor(values, std::move(shape));
}

}  // namespace transmuter
