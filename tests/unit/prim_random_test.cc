// random_bits: the known answers of Philox 4x32-10, and another draw with every run.
#include "ir/composites/composites.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

Program bits(Dims shape, uint64_t seed) {
  Builder build(nullptr);
  return build.finish({random_bits(build, std::move(shape), seed)});
}

TEST(RandomBits, GivesPhiloxsAnswers) {
  const Program program = bits({6}, 0);
  const std::vector<uint32_t> first = evaluate(program, {})[0].to_vector<uint32_t>();
  ASSERT_EQ(first.size(), 6U);
  const std::vector<uint32_t> expected{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(std::vector<uint32_t>(first.begin(), first.begin() + 4), expected);
}

TEST(RandomBits, DrawsAnewWithEveryRunAndTheSameForASeed) {
  const Program one = bits({1000}, 7), other = bits({1000}, 7), third = bits({1000}, 8);
  const auto draw = [](const Program& program) { return evaluate(program, {})[0].to_vector<uint32_t>(); };
  const auto first = draw(one), second = draw(one);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, draw(other));
  EXPECT_EQ(second, draw(other));
  EXPECT_NE(first, draw(third));
}

}  // namespace
}  // namespace transmuter::ir
