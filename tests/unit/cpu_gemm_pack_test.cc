#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/target.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

// B packed from an odd address, with or without pieces, beside B packed from an aligned one.
void expect_same(int64_t k, int64_t n, Storage source, Storage packed, int64_t row, int64_t column, bool pieces) {
  const int64_t width = source == Storage::f32 ? 4 : 2;
  const int64_t count = (k - 1) * row + (n - 1) * column + 1;
  const auto values = random_floats(count, 7);
  std::vector<std::byte> odd(static_cast<size_t>(count * width) + 1);
  std::memcpy(odd.data() + 1, values.data(), odd.size() - 1);
  ThreadPool pool(2);
  const size_t bytes = packed_b_bytes(k, n, packed);
  const AlignedBytes expected(bytes), got(bytes);
  std::memset(expected.data, 0, bytes);
  std::memset(got.data, 0, bytes);
  pack_b(k, n, values.data(), source, row, column, packed, expected.data, pool);
  std::vector<std::pair<const std::byte*, size_t>> spent;
  Spent note;
  if (pieces) note = [&](const std::byte* from, size_t size) { spent.emplace_back(from, size); };
  pack_b(k, n, odd.data() + 1, source, row, column, packed, got.data, pool, note);
  EXPECT_EQ(std::memcmp(expected.data, got.data, bytes), 0) << current_target() << " k " << k << " n " << n;
  if (!pieces || (row != n && column != k)) return;
  const std::byte* at = odd.data() + 1;
  for (const auto& [from, size] : spent) {
    EXPECT_EQ(from, at);
    at += size;
  }
  EXPECT_EQ(at, odd.data() + odd.size());
}

TEST(CpuGemmPack, ReadsFromAnyAddress) {
  on_all_targets([] {
    for (const Storage packed : {Storage::f32, Storage::f16}) {
      const Storage source = packed;
      expect_same(37, 45, source, packed, 45, 1, false);
      expect_same(37, 45, source, packed, 1, 37, false);
      expect_same(18, 22, source, packed, 44, 2, false);
    }
    expect_same(70, 45, Storage::bf16, Storage::f32, 45, 1, false);
  });
}

TEST(CpuGemmPack, PiecesGiveTheSameAndAreAllSpentInOrder) {
  on_all_targets([] {
    expect_same(37, 45, Storage::f32, Storage::f32, 45, 1, true);
    expect_same(1999, 1111, Storage::f32, Storage::f32, 1111, 1, true);
    expect_same(1999, 1111, Storage::f32, Storage::f32, 1, 1999, true);
    expect_same(3001, 1500, Storage::f16, Storage::f32, 1, 3001, true);
    expect_same(3001, 1500, Storage::f16, Storage::f16, 1500, 1, true);
  });
}

}  // namespace
}  // namespace transmuter::cpu
