// Numbers that are not negative: rounded up, cut evenly.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
// Where part i starts when `whole` is cut evenly into `parts`.
inline constexpr int64_t even_cut(int64_t i, int64_t parts, int64_t whole) { return i * whole / parts; }

}  // namespace transmuter::cpu
