#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace transmuter {
namespace {

TEST(ThreadPool, RangesCoverTheWholeOnceAndStartAtMultiplesOfGrain) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t n : {0, 1, 7, 8, 100}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      std::atomic<int> bad{0};
      pool.parallel_for(n, 8, [&](int64_t begin, int64_t end) {
        if (begin % 8 != 0 || end - begin > 8 || end > n || begin >= end) ++bad;
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      EXPECT_EQ(bad, 0);
      for (auto& count : seen) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, ANestedCallRunsInTheCaller) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  std::atomic<int> moved{0};
  pool.parallel_for(16, 1, [&](int64_t, int64_t) {
    const auto self = std::this_thread::get_id();
    pool.parallel_for(10, 3, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != self) ++moved;
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
  });
  EXPECT_EQ(sum, 16 * 45);
  EXPECT_EQ(moved, 0);
}

TEST(ThreadPool, CallersFromSeveralThreadsTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        pool.parallel_for(100, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 20 * 100);
}

TEST(ThreadPool, AnExceptionOfAnyThreadReachesTheCallerAndThePoolStaysGood) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (int64_t bad = 0; bad < 50; ++bad) {
      std::atomic<int> begun{0};
      const auto work = [&](int64_t begin, int64_t) {
        ++begun;
        if (begin == bad) throw std::runtime_error("at " + std::to_string(begin));
      };
      try {
        pool.parallel_for(50, 1, work);
        ADD_FAILURE() << "nothing thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "at " + std::to_string(bad));
      }
      EXPECT_LE(begun, 50);
      std::atomic<int64_t> sum{0};
      pool.parallel_for(50, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
      EXPECT_EQ(sum, 50);
    }
  }
}

// A child has no workers; it must neither hang nor lose ranges.
TEST(ThreadPool, AChildAfterForkRunsRegionsItself) {
  ThreadPool pool(3);
  pool.parallel_for(30, 1, [](int64_t, int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 100; ++round)
      pool.parallel_for(100, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
    _exit(sum == 100 * 100 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadPool, ZeroTakesWhatTheMachineHas) { EXPECT_GE(ThreadPool().threads(), 1); }

}  // namespace
}  // namespace transmuter
