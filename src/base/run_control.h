// RunControl: what may stop a run from outside. One is current per thread while a model is called; whatever works for
// long asks it: each trip of a loop, each step of a plan.
#pragma once

#include <atomic>
#include <cstdint>

namespace transmuter {

class RunControl {
 public:
  static constexpr int64_t kMaxTrips = int64_t{1} << 24;

  // Current for this thread while it lives. `cancelled` may be null. `max_trips` is for loops without a trip count.
  RunControl(const std::atomic<bool>* cancelled, int64_t max_trips);
  ~RunControl();
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;

  // Throws Error(cancelled) if the caller asked for it.
  static void check();
  // The same before trip number `trip` of a loop; Error(limit) where the loop gives no count of its own and has made
  // all trips that it may.
  static void check_trip(int64_t trip, bool counted);

 private:
  const std::atomic<bool>* outer_cancelled_;
  int64_t outer_max_trips_;
};

}  // namespace transmuter
