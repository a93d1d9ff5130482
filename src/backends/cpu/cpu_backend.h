// The native engine: programs planned once, bound to sizes at run time, kernels on the thread pool.
#pragma once

#include <memory>

#include "transmuter/backend.h"

namespace transmuter {

std::shared_ptr<Backend> make_cpu_backend();

}  // namespace transmuter
