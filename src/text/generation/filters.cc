#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/generation/scores.h"

namespace transmuter::generation {
namespace {

// Places of the scores, best first; the lower id first among equals.
std::vector<size_t> by_score(Scores x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Behind another filter few are left of a large vocabulary.
  const auto end = std::stable_partition(order.begin(), order.end(), [&](size_t i) { return x[i] > kNever; });
  std::stable_sort(order.begin(), end, [&](size_t a, size_t b) { return x[a] > x[b]; });
  return order;
}

// The k-th best score.
float kth_best(Scores x, int64_t k) {
  std::vector<float> values(x.begin(), x.end());
  const auto place = values.begin() + std::clamp<int64_t>(k, 1, static_cast<int64_t>(values.size())) - 1;
  std::nth_element(values.begin(), place, values.end(), std::greater<>());
  return *place;
}

double entropy(const std::vector<double>& p) {
  double sum = 0;
  for (const double value : p) sum -= value > 0 ? value * std::log(value) : 0;
  return sum;
}

// What is less likely than `least` goes, unless it is as good as one of the `keep` best.
void cut_below(Scores x, const std::vector<double>& p, double least, int64_t keep) {
  const float rescued = kth_best(x, keep);
  for (size_t i = 0; i < x.size(); ++i) {
    if (p[i] < least && x[i] < rescued) x[i] = kNever;
  }
}

}  // namespace

void keep_top_k(Scores x, int64_t k, int64_t keep) {
  const float least = kth_best(x, std::max(k, keep));
  for (float& value : x) value = value < least ? kNever : value;
}

void keep_top_p(Scores x, double p, int64_t keep) {
  const std::vector<size_t> order = by_score(x);
  const std::vector<double> chance = softmax(x);
  double sum = 0;
  for (size_t i = order.size(); i-- > static_cast<size_t>(std::max<int64_t>(keep, 1));) {
    sum += chance[order[i]];
    if (sum > 1 - p) break;
    x[order[i]] = kNever;
  }
}

void keep_top_h(Scores x, double h) {
  constexpr size_t kLooksAt = 100;
  const std::vector<size_t> order = by_score(x);
  const size_t count = std::min(kLooksAt, order.size());
  std::vector<float> best(count);
  for (size_t i = 0; i < count; ++i) best[i] = x[order[i]];
  const std::vector<double> p = softmax(best);
  const double most = entropy(p) * h;
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < count && p[i] > 0) sum -= p[i] * std::log(p[i]);
    if (i >= count || (i > 0 && sum > most)) x[order[i]] = kNever;
  }
}

void keep_min_p(Scores x, double p, int64_t keep) {
  const std::vector<double> chance = softmax(x);
  const double least = p * *std::max_element(chance.begin(), chance.end());
  cut_below(x, chance, least, keep);
}

void keep_typical(Scores x, double mass, int64_t keep) {
  const std::vector<double> p = softmax(x);
  const double h = entropy(p);
  std::vector<double> far(x.size());
  for (size_t i = 0; i < x.size(); ++i) far[i] = std::abs(-std::log(p[i]) - h);
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return far[a] < far[b]; });
  size_t last = 0;
  double sum = 0;
  for (const size_t place : order) {
    sum += p[place];
    if (sum >= mass) break;
    ++last;
  }
  const double most = far[order[std::min(last, order.size() - 1)]];
  for (size_t i = static_cast<size_t>(std::max<int64_t>(keep, 1)); i < order.size(); ++i) {
    if (far[order[i]] > most) x[order[i]] = kNever;
  }
}

void cut_epsilon(Scores x, double epsilon, int64_t keep) { cut_below(x, softmax(x), epsilon, keep); }

void cut_eta(Scores x, double epsilon, int64_t keep) {
  const std::vector<double> p = softmax(x);
  cut_below(x, p, std::min(epsilon, std::sqrt(epsilon) * std::exp(-entropy(p))), keep);
}

}  // namespace transmuter::generation
