// A hash of bytes, the same in every run; not against those who look for collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace transmuter {

inline uint64_t hash_of(const std::byte* bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  size_t i = 0;
  for (uint64_t word; i + sizeof word <= count; i += sizeof word) {
    std::memcpy(&word, bytes + i, sizeof word);
    mix(word);
  }
  for (; i < count; ++i) mix(static_cast<uint64_t>(bytes[i]));
  return hash;
}

}  // namespace transmuter
