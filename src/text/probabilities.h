// Scores as probabilities, for tasks and generation alike.
#pragma once

#include <span>
#include <vector>

namespace transmuter {

// exp(x_i) scaled to a sum of one; -inf gives 0.
std::vector<double> softmax(std::span<const float> scores);
double sigmoid(double x);

}  // namespace transmuter
