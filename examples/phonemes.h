// What the examples that speak share: phonemes are characters of the International Phonetic Alphabet, in UTF-8.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

inline std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> list;
  for (const char byte : text) {
    const bool follows = (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
    if (!follows) list.emplace_back();
    if (list.empty()) throw std::runtime_error("the phonemes are no UTF-8");
    list.back() += byte;
  }
  return list;
}
