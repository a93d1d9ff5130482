// random_bits: Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
#include <array>

#include "base/random_key.h"
#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

constexpr uint32_t kMultiplyFirst = 0xD2511F53, kMultiplySecond = 0xCD9E8D57;
constexpr uint32_t kRaiseLow = 0x9E3779B9, kRaiseHigh = 0xBB67AE85;
constexpr int kRounds = 10;

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const Type& state = ctx.operands[0];
  ctx.check(state.dtype == DType::u64 && state.rank() == 1 && provably_eq(state.shape[0], 2), "C1",
            "the state must be two 64-bit words");
  return {{DType::u32, ctx.as<RandomBitsAttributes>().shape}};
}

using Block = std::array<uint32_t, 4>;

Block philox(Block counter, uint64_t key) {
  uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{kMultiplyFirst} * counter[0], b = uint64_t{kMultiplySecond} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
    low += kRaiseLow;
    high += kRaiseHigh;
  }
  return counter;
}

void evaluate(EvaluateContext& ctx) {
  const auto& random = ctx.as<RandomBitsAttributes>();
  const uint64_t* state = ctx.operands[0].data<uint64_t>();
  const uint64_t key = random.fixed ? random.stream : random.stream ^ state[0], call = state[1];
  Tensor& result = ctx.make_result();
  uint32_t* to = result.mutable_data<uint32_t>();
  for (int64_t i = 0; i < result.size(); i += 4) {
    const uint64_t at = static_cast<uint64_t>(i) / 4;
    const Block block = philox({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), static_cast<uint32_t>(call),
                                static_cast<uint32_t>(call >> 32)},
                               key);
    std::copy_n(block.begin(), std::min<int64_t>(4, result.size() - i), to + i);
  }
}

Value word(Builder& b, uint64_t value, const Dims& shape) {
  return b.broadcast_in_dim(b.constant(Tensor(std::vector<uint64_t>{value}, {})), shape, {});
}
Value upper_half(Builder& b, Value x) { return b.shift_right_logical(x, word(b, 32, b.shape(x))); }
// The element of a list, 0-d.
Value element(Builder& b, Value list, int64_t at) { return b.squeeze(b.slice_axis(list, 0, at, at + 1), {0}); }

// The same for every block at once. Words are kept in u64 so that products have all their bits.
std::vector<Value> decompose(Builder& b, std::span<const Value> operands, const Attributes* attributes) {
  const auto& random = static_cast<const RandomBitsAttributes&>(*attributes);
  const Dim count = product(random.shape), blocks = ceil_div(count, 4);
  const Dims shape{blocks};
  const Value lower = word(b, 0xFFFFFFFF, shape);
  const auto low = [&](Value x) { return b.logical_and(x, lower); };
  const auto high = [&](Value x) { return upper_half(b, x); };
  const auto everywhere = [&](Value x) { return b.broadcast_in_dim(x, shape, {}); };
  Value key = word(b, random.stream, {});
  if (!random.fixed) key = b.logical_xor(key, element(b, operands[0], 0));
  const Value call = everywhere(element(b, operands[0], 1)), at = b.iota(DType::u64, shape, 0), keys = everywhere(key);
  std::array<Value, 4> counter{low(at), high(at), low(call), high(call)};
  Value first = low(keys), second = high(keys);
  for (int round = 0; round < kRounds; ++round) {
    const Value p = b.multiply(counter[0], word(b, kMultiplyFirst, shape));
    const Value q = b.multiply(counter[2], word(b, kMultiplySecond, shape));
    counter = {b.logical_xor(b.logical_xor(high(q), counter[1]), first), low(q),
               b.logical_xor(b.logical_xor(high(p), counter[3]), second), low(p)};
    first = low(b.add(first, word(b, kRaiseLow, shape)));
    second = low(b.add(second, word(b, kRaiseHigh, shape)));
  }
  std::vector<Value> columns;
  for (const Value words : counter) columns.push_back(b.expand_dims(b.convert(words, DType::u32), {1}));
  const Value flat = b.reshape(b.concatenate(std::move(columns), 1), {blocks * 4});
  return {b.reshape(b.slice_axis(flat, 0, 0, count), random.shape)};
}

Value mixed_in_program(Builder& b, Value x) {
  const auto constant = [&](uint64_t value) { return word(b, value, {}); };
  const auto folded = [&](Value z, uint64_t bits) {
    return b.logical_xor(z, b.shift_right_logical(z, constant(bits)));
  };
  x = b.add(x, constant(0x9E3779B97F4A7C15));
  x = b.multiply(folded(x, 30), constant(0xBF58476D1CE4E5B9));
  x = b.multiply(folded(x, 27), constant(0x94D049BB133111EB));
  return folded(x, 31);
}

}  // namespace

const Primitive composite::random_bits{
    .name = "random_bits", .infer = infer, .evaluate = evaluate, .decompose = decompose};

Value random_bits(Builder& build, Value state, Dims shape, uint64_t stream, bool fixed) {
  auto attributes = std::make_shared<RandomBitsAttributes>();
  attributes->shape = std::move(shape);
  attributes->stream = stream;
  attributes->fixed = fixed;
  return build.emit1(composite::random_bits, {state}, std::move(attributes));
}

Value random_state_in_trip(Builder& b, Value state, uint64_t loop, Value trip) {
  const Value seed = b.slice_axis(state, 0, 0, 1), call = element(b, state, 1);
  const Value of_loop = mixed_in_program(b, b.logical_xor(call, word(b, mixed(loop), {})));
  const Value inner = mixed_in_program(b, b.add(of_loop, b.convert(trip, DType::u64)));
  return b.concatenate({seed, b.expand_dims(inner, {0})}, 0);
}

}  // namespace transmuter::ir
