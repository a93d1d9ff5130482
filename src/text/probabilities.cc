#include "text/probabilities.h"

#include <algorithm>
#include <cmath>

namespace transmuter {

std::vector<double> softmax(std::span<const float> scores) {
  std::vector<double> out(scores.size());
  if (scores.empty()) return out;
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += out[i] = std::exp(static_cast<double>(scores[i]) - top);
  for (double& value : out) value /= sum;
  return out;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace transmuter
