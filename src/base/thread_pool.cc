#include "base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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

}  // namespace

// Hyper-threads share the multipliers, so they count once; a container's quota bounds the rest.
int ThreadPool::usable_cores() {
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

namespace {

// How long a thread looks for work (or for the last range to end) before it lets the processor go. About the longest
// pause between two kernels of a run.
constexpr auto kSpin = std::chrono::microseconds(30);

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `ready()`; false when kSpin has passed first.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

// The ranges of a region in progress are dealt out beforehand, a run of neighbours to each thread, so that a thread
// finds in its caches what it wrote in the region before. Each claims its own from the front; who has none left takes
// from the back of another's. A thread that holds a claimed range keeps the region alive, so what describes the region
// is read only after a claim. A worker that wakes late finds nothing to claim and touches nothing: the caller never
// waits for threads, only for ranges, and does them all itself when no other core is free.
struct ThreadPool::Impl {
  // Next range in the high half, the end in the low half. A claim exchanges the whole; that it succeeds says that the
  // range belongs to the region in progress, whichever that is by then.
  struct alignas(64) Share {
    std::atomic<uint64_t> ranges{0};
  };
  static uint32_t first(uint64_t r) { return static_cast<uint32_t>(r >> 32); }
  static uint32_t end(uint64_t r) { return static_cast<uint32_t>(r); }

  std::vector<Share> shares;                      // by thread; 0 is the caller
  alignas(64) std::atomic<uint32_t> finished{0};  // ranges done
  alignas(64) std::atomic<uint32_t> wake{0};      // grows with every region: what sleeping workers wait on
  std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};
  std::mutex region;  // held by the caller whose region it is

  void (*call)(void*, int64_t, int64_t) = nullptr;
  void* context = nullptr;
  int64_t n = 0, grain = 1;
  std::atomic<bool> failed{false};  // the ranges left are only counted
  std::exception_ptr failure;       // of the thread that set `failed`; read when all ranges are done

  std::vector<std::thread> workers;

  bool has_work() const {
    for (const Share& share : shares) {
      const uint64_t r = share.ranges.load(std::memory_order_acquire);
      if (first(r) < end(r)) return true;
    }
    return false;
  }

  void do_range(int64_t begin) noexcept {
    if (failed.load(std::memory_order_relaxed)) return;
    try {
      call(context, begin, begin + grain < n ? begin + grain : n);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }

  // Claims one range of a share and does it; false when there is none.
  bool claim(Share& share, bool own) {
    uint64_t seen = share.ranges.load(std::memory_order_acquire);
    while (first(seen) < end(seen)) {
      const uint64_t left = own ? seen + (uint64_t{1} << 32) : seen - 1;
      if (!share.ranges.compare_exchange_weak(seen, left, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      const int64_t begin = static_cast<int64_t>(own ? first(seen) : end(seen) - 1) * grain;
      do_range(begin);
      finished.fetch_add(1, std::memory_order_acq_rel);
      return true;
    }
    return false;
  }

  // Does ranges of the region in progress until none is left to claim.
  void help(size_t thread) {
    inside_region = true;
    while (claim(shares[thread], true)) {
    }
    for (size_t i = 1; i < shares.size(); ++i) {
      while (claim(shares[(thread + i) % shares.size()], false)) {
      }
    }
    inside_region = false;
  }

  void work(size_t thread) {
    for (;;) {
      const uint32_t before = wake.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      help(thread);
      if (spin_until([&] { return has_work() || stop.load(std::memory_order_relaxed); })) continue;
      sleeping.fetch_add(1, std::memory_order_seq_cst);
      if (wake.load(std::memory_order_seq_cst) == before && !stop.load()) wake.wait(before);
      sleeping.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  void announce() {
    wake.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) > 0) wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  threads_ = threads > 0 ? threads : usable_cores();
  impl_->shares = std::vector<Impl::Share>(static_cast<size_t>(threads_));
  try {
    for (int i = 1; i < threads_; ++i) {
      impl_->workers.emplace_back([impl = impl_.get(), i] { impl->work(static_cast<size_t>(i)); });
    }
  } catch (const std::system_error&) {
    threads_ = static_cast<int>(impl_->workers.size()) + 1;  // the system gives no more
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true, std::memory_order_seq_cst);
  impl_->announce();
  for (std::thread& worker : impl_->workers) worker.join();
}

void ThreadPool::run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* context) {
  // Smaller ranges than 32 bits can count do not occur: a larger grain would give the same results.
  const int64_t ranges = (n + grain - 1) / grain;
  std::unique_lock<std::mutex> mine(impl_->region, std::defer_lock);
  if (inside_region || ranges > INT32_MAX || !mine.try_lock()) {
    // Another caller has the workers: this one goes on by itself rather than wait.
    for (int64_t begin = 0; begin < n; begin += grain) call(context, begin, begin + grain < n ? begin + grain : n);
    return;
  }
  Impl& pool = *impl_;
  // With every range of the last region done and every share empty, no worker reads any of this.
  pool.call = call;
  pool.context = context;
  pool.n = n;
  pool.grain = grain;
  pool.failed.store(false, std::memory_order_relaxed);
  pool.finished.store(0, std::memory_order_relaxed);
  const uint64_t count = static_cast<uint64_t>(ranges), threads = pool.shares.size();
  for (uint64_t t = 0; t < threads; ++t) {
    pool.shares[t].ranges.store((count * t / threads) << 32 | count * (t + 1) / threads, std::memory_order_release);
  }
  pool.announce();
  pool.help(0);
  auto done = [&] { return pool.finished.load(std::memory_order_acquire) == static_cast<uint32_t>(ranges); };
  while (!spin_until(done)) std::this_thread::yield();
  if (pool.failed.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(pool.failure, nullptr));
}

}  // namespace transmuter
