// Weights of 2, 4 or 8 bits for the matrix product, packed as they are and widened in registers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

// An element q of B[k, n] stands for (q - zero) * scale, or for table[q] * scale. Each `block` elements along k of a
// column share a scale, and have a zero of their own if `zeros`.
struct FewBits {
  int bits = 0;       // 2, 4 or 8; 0: B is of another kind
  int64_t block = 0;  // a multiple of 32 / bits
  bool zeros = false;
  float zero = 0;                // without zeros: an integer in [0, 256)
  const float* table = nullptr;  // of four bits: 16 values; then there are no zeros
};
inline constexpr size_t kFewBitsTableBytes = 16 * sizeof(float);

// Elements of a 32-bit word.
inline int64_t elements_of_word(int bits) { return 32 / bits; }

// Packed: panels of tile_columns columns; each has its blocks one after the other: scales (f32), zeros (u8, if there
// are any), then rows of words, a word a column, that hold neighbours along k, the first in the lowest bits.
struct FewBitsLayout {
  int64_t columns;  // of a panel
  int64_t words;    // of a column in a block
  int64_t scale_bytes, zero_bytes, block_bytes, panel_bytes;
};
FewBitsLayout few_bits_layout(int64_t k, const FewBits& bits, int64_t tile_columns);

// Bytes of a packed B, a multiple of 64. Depends on the instruction set in use (target.h).
size_t packed_few_bits_bytes(int64_t k, int64_t n, const FewBits& bits);

// Packs B from B^T as ONNX stores it: `b` holds n * k elements row by row (k runs on), the first in the lowest bits of
// a byte; `is_signed`: they are two's complement, then `zero` and `zeros` are meant for q + 2^(bits - 1). scales and
// zeros are [n, blocks]. `swapped`: of two neighbours of four bits the first is in the highest bits (k is even). `out`
// is 64-byte aligned.
void pack_few_bits(int64_t k, int64_t n, const FewBits& bits, const std::byte* b, bool is_signed, const float* scales,
                   const uint8_t* zeros, void* out, ThreadPool& pool, bool swapped = false);

}  // namespace transmuter::cpu
