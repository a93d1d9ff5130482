// Which SIMD instruction set the CPU kernels run with. By default the best one of this machine; the environment
// variable TRANSMUTER_TARGET forces another by name: SCALAR (also EMU128, BASELINE), SSE4, AVX2, AVX3 (also AVX512),
// AVX3_DL, NEON. A kernel that was not compiled for the chosen set runs with the next worse one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transmuter::cpu {

// Applies TRANSMUTER_TARGET, once a process; cheap afterwards. Every kernel's entry calls it.
// Throws Error(invalid_input) when the variable names a set that does not exist or that this machine lacks.
void init_target();

// The name of the set in use, e.g. "AVX2".
std::string current_target();

// The sets that this machine has, the best first, the baseline last.
std::vector<std::string> available_targets();

// For tests: forces a set; an empty name goes back to the default. Throws as init_target. What was packed under one set
// must not be read under another. Not to be called while kernels run.
void set_target(std::string_view name);

}  // namespace transmuter::cpu
