// How much memory there is to take.
#pragma once

#include <cstddef>

namespace transmuter {

// False where `bytes` are more than half of what the system has free (Linux says; elsewhere the answer is true). Asked
// before each large allocation: overcommitted memory would end the process when it is written, not fail, and what is
// computed next to one result that takes the half (a Loop whose state doubles) would take the rest.
bool memory_is_there(size_t bytes);

}  // namespace transmuter
