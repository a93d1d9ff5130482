// Numbers that are not negative, rounded up.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace transmuter::cpu
