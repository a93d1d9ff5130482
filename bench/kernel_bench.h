// What the benchmarks of one kernel share: their options, their first line, oneDNN beside ours.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/target.h"
#include "bench.h"

#if TRANSMUTER_BENCH_DNNL
#include <unistd.h>
#endif

namespace transmuter::bench {

struct Options {
  int threads = 1;
  bool wall = false;   // wall time, always with several threads; else CPU time
  std::string filter;  // part of the names of the shapes to run
};

// Reads `[--threads N] [--wall] [name-filter]` and prints what is measured.
inline Options start(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--threads") && i + 1 < argc) {
      options.threads = std::atoi(argv[++i]);
    } else if (!std::strcmp(argv[i], "--wall")) {
      options.wall = true;
    } else {
      options.filter = argv[i];
    }
  }
  options.wall = options.wall || options.threads > 1;
#if TRANSMUTER_BENCH_DNNL
  // Its OpenMP reads the count when it is loaded, so the process starts again.
  const std::string count = std::to_string(options.threads);
  if (const char* set = std::getenv("OMP_NUM_THREADS"); !set || count != set) {
    setenv("OMP_NUM_THREADS", count.c_str(), 1);
    execv("/proc/self/exe", argv);
  }
#endif
  cpu::init_target();
  std::printf("%s, %d thread(s), %s time, peak %.1f GF/s a core\n", cpu::current_target().c_str(), options.threads,
              options.wall ? "wall" : "CPU", fma_peak() * 1e-9);
  return options;
}

// After a shape's name: time, rate, part of the peak.
inline void print_rate(const Options& options, double work, double time) {
  std::printf("%9.1f us %7.1f GF/s %5.1f %%", time * 1e6, work / time * 1e-9,
              100 * work / time / (fma_peak() * options.threads));
}

// Then oneDNN's rate and the ratio of times.
inline void print_dnnl(double work, double time, double dnnl) {
  std::printf("   oneDNN %7.1f GF/s, %.2f x", work / dnnl * 1e-9, dnnl / time);
}

inline void end_line() {
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace transmuter::bench
