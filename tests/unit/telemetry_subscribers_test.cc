// Subscribers that throw, that run models, that come and go; many threads at once. Under the thread sanitizer, too.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "telemetry_testing.h"

namespace transmuter::telemetry::testing {
namespace {

TEST(Subscribers, WhatTheyThrowEndsThere) {
  const CompiledModel run = on_cpu(load(encoder().parts));
  const TensorMap expected = on_cpu(load(encoder().parts))(encoder_inputs(2, 5));
  const Subscription throwing = subscribe([](const Event&) { throw std::runtime_error("no"); }, kAll);
  const Subscription odd = subscribe([](const Event&) { throw 7; }, kinds({Kind::run}));
  const Recorder recorder;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(difference(run(encoder_inputs(2, 5)), expected), "");
  EXPECT_EQ(throwing.failures(), static_cast<int64_t>(recorder.all().size()));
  EXPECT_EQ(throwing.first_failure(), "no");
  EXPECT_EQ(odd.failures(), 3);
  EXPECT_EQ(recorder.count(Kind::run), 3);
}

// No lock is held, whatever the event: the same model, with sizes that have to be traced and bound, can be run.
TEST(Subscribers, MayRunTheModelThatTellsThem) {
  for (const bool breaks : {false, true}) {
    const CompiledModel run = on_cpu(breaks ? breaking_model() : load(encoder().parts), 2);
    const auto inputs = [&](int64_t n) {
      return breaks ? breaking_inputs(n, static_cast<size_t>(n % 5)) : encoder_inputs(1 + n % 2, n);
    };
    int64_t calls = 0, sizes = 1;
    std::map<Kind, int> kinds_seen;
    const Subscription subscription = subscribe(
        [&](const Event& event) {
          ++kinds_seen[event.kind];
          if (++calls % 3 == 0) run(inputs(1 + ++sizes % 40));
        },
        kAll);
    for (int64_t n = 2; n < 12; ++n) run(inputs(n));
    EXPECT_EQ(subscription.failures(), 0) << subscription.first_failure();
    EXPECT_EQ(kinds_seen.at(Kind::run), 10);  // what a subscriber runs makes no events
    EXPECT_GT(run.stats().runs, 20);
    for (const Kind kind : {Kind::trace, Kind::bind, Kind::miss}) EXPECT_GT(kinds_seen[kind], 0) << name(kind);
  }
}

TEST(Subscribers, MayLeaveAndComeWhileTheyAreCalled) {
  const CompiledModel run = on_cpu(load(encoder().parts));
  int first = 0, second = 0;
  Subscription one, two;
  one = subscribe(
      [&](const Event&) {
        ++first;
        two = subscribe([&](const Event&) { ++second; }, kinds({Kind::run}));
        one.stop();
      },
      kinds({Kind::run}));
  for (int i = 0; i < 3; ++i) run(encoder_inputs(2, 5));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(Subscribers, AreNotCalledAfterStop) {
  const CompiledModel run = on_cpu(load(encoder().parts));
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> gone{false}, late{false};
    std::atomic<int> calls{0};
    Subscription subscription = subscribe(
        [&](const Event&) {
          if (gone) late = true;
          std::this_thread::yield();
          if (gone) late = true;
          ++calls;
        },
        kAll);
    std::thread other([&] {
      for (int i = 0; i < 3; ++i) run(encoder_inputs(2, 5));
    });
    while (calls == 0) std::this_thread::yield();
    subscription.stop();
    gone = true;
    other.join();
    EXPECT_FALSE(late);
  }
}

TEST(Subscribers, ManyThreadsRunWhileOthersComeAndGo) {
  const Model model = load(encoder().parts), broken = breaking_model();
  const CompiledModel run = on_cpu(model, 2), split = on_cpu(broken, 2);
  std::map<int64_t, TensorMap> expected;
  for (int64_t n = 1; n < 8; ++n) expected[n] = on_cpu(model)(encoder_inputs(1 + n % 2, n));
  std::atomic<int64_t> wrong{0}, told{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  const Recorder recorder(kinds({Kind::run, Kind::segment}));
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 60; ++i) {
        const int64_t n = 1 + (i + t) % 7;
        wrong += !difference(run(encoder_inputs(1 + n % 2, n)), expected.at(n)).empty();
        split(breaking_inputs(n, static_cast<size_t>(n % 5)));
        if (i % 16 == 0) run.release_cached_memory();
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      while (!done) {
        const Subscription subscription = subscribe(
            [&](const Event& event) {
              ++told;
              if (event.kind == Kind::bind) throw std::runtime_error("no");
              if (event.kind == Kind::evict) run(encoder_inputs(2, 3));
            },
            t == 0 ? kAll : kUsual);
        for (int i = 0; i < 20; ++i) std::this_thread::yield();
        EXPECT_GE(counters().runs, 0);
      }
    });
  }
  for (int t = 0; t < 3; ++t) threads[static_cast<size_t>(t)].join();
  done = true;
  for (size_t t = 3; t < threads.size(); ++t) threads[t].join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(told, 0);
  // Who listened all the time got all, each from its own thread.
  EXPECT_EQ(recorder.count(Kind::run), 3 * 60 * 2);
  std::map<uint64_t, Got> spans;
  for (const Got& got : recorder.all()) spans.emplace(got.id, got);
  for (const Got& got : recorder.of(Kind::segment)) EXPECT_EQ(spans.at(got.parent).thread, got.thread);
}

}  // namespace
}  // namespace transmuter::telemetry::testing
