#include "base/run_control.h"

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

thread_local const std::atomic<bool>* current_cancelled = nullptr;
thread_local int64_t current_max_trips = RunControl::kMaxTrips;

}  // namespace

RunControl::RunControl(const std::atomic<bool>* cancelled, int64_t max_trips)
    : outer_cancelled_(current_cancelled), outer_max_trips_(current_max_trips) {
  current_cancelled = cancelled;
  current_max_trips = max_trips;
}

RunControl::~RunControl() {
  current_cancelled = outer_cancelled_;
  current_max_trips = outer_max_trips_;
}

void RunControl::check() {
  if (current_cancelled && current_cancelled->load(std::memory_order_relaxed))
    throw Error(ErrorCode::cancelled, "the run was cancelled");
}

void RunControl::check_trip(int64_t trip, bool counted) {
  check();
  if (counted || trip < current_max_trips) return;
  throw Error(ErrorCode::limit, str("Loop: after ", trip, " trips its condition still holds and it has no trip count; ",
                                    "CompileOptions::max_loop_trips allows no more"));
}

}  // namespace transmuter
