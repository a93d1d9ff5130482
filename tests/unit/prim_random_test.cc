// random_bits: the known answers of Philox 4x32-10, what state and stream do to it, and its decomposition.
#include "base/random_key.h"
#include "ir/composites/composites.h"
#include "ir/passes/inline_composites.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

Program bits(Dims shape, uint64_t stream, bool fixed = false) {
  Builder build(nullptr);
  const Value state = build.input({DType::u64, {2}}, "state");
  return build.finish({random_bits(build, state, std::move(shape), stream, fixed)});
}

std::vector<uint32_t> draw(const Program& program, uint64_t seed, uint64_t call) {
  const std::vector<Tensor> inputs{Tensor(std::vector<uint64_t>{seed, call}, {2})};
  return evaluate(program, inputs)[0].to_vector<uint32_t>();
}

// Of the published vectors the one of zeros.
TEST(RandomBits, GivesPhiloxsAnswers) {
  const std::vector<uint32_t> zeros = draw(bits({6}, 0), 0, 0);
  ASSERT_EQ(zeros.size(), 6U);
  EXPECT_EQ(std::vector<uint32_t>(zeros.begin(), zeros.begin() + 4),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(RandomBits, DependsOnSeedCallAndStream) {
  const Program one = bits({1000}, 7);
  const auto first = draw(one, 1, 0);
  EXPECT_EQ(first, draw(bits({1000}, 7), 1, 0));
  EXPECT_NE(first, draw(one, 1, 1));
  EXPECT_NE(first, draw(one, 2, 0));
  EXPECT_NE(first, draw(bits({1000}, 8), 1, 0));
  const Program own = bits({1000}, 7, true);
  EXPECT_EQ(draw(own, 1, 0), draw(own, 2, 0));
  EXPECT_NE(draw(own, 1, 0), draw(own, 1, 1));
}

TEST(RandomBits, DecomposesBitForBit) {
  for (const Dims& shape : {Dims{7}, Dims{2, 3, 5}, Dims{}, Dims{0, 3}}) {
    for (const bool fixed : {false, true}) {
      const Program whole = bits(shape, 0x9E3779B97F4A7C15, fixed);
      const Program written_out = inline_composites(whole, nullptr);
      EXPECT_EQ(draw(whole, ~uint64_t{0}, uint64_t{1} << 40 | 5),
                draw(written_out, ~uint64_t{0}, uint64_t{1} << 40 | 5));
    }
  }
}

TEST(RandomBits, TripsOfALoopDrawAsTheHostSays) {
  Builder build(nullptr);
  const Value state = build.input({DType::u64, {2}}, "state"), trip = build.input({DType::i64, {}}, "trip");
  const Program program = build.finish({random_state_in_trip(build, state, 12, trip)});
  for (const int64_t t : {0, 1, 77}) {
    const std::vector<Tensor> inputs{Tensor(std::vector<uint64_t>{3, 9}, {2}), Tensor::scalar(t)};
    const std::vector<uint64_t> expected{3, random_call_in_trip(9, 12, static_cast<uint64_t>(t))};
    EXPECT_EQ(evaluate(program, inputs)[0].to_vector<uint64_t>(), expected);
  }
}

}  // namespace
}  // namespace transmuter::ir
