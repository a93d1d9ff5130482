// Draws follow the distribution that they should: a chi-square test for each filter of sampling, on the scores that
// transformers leaves (tests/data/record_processors.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "../errors.h"
#include "text/generation/draws.h"
#include "text/generation/process.h"

namespace transmuter::generation {
namespace {

using nlohmann::json;

constexpr int64_t kDraws = 20000;

// Sum of (seen - expected)^2 / expected; `bins` are those that count.
double chi_square(const std::vector<double>& expected, const std::vector<int64_t>& seen, int64_t draws, int64_t& bins) {
  double sum = 0, rest = 0, rest_seen = 0;
  bins = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double count = expected[i] * static_cast<double>(draws);
    if (count < 5) {  // rare ones together
      rest += count;
      rest_seen += static_cast<double>(seen[i]);
      continue;
    }
    const double far = static_cast<double>(seen[i]) - count;
    sum += far * far / count;
    ++bins;
  }
  if (rest >= 5) {
    sum += (rest_seen - rest) * (rest_seen - rest) / rest;
    ++bins;
  }
  return sum;
}

// Beyond it lies less than a millionth: Wilson and Hilferty's approximation.
double unlikely(int64_t freedom) {
  const double k = static_cast<double>(freedom), z = 4.75, a = 2 / (9 * k);
  return k * std::pow(1 - a + z * std::sqrt(a), 3);
}

bool set(GenerationConfig& config, const std::string& name, double value) {
  if (name == "top_k") {
    config.top_k = static_cast<int64_t>(value);
  } else if (name == "top_p") {
    config.top_p = value;
  } else if (name == "min_p") {
    config.min_p = value;
  } else if (name == "typical_p") {
    config.typical_p = value;
  } else if (name == "epsilon") {
    config.epsilon_cutoff = value;
  } else if (name == "eta") {
    config.eta_cutoff = value;
  } else if (name == "top_h") {
    config.top_h = value;
  } else {
    return false;
  }
  return true;
}

TEST(Draws, FollowWhatEachFilterLeaves) {
  std::ifstream file(std::string(TRANSMUTER_TEST_DATA) + "/generation/processors.json");
  const json recorded = json::parse(file);
  std::set<std::string> tested;
  for (const json& c : recorded["cases"]) {
    GenerationConfig config;
    config.do_sample = true;
    config.top_k = 0;
    if (c.value("keep", 1) != 1 || !set(config, c["name"], c.value("value", 0.0))) continue;
    const auto x = c["scores"].get<std::vector<float>>();
    const GenerationCall call;
    const Processors processors(config, call, 1, 9);
    // What transformers leaves.
    std::vector<double> expected;
    double sum = 0;
    for (const json& value : c["after"]) expected.push_back(value.is_null() ? 0 : std::exp(value.get<double>()));
    for (const double p : expected) sum += p;
    for (double& p : expected) p /= sum;
    std::vector<int64_t> seen(x.size());
    std::vector<float> left = x;
    processors.apply(left, {0, std::vector<int64_t>{0}, {}, 1});
    for (int64_t i = 0; i < kDraws; ++i)
      ++seen[static_cast<size_t>(draw(left, uniform(11, 3, static_cast<uint64_t>(i), 0)))];
    for (size_t i = 0; i < x.size(); ++i) {
      if (expected[i] == 0) {
        EXPECT_EQ(seen[i], 0) << c["name"] << " id " << i;
      }
    }
    int64_t bins = 0;
    const double distance = chi_square(expected, seen, kDraws, bins);
    if (bins > 1) {
      EXPECT_LT(distance, unlikely(bins - 1)) << c["name"] << " " << c["value"];
    }
    tested.insert(c["name"]);
  }
  EXPECT_EQ(tested.size(), 7U);
}

TEST(Draws, FollowTheTemperature) {
  GenerationConfig config;
  config.do_sample = true;
  config.temperature = 0.5;
  const std::vector<float> x = {1, 0, 2, 1.5, -1, 0.5};
  std::vector<double> expected;
  double sum = 0;
  for (const float value : x) expected.push_back(std::exp(2 * value));
  for (const double p : expected) sum += p;
  for (double& p : expected) p /= sum;
  std::vector<int64_t> seen(x.size());
  std::vector<float> left = x;
  Processors(config, {}, 1, 9).apply(left, {0, std::vector<int64_t>{0}, {}, 1});
  for (int64_t row = 0; row < kDraws; ++row)
    ++seen[static_cast<size_t>(draw(left, uniform(5, static_cast<uint64_t>(row), 0, 0)))];
  int64_t bins = 0;
  const double distance = chi_square(expected, seen, kDraws, bins);
  EXPECT_LT(distance, unlikely(bins - 1));
}

TEST(Draws, OfSeveralPutNothingBack) {
  const std::vector<float> x = {0, 1, -std::numeric_limits<float>::infinity(), 2, 0.5};
  std::vector<double> p;
  double sum = 0;
  for (const float value : x) p.push_back(std::exp(value));
  for (const double value : p) sum += value;
  for (double& value : p) value /= sum;
  std::map<std::pair<size_t, size_t>, int64_t> pairs;
  for (int64_t i = 0; i < kDraws; ++i) {
    const std::vector<size_t> drawn = draw_several(x, 2, 9, 0, static_cast<uint64_t>(i));
    ASSERT_EQ(drawn.size(), 2U);
    EXPECT_GE(x[drawn[0]], x[drawn[1]]);  // best first
    ++pairs[std::minmax(drawn[0], drawn[1])];
  }
  std::vector<double> expected;
  std::vector<int64_t> seen;
  for (size_t a = 0; a < x.size(); ++a) {
    for (size_t b = a + 1; b < x.size(); ++b) {
      expected.push_back(p[a] * p[b] / (1 - p[a]) + p[b] * p[a] / (1 - p[b]));
      seen.push_back(pairs[{a, b}]);
    }
  }
  int64_t bins = 0;
  const double distance = chi_square(expected, seen, kDraws, bins);
  EXPECT_LT(distance, unlikely(bins - 1));
  EXPECT_EQ(draw_several(x, 9, 9, 0, 0).size(), 4U);  // no more than can come
}

TEST(Draws, AreTheSameForTheSameSeed) {
  EXPECT_EQ(uniform(1, 2, 3, 4), uniform(1, 2, 3, 4));
  EXPECT_NE(uniform(1, 2, 3, 4), uniform(1, 2, 4, 3));
  EXPECT_NE(uniform(1, 2, 3, 4), uniform(2, 2, 3, 4));
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_NE(error_of([&] { draw(std::vector<float>{never, never}, 0.5); }).find("no token is left"), std::string::npos);
}

}  // namespace
}  // namespace transmuter::generation
