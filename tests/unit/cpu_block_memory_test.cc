#include "backends/cpu/run/block_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace transmuter::cpu {
namespace {

TEST(CpuBlockMemory, PiecesAreAlignedApartAndLiveOnTheirOwn) {
  WeightStore store;
  std::vector<std::shared_ptr<std::byte>> pieces;
  std::vector<size_t> sizes{1, 100, size_t{3} << 20, 64, size_t{20} << 20, size_t{5} << 20};
  {
    const auto memory = BlockMemory::of(store, "test");
    EXPECT_EQ(memory, BlockMemory::of(store, "test"));
    EXPECT_NE(memory, BlockMemory::of(store, "another"));
    for (size_t i = 0; i < sizes.size(); ++i) {
      pieces.push_back(memory->take(sizes[i]));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces[i].get()) % 64, 0u);
      std::memset(pieces[i].get(), static_cast<int>(i) + 1, sizes[i]);
    }
    pieces[2].reset();  // in the middle of a block
    pieces.push_back(memory->take(1000));
    sizes.push_back(1000);
    std::memset(pieces.back().get(), 99, 1000);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i == 2) continue;
    const int value = i == sizes.size() - 1 ? 99 : static_cast<int>(i) + 1;
    EXPECT_EQ(static_cast<int>(pieces[i].get()[0]), value);
    EXPECT_EQ(static_cast<int>(pieces[i].get()[sizes[i] - 1]), value);
  }
}

}  // namespace
}  // namespace transmuter::cpu
