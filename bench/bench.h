// Shared by the benchmarks: a clock of one thread's CPU time (the machine may be busy), best of n, shapes from text.
#pragma once

#include <ctime>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

namespace transmuter::bench {

inline double seconds(bool wall) {
  timespec t;
  clock_gettime(wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best time of one call, over `rounds` samples of at least `least` seconds each.
template <class Fn>
double best_of(const Fn& fn, bool wall, int rounds = 7, double least = 0.003) {
  int64_t calls = 1;
  double best = 1e30;
  for (int round = 0; round < rounds;) {
    const double start = seconds(wall);
    for (int64_t i = 0; i < calls; ++i) fn();
    const double took = seconds(wall) - start;
    if (took < least) {
      calls *= took < least / 8 ? 8 : 2;
      continue;
    }
    best = std::min(best, took / static_cast<double>(calls));
    ++round;
  }
  return best;
}

// Multiply-adds x 2 a second of this core, in registers, with the instruction set the kernels use.
double fma_peak();

// How many times this process has asked for memory (allocations.cc, where it is linked).
int64_t allocations();

struct Aligned {
  explicit Aligned(size_t bytes) : data(::operator new (bytes + 64, std::align_val_t{64})) {}
  ~Aligned() { ::operator delete (data, std::align_val_t{64}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  float* floats() const { return static_cast<float*>(data); }
  void* data;
};

inline void fill(float* data, size_t n) {
  unsigned state = 12345;
  for (size_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
}

// Lines of words; '#' starts a comment.
inline std::vector<std::vector<std::string>> read_shapes(const std::string& file) {
  std::vector<std::vector<std::string>> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    if (!row.empty()) lines.push_back(row);
  }
  return lines;
}

}  // namespace transmuter::bench
