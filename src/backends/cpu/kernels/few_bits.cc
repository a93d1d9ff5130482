#include "backends/cpu/kernels/few_bits.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/rounding.h"
#include "base/thread_pool.h"

namespace transmuter::cpu {
namespace {

// The `count` elements from number `first` on as one word.
uint32_t word_at(const std::byte* b, int bits, int64_t first, int64_t count) {
  uint32_t word = 0;
  const int64_t per_byte = 8 / bits;
  if (first % per_byte == 0 && count == elements_of_word(bits)) {
    for (size_t i = 0; i < 4; ++i)
      word |= static_cast<uint32_t>(b[first / per_byte + static_cast<int64_t>(i)]) << (8 * i);
    return word;
  }
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    const uint32_t element = static_cast<uint32_t>(b[at / per_byte]) >> (at % per_byte * bits) & mask;
    word |= element << (i * bits);
  }
  return word;
}

}  // namespace

FewBitsLayout few_bits_layout(int64_t k, const FewBits& bits, int64_t tile_columns) {
  FewBitsLayout layout;
  layout.columns = tile_columns;
  layout.words = bits.block / elements_of_word(bits.bits);
  layout.scale_bytes = tile_columns * 4;
  layout.zero_bytes = bits.zeros ? tile_columns : 0;
  layout.block_bytes = layout.scale_bytes + layout.zero_bytes + layout.words * tile_columns * 4;
  layout.panel_bytes = ceil_div(k, bits.block) * layout.block_bytes;
  return layout;
}

size_t packed_few_bits_bytes(int64_t k, int64_t n, const FewBits& bits) {
  const FewBitsLayout layout = few_bits_layout(k, bits, gemm_ops().tile_columns);
  return static_cast<size_t>(round_up(ceil_div(n, layout.columns) * layout.panel_bytes, 64));
}

void pack_few_bits(int64_t k, int64_t n, const FewBits& bits, const std::byte* b, bool is_signed, const float* scales,
                   const uint8_t* zeros, void* out, ThreadPool& pool, bool swapped) {
  const FewBitsLayout layout = few_bits_layout(k, bits, gemm_ops().tile_columns);
  const int64_t per_word = elements_of_word(bits.bits), blocks = ceil_div(k, bits.block);
  const uint32_t flip = !is_signed ? 0 : bits.bits == 8 ? 0x80808080u : bits.bits == 4 ? 0x88888888u : 0xAAAAAAAAu;
  pool.parallel_for(ceil_div(n, layout.columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * layout.columns, columns = std::min(layout.columns, n - first);
      std::byte* to = static_cast<std::byte*>(out) + panel * layout.panel_bytes;
      std::memset(to, 0, static_cast<size_t>(layout.panel_bytes));
      for (int64_t block = 0; block < blocks; ++block, to += layout.block_bytes) {
        const int64_t k0 = block * bits.block, rows = std::min(bits.block, k - k0);
        std::byte* const zero = to + layout.scale_bytes;
        std::byte* const words = zero + layout.zero_bytes;
        for (int64_t j = 0; j < columns; ++j) {
          const int64_t column = first + j;
          std::memcpy(to + j * 4, scales + column * blocks + block, 4);
          if (bits.zeros) zero[j] = static_cast<std::byte>(zeros[column * blocks + block]);
          for (int64_t w = 0; w * per_word < rows; ++w) {
            const int64_t at = w * per_word;
            uint32_t word = word_at(b, bits.bits, column * k + k0 + at, std::min(per_word, rows - at)) ^ flip;
            if (swapped) word = (word >> 4 & 0x0F0F0F0Fu) | (word & 0x0F0F0F0Fu) << 4;
            std::memcpy(words + (w * layout.columns + j) * 4, &word, 4);
          }
        }
      }
    }
  });
}

}  // namespace transmuter::cpu
