// The one way to use several cores: parallel_for. Persistent threads that spin shortly, then sleep. Our own, since the
// pools of Debian wait for every thread to wake up before a region ends: with other programs on the cores a model ran
// three times as long.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace transmuter {

class ThreadPool {
 public:
  // threads = 0 takes one per physical core that this process may use. 1 runs everything in the caller.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // What 0 means. Asks the system each time.
  static int usable_cores();

  // Calls fn(begin, end) on disjoint ranges that cover [0, n), each at most `grain` long and starting at a multiple of
  // grain. How the ranges go to threads never changes results: fn must not depend on it. Runs in the caller when n <=
  // grain. When fn throws, the ranges not begun yet are left out, and the first exception is thrown on when those begun
  // have ended; the pool is as good as before. Calls from several threads at once are safe, and nobody waits for
  // another's region: one has the workers, the others run in their callers, as nested calls do. In a child after fork()
  // there are no workers, and every region runs in its caller.
  template <class Fn>
  void parallel_for(int64_t n, int64_t grain, const Fn& fn) {
    if (n <= 0) return;
    if (threads_ == 1 || n <= grain) {
      for (int64_t begin = 0; begin < n; begin += grain) fn(begin, begin + grain < n ? begin + grain : n);
      return;
    }
    run(
        n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<const Fn*>(context))(begin, end); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  void run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* context);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  int threads_ = 1;
};

}  // namespace transmuter
