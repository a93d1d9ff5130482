#include "text/generation/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace transmuter::generation {
namespace {

bool inside(Scores x, int64_t id) { return id >= 0 && id < static_cast<int64_t>(x.size()); }

}  // namespace

void log_softmax(Scores x) {
  double top = kNever;
  for (const float value : x) top = std::max(top, static_cast<double>(value));
  double sum = 0;
  for (const float value : x) sum += std::exp(static_cast<double>(value) - top);
  const double log_sum = top + std::log(sum);
  for (float& value : x) value = static_cast<float>(static_cast<double>(value) - log_sum);
}

int64_t best_of(std::span<const float> x) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    if (x[i] > x[best] || (std::isnan(x[best]) && !std::isnan(x[i]))) best = i;
  }
  return static_cast<int64_t>(best);
}

void keep_only(Scores x, Ids ids) {
  std::vector<float> kept(x.size(), kNever);
  for (const int64_t id : ids) {
    if (inside(x, id)) kept[static_cast<size_t>(id)] = x[static_cast<size_t>(id)];
  }
  std::copy(kept.begin(), kept.end(), x.begin());
}

void suppress(Scores x, Ids ids) {
  for (const int64_t id : ids) {
    if (inside(x, id)) x[static_cast<size_t>(id)] = kNever;
  }
}

void force(Scores x, Ids ids) {
  std::fill(x.begin(), x.end(), kNever);
  for (const int64_t id : ids) {
    if (inside(x, id)) x[static_cast<size_t>(id)] = 0;
  }
}

void remove_invalid(Scores x) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float& value : x) value = std::isnan(value) ? 0 : std::clamp(value, -kLargest, kLargest);
}

void guide(Scores with, std::span<const float> without, double scale) {
  std::vector<float> base(without.begin(), without.end());
  log_softmax(with);
  log_softmax(base);
  const float s = static_cast<float>(scale);
  for (size_t i = 0; i < with.size() && i < base.size(); ++i) with[i] = s * (with[i] - base[i]) + base[i];
}

void decay_length(Scores x, Ids eos, int64_t length, int64_t start, double factor) {
  if (length <= start) return;
  const double growth = std::pow(factor, static_cast<double>(length - start)) - 1;
  for (const int64_t id : eos) {
    if (!inside(x, id)) continue;
    float& value = x[static_cast<size_t>(id)];
    value += static_cast<float>(std::abs(static_cast<double>(value)) * growth);
  }
}

}  // namespace transmuter::generation
