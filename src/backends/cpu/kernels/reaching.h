// Looking ahead for the few elements that matter.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

// The first i in [begin, n) whose x[i] is not less than `bound` (`above`) or not greater than it (else), NaN on either
// side counting so; n where there is none.
int64_t first_reaching(const float* x, int64_t begin, int64_t n, float bound, bool above);

}  // namespace transmuter::cpu
