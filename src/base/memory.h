// How much memory there is to take.
#pragma once

#include <cstddef>

namespace transmuter {

// False where `bytes` are more than the system has free (Linux says; elsewhere the answer is true). Asked before large
// allocations: overcommitted memory would end the process when it is written, not fail.
bool memory_is_there(size_t bytes);

}  // namespace transmuter
