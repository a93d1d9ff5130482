// Draws from scores: pure functions of a seed and of what is drawn for, so that the same seed writes the same text
// however its prompts are batched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace transmuter::generation {

// In [0, 1), uniform; unrelated for different (seed, row, step, place).
double uniform(uint64_t seed, uint64_t row, uint64_t step, uint64_t place);
// The id whose part of the sum of softmax(x) holds `u`. Throws Error(invalid_input) when no score is left.
int64_t draw(std::span<const float> x, double u);
// `count` places (fewer where fewer have a chance) drawn one after the other without putting back, from softmax(x);
// best score first.
std::vector<size_t> draw_several(std::span<const float> x, size_t count, uint64_t seed, uint64_t row, uint64_t step);

}  // namespace transmuter::generation
