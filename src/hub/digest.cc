#include "hub/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace transmuter::hub {
namespace {

constexpr uint32_t kRound256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr uint32_t kStart256[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr uint32_t kStart1[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

uint32_t word(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void block256(const unsigned char* bytes, uint32_t* state) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = word(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    const uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t v[8];
  std::copy(state, state + 8, v);
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const uint32_t first = v[7] + s1 + choice + kRound256[i] + w[i];
    const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    std::copy_backward(v, v + 7, v + 8);
    v[4] += first;
    v[0] = first + s0 + majority;
  }
  for (int i = 0; i < 8; ++i) state[i] += v[i];
}

void block1(const unsigned char* bytes, uint32_t* state) {
  uint32_t w[80];
  for (int i = 0; i < 16; ++i) w[i] = word(bytes + 4 * i);
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; ++i) {
    uint32_t f, k;
    if (i < 20) {
      f = (b & c) | (~b & d);
      k = 0x5a827999;
    } else if (i < 40) {
      f = b ^ c ^ d;
      k = 0x6ed9eba1;
    } else if (i < 60) {
      f = (b & c) | (b & d) | (c & d);
      k = 0x8f1bbcdc;
    } else {
      f = b ^ c ^ d;
      k = 0xca62c1d6;
    }
    const uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

}  // namespace

Digest::Digest(Kind kind) : kind_(kind) {
  if (kind == Kind::sha256)
    std::copy(std::begin(kStart256), std::end(kStart256), state_);
  else
    std::copy(std::begin(kStart1), std::end(kStart1), state_);
}

void Digest::block(const unsigned char* bytes) {
  if (kind_ == Kind::sha256)
    block256(bytes, state_);
  else
    block1(bytes, state_);
}

void Digest::add(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t left = text.size();
  size_t held = size_ % 64;
  size_ += left;
  while (left > 0) {
    if (held == 0 && left >= 64) {
      block(bytes);
      bytes += 64;
      left -= 64;
      continue;
    }
    const size_t take = std::min(left, 64 - held);
    std::memcpy(pending_ + held, bytes, take);
    bytes += take;
    left -= take;
    held += take;
    if (held < 64) break;
    block(pending_);
    held = 0;
  }
}

std::string Digest::hex() {
  const uint64_t bits = size_ * 8;
  std::string end(1, '\x80');
  end.append((119 - size_ % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> shift & 0xff);
  add(end);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (int i = 0; i < (kind_ == Kind::sha256 ? 8 : 5); ++i)
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[state_[i] >> shift & 0xf];
  return out;
}

}  // namespace transmuter::hub
