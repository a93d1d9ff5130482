#include "text/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace transmuter {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

std::vector<Encoding> rows_of(const std::vector<size_t>& lengths) {
  std::vector<Encoding> out(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) out[i].ids.assign(lengths[i], 1);
  return out;
}

// Each row's output is its length; notes the lengths of each batch.
struct Recorder {
  explicit Recorder(BatchLimits limits)
      : batcher(
            [this](std::span<Batcher::Row* const> rows) {
              std::vector<size_t> lengths;
              for (Batcher::Row* row : rows) {
                lengths.push_back(row->encoding->ids.size());
                row->outputs = {Tensor::scalar(static_cast<int64_t>(lengths.back()))};
              }
              batches.push_back(std::move(lengths));
            },
            limits) {}

  std::vector<int64_t> run(const std::vector<size_t>& lengths) {
    const std::vector<Encoding> encodings = rows_of(lengths);
    std::vector<Batcher::Row> rows(encodings.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i].encoding = &encodings[i];
    batcher(rows);
    std::vector<int64_t> out;
    for (const Batcher::Row& row : rows) out.push_back(row.outputs.at(0).data<int64_t>()[0]);
    return out;
  }

  std::vector<std::vector<size_t>> batches;
  Batcher batcher;
};

TEST(Batcher, LongAndShortRowsRunApartWithinTheBudget) {
  Recorder recorder({.tokens = 400});
  EXPECT_THAT(recorder.run({100, 5, 98, 6, 97, 99, 5}), ElementsAre(100, 5, 98, 6, 97, 99, 5));
  EXPECT_THAT(recorder.batches, ElementsAre(ElementsAre(97, 98, 99, 100), ElementsAre(5, 5, 6)));
}

TEST(Batcher, ARowBeyondTheBudgetRunsAlone) {
  Recorder recorder({.tokens = 10});
  EXPECT_THAT(recorder.run({30, 30, 2, 0}), ElementsAre(30, 30, 2, 0));
  EXPECT_EQ(recorder.batches.size(), 3u);
}

TEST(Batcher, KeepsToTheGraphsNumberOfRows) {
  Recorder recorder({.rows = 2});
  recorder.run({4, 4, 4, 4, 4});
  EXPECT_EQ(recorder.batches.size(), 3u);
}

TEST(Batcher, NoRowsNeedNoBatch) {
  Recorder recorder({});
  EXPECT_THAT(recorder.run({}), ElementsAre());
  EXPECT_EQ(recorder.batcher.batches(), 0u);
}

TEST(Batcher, CallersThatComeWhileAnotherWaitsShareItsBatch) {
  Recorder recorder({.tokens = 40, .delay = std::chrono::seconds(60)});
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([&recorder] { EXPECT_THAT(recorder.run({10}), ElementsAre(10)); });
  for (std::thread& caller : callers) caller.join();  // the budget is full: nobody waits for the deadline
  EXPECT_EQ(recorder.batches.size(), 1u);
}

TEST(Batcher, TheDeadlineEndsTheWaiting) {
  Recorder recorder({.tokens = 1000, .delay = milliseconds(20)});
  const auto start = std::chrono::steady_clock::now();
  recorder.run({10});
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(19));
}

TEST(Batcher, ManyCallersEachGetTheirOwnRows) {
  Recorder recorder({.tokens = 64});
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (size_t c = 0; c < 8; ++c) {
    callers.emplace_back([&, c] {
      for (size_t i = 0; i < 50; ++i) {
        const std::vector<size_t> lengths = {c + 1, (c * 7 + i) % 30 + 1, i % 5 + 1};
        const std::vector<int64_t> got = recorder.run(lengths);
        if (!std::equal(got.begin(), got.end(), lengths.begin(), lengths.end(),
                        [](int64_t a, size_t b) { return a == static_cast<int64_t>(b); }))
          ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Batcher, AFailureReachesItsCallersAndNobodyElse) {
  Batcher batcher(
      [](std::span<Batcher::Row* const> rows) {
        if (rows[0]->encoding->ids.size() == 13) throw std::runtime_error("thirteen");
      },
      {});
  const auto run = [&](size_t length) {
    const std::vector<Encoding> encodings = rows_of({length});
    std::vector<Batcher::Row> rows(1);
    rows[0].encoding = &encodings[0];
    batcher(rows);
  };
  EXPECT_THROW(run(13), std::runtime_error);
  EXPECT_NO_THROW(run(12));
}

}  // namespace
}  // namespace transmuter
