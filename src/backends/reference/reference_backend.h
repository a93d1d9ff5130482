// The reference backend: every primitive by its own plain evaluator, op by op. Slow and obvious; the oracle for the
// others.
#pragma once

#include <memory>

#include "transmuter/backend.h"

namespace transmuter {

std::shared_ptr<Backend> make_reference_backend();

}  // namespace transmuter
