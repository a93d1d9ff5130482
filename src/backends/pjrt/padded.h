// A program for fixed sizes that serves every run that fits: extents that change are as large as their capacities, and
// what lies behind a run's own elements is never read where it would count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/pjrt/capacities.h"

namespace transmuter::pjrt {

struct Padded {
  // Its last parameter holds the run's sizes, i64 [n], in the order of Capacities::sizes(). Extents of the other
  // parameters and of the results are capacities; elements behind the run's own are zeros in inputs and anything in
  // results,
  ir::Program program;
  std::vector<bool> zeros;  // but zeros in these results.
};

// `program` in StableHLO's terms (device_form), its scope current. None, with the reason in `why`: something in it
// cannot be had exactly this way (a convolution along such an axis, a sort, ...).
std::optional<Padded> padded_form(const ir::Program& program, const Capacities& capacities,
                                  const std::vector<int64_t>& rooms, std::string& why);

}  // namespace transmuter::pjrt
