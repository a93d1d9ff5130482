// Text pieces for messages: str("rank ", 3, " is too large").
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace transmuter {

inline void append_to(std::string& out, std::string_view text) { out += text; }
inline void append_to(std::string& out, char c) { out += c; }
inline void append_to(std::string& out, const char* text) { out += text; }
template <class T>
requires(std::is_arithmetic_v<T>) void append_to(std::string& out, T value) { out += std::to_string(value); }
// A list of integers prints as [2, 3].
template <class T>
requires(std::is_arithmetic_v<T>) void append_to(std::string& out, const std::vector<T>& values) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(values[i]);
  }
  out += ']';
}

template <class... Pieces>
std::string str(const Pieces&... pieces) {
  std::string out;
  (append_to(out, pieces), ...);
  return out;
}

}  // namespace transmuter
