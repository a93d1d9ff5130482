// random_bits: Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
#include <array>

#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 0);
  return {{DType::u32, ctx.as<RandomBitsAttributes>().shape}};
}

using Block = std::array<uint32_t, 4>;

Block philox(Block counter, uint64_t seed) {
  uint32_t low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return counter;
}

void evaluate(EvaluateContext& ctx) {
  const auto& random = ctx.as<RandomBitsAttributes>();
  const uint64_t draw = random.draws->fetch_add(1);
  Tensor& result = ctx.make_result();
  uint32_t* to = result.mutable_data<uint32_t>();
  for (int64_t i = 0; i < result.size(); i += 4) {
    const uint64_t at = static_cast<uint64_t>(i) / 4;
    const Block block = philox({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), static_cast<uint32_t>(draw),
                                static_cast<uint32_t>(draw >> 32)},
                               random.seed);
    std::copy_n(block.begin(), std::min<int64_t>(4, result.size() - i), to + i);
  }
}

}  // namespace

const Primitive composite::random_bits{.name = "random_bits", .infer = infer, .evaluate = evaluate, .has_effect = true};

Value random_bits(Builder& build, Dims shape, uint64_t seed) {
  auto attributes = std::make_shared<RandomBitsAttributes>();
  attributes->shape = std::move(shape);
  attributes->seed = seed;
  attributes->draws = std::make_shared<std::atomic<uint64_t>>(0);
  return build.emit1(composite::random_bits, {}, std::move(attributes));
}

}  // namespace transmuter::ir
