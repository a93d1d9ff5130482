#include "text/generation/watermark.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace transmuter::generation {
namespace {

constexpr int64_t kTableSize = 1'000'003;

// What torch.randperm gives for this seed, so that a detector in Python finds the same ids.
std::vector<int64_t> permutation(uint64_t seed, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  for (size_t i = 0; i + 1 < count; ++i) std::swap(values[i], values[i + random() % (count - i)]);
  return values;
}

}  // namespace

Watermarker::Watermarker(const Watermark& settings) : settings_(settings) {
  if (settings.selfhash) table_ = permutation(settings.hashing_key, static_cast<size_t>(kTableSize));
}

std::vector<int64_t> Watermarker::green_after(Ids ids, size_t vocabulary) const {
  uint64_t seed = settings_.hashing_key * static_cast<uint64_t>(ids.back());
  if (settings_.selfhash) {
    const auto hashed = [&](int64_t id) { return table_[static_cast<size_t>(id % kTableSize)] + 1; };
    const size_t width = std::min(ids.size(), static_cast<size_t>(settings_.context_width));
    int64_t least = 0;
    for (size_t i = ids.size() - width; i < ids.size(); ++i) {
      // Products wrap around, and are compared as signed numbers.
      const auto product = static_cast<int64_t>(settings_.hashing_key * static_cast<uint64_t>(hashed(ids[i])) *
                                                static_cast<uint64_t>(hashed(ids.back())));
      if (i == ids.size() - width || product < least) least = product;
    }
    // Python's remainder by 2^64 - 1, which is never negative.
    seed = least >= 0 ? static_cast<uint64_t>(least) : static_cast<uint64_t>(least) - 1;
  } else if (seed == ~uint64_t{0}) {
    seed = 0;
  }
  std::vector<int64_t> green = permutation(seed, vocabulary);
  green.resize(static_cast<size_t>(static_cast<double>(vocabulary) * settings_.greenlist_ratio));
  return green;
}

void Watermarker::apply(Scores x, Ids ids) const {
  if (ids.size() < static_cast<size_t>(settings_.context_width) || ids.empty()) return;
  std::vector<int64_t> green;
  if (!settings_.selfhash) {
    green = green_after(ids, x.size());
  } else {
    // An id is green by a list that it takes part in making; only the likeliest are looked at.
    constexpr size_t kLooksAt = 40;
    std::vector<int64_t> order(x.size()), text(ids.begin(), ids.end());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)]; });
    text.push_back(0);
    for (size_t i = 0; i < std::min(kLooksAt, order.size()); ++i) {
      text.back() = order[i];
      const std::vector<int64_t> list = green_after(text, x.size());
      if (std::find(list.begin(), list.end(), order[i]) != list.end()) green.push_back(order[i]);
    }
  }
  for (const int64_t id : green) x[static_cast<size_t>(id)] += static_cast<float>(settings_.bias);
}

}  // namespace transmuter::generation
