#include "base/thread_pool.h"

#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>

#include <cstdio>
#include <set>
#include <utility>

namespace transmuter {
namespace {

// Set while this thread runs a range of any pool: a nested call must not wait for the pool it is part of.
thread_local bool inside_region = false;

bool read_ints(const char* path, const char* format, long* first, long* second = nullptr) {
  std::FILE* file = std::fopen(path, "re");
  if (!file) return false;
  const int got = second ? std::fscanf(file, format, first, second) : std::fscanf(file, format, first);
  std::fclose(file);
  return got == (second ? 2 : 1);
}

// Hyper-threads share the multipliers, so they count once; a container's quota bounds the rest.
int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::pair<long, long>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    char path[96];
    long package = 0, core = cpu;
    std::snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    const bool has_package = read_ints(path, "%ld", &package);
    std::snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
    if (!has_package || !read_ints(path, "%ld", &core)) package = -1, core = cpu;
    cores.emplace(package, core);
  }
  int count = static_cast<int>(cores.size());
  long quota = 0, period = 0;
  if (read_ints("/sys/fs/cgroup/cpu.max", "%ld %ld", &quota, &period) && quota > 0 && period > 0) {
    const int limit = static_cast<int>((quota + period - 1) / period);
    if (limit < count) count = limit;
  }
  return count < 1 ? 1 : count;
}

struct Region {
  void (*call)(void*, int64_t, int64_t);
  void* context;
};

void run_range(void* region_pointer, size_t begin, size_t length) {
  const Region& region = *static_cast<const Region*>(region_pointer);
  inside_region = true;
  region.call(region.context, static_cast<int64_t>(begin), static_cast<int64_t>(begin + length));
  inside_region = false;
}

}  // namespace

struct ThreadPool::Impl {
  pthreadpool_t pool = nullptr;
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  threads_ = threads > 0 ? threads : usable_cores();
  if (threads_ == 1) return;
  impl_->pool = pthreadpool_create(static_cast<size_t>(threads_));
  if (!impl_->pool) threads_ = 1;  // the system gives no threads: everything runs in the caller
}

ThreadPool::~ThreadPool() { pthreadpool_destroy(impl_->pool); }

// The library lets one region run at a time (its callers queue on a mutex).
void ThreadPool::run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* context) {
  if (inside_region) {
    for (int64_t begin = 0; begin < n; begin += grain) call(context, begin, begin + grain < n ? begin + grain : n);
    return;
  }
  Region region{call, context};
  pthreadpool_parallelize_1d_tile_1d(impl_->pool, run_range, &region, static_cast<size_t>(n),
                                     static_cast<size_t>(grain), 0);
}

}  // namespace transmuter
