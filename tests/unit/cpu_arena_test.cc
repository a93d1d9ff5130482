// The arena of a plan: no two buffers that live at once share a byte, and memory is taken again.
#include <gtest/gtest.h>

#include <random>

#include "backends/cpu/run/arena_plan.h"

namespace transmuter::cpu {
namespace {

BoundBuffer buffer(int64_t bytes, int32_t first, int32_t last) {
  BoundBuffer made;
  made.bytes = bytes;
  made.first = first;
  made.last = last;
  return made;
}

bool share(const BoundBuffer& a, const BoundBuffer& b) {
  const bool at_once = a.first <= b.last && b.first <= a.last;
  return at_once && a.offset < b.offset + std::max<int64_t>(b.bytes, 1) &&
         b.offset < a.offset + std::max<int64_t>(a.bytes, 1);
}

TEST(CpuArena, AChainTakesTwoBuffers) {
  std::vector<BoundBuffer> buffers;
  for (int32_t i = 0; i < 100; ++i) buffers.push_back(buffer(1000, i, i + 1));
  EXPECT_EQ(place_buffers(buffers, 101), 2048);
}

TEST(CpuArena, OnlyTouchedArenaBuffersCount) {
  std::vector<BoundBuffer> buffers = {buffer(100, 0, 0), buffer(100, INT32_MAX, -1), buffer(0, 0, 0)};
  buffers.push_back(buffer(5000, 0, 0));
  buffers.back().kind = BoundBuffer::Kind::output;
  EXPECT_EQ(place_buffers(buffers, 1), 128 + 64);  // even nothing has an address of its own
  std::vector<BoundBuffer> none;
  EXPECT_EQ(place_buffers(none, 0), 0);
}

TEST(CpuArena, BestFitAndJoinedNeighbours) {
  // Two neighbours of 64 and 128 end together: what needs 192 takes both, what needs 64 the smallest hole.
  std::vector<BoundBuffer> buffers = {buffer(64, 0, 0), buffer(128, 0, 0), buffer(64, 0, 5), buffer(192, 1, 1)};
  EXPECT_EQ(place_buffers(buffers, 6), 256);
  EXPECT_EQ(buffers[3].offset, 0);
}

TEST(CpuArena, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const int32_t launches = 1 + static_cast<int32_t>(random() % 60);
    std::vector<BoundBuffer> buffers;
    int64_t all = 0;
    for (int i = 0; i < 120; ++i) {
      const auto first = static_cast<int32_t>(random() % static_cast<uint32_t>(launches));
      const auto last = std::min(launches - 1, first + static_cast<int32_t>(random() % 8));
      buffers.push_back(buffer(static_cast<int64_t>(random() % 1000), first, last));
      all += (std::max<int64_t>(buffers.back().bytes, 1) + 63) / 64 * 64;
    }
    const int64_t top = place_buffers(buffers, static_cast<size_t>(launches));
    EXPECT_LE(top, all);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers[i].offset % 64, 0);
      EXPECT_LE(buffers[i].offset + buffers[i].bytes, top);
      for (size_t j = i + 1; j < buffers.size(); ++j) EXPECT_FALSE(share(buffers[i], buffers[j]));
    }
  }
}

}  // namespace
}  // namespace transmuter::cpu
