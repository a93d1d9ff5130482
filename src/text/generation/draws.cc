#include "text/generation/draws.h"

#include <algorithm>
#include <cmath>

#include "base/random_key.h"
#include "text/generation/scores.h"
#include "transmuter/error.h"

namespace transmuter::generation {

double uniform(uint64_t seed, uint64_t row, uint64_t step, uint64_t place) {
  const uint64_t bits = mixed(mixed(mixed(mixed(seed) + row) + step) + place);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int64_t draw(std::span<const float> x, double u) {
  const std::vector<double> p = softmax(x);
  double sum = 0;
  int64_t last = -1;
  for (size_t i = 0; i < p.size(); ++i) {
    if (!(p[i] > 0)) continue;
    sum += p[i];
    last = static_cast<int64_t>(i);
    if (u < sum) break;
  }
  if (last < 0) throw Error(ErrorCode::invalid_input, "no token is left to draw: the settings forbid all of them");
  return last;
}

std::vector<size_t> draw_several(std::span<const float> x, size_t count, uint64_t seed, uint64_t row, uint64_t step) {
  // Scores with Gumbel noise: their order is that of such draws.
  std::vector<double> keys(x.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] > kNever)) continue;
    const double u = std::max(uniform(seed, row, step, i), 0x1p-54);
    keys[i] = static_cast<double>(x[i]) - std::log(-std::log(u));
    places.push_back(i);
  }
  count = std::min(count, places.size());
  const auto end = places.begin() + static_cast<int64_t>(count);
  std::partial_sort(places.begin(), end, places.end(), [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  places.resize(count);
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  return places;
}

}  // namespace transmuter::generation
