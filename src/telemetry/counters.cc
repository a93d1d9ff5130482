#include "telemetry/counters.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "telemetry/span.h"

namespace transmuter::telemetry {
namespace {

std::array<std::atomic<int64_t>, 4> held{};
std::atomic<int64_t> loads{0}, failed_runs{0};

// Never destroyed, as sources may go while the process ends.
struct Sources {
  std::mutex mutex;
  std::vector<const CounterSource*> live;
  Counters gone;
};

Sources& sources() {
  static Sources* const sources = new Sources;
  return *sources;
}

int64_t held_of(Memory kind) { return held[static_cast<size_t>(kind)].load(std::memory_order_relaxed); }

}  // namespace

void CounterSource::enlist() {
  Sources& all = sources();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.live.push_back(this);
}

void CounterSource::retire() noexcept {
  Sources& all = sources();
  const std::lock_guard<std::mutex> lock(all.mutex);
  add_to(all.gone);
  std::erase(all.live, this);
}

HeldBytes::HeldBytes(Memory kind, int64_t bytes) : kind_(kind), bytes_(bytes) {
  held[static_cast<size_t>(kind_)].fetch_add(bytes_, std::memory_order_relaxed);
}

HeldBytes::~HeldBytes() {
  if (bytes_) held[static_cast<size_t>(kind_)].fetch_sub(bytes_, std::memory_order_relaxed);
}

void count_load() { loads.fetch_add(1, std::memory_order_relaxed); }
void count_failed_run() { failed_runs.fetch_add(1, std::memory_order_relaxed); }

Counters counters() {
  Counters sums;
  {
    Sources& all = sources();
    const std::lock_guard<std::mutex> lock(all.mutex);
    sums = all.gone;
    for (const CounterSource* source : all.live) source->add_to(sums);
  }
  sums.loads = loads.load(std::memory_order_relaxed);
  sums.failed_runs = failed_runs.load(std::memory_order_relaxed);
  sums.weight_bytes = held_of(Memory::weights);
  sums.prepared_bytes = held_of(Memory::prepared);
  sums.arena_bytes = held_of(Memory::arena);
  sums.cache_bytes = held_of(Memory::cache);
  return sums;
}

void tell_memory() noexcept {
  if (!anybody_listens(Kind::memory)) return;
  tell(Kind::memory, "memory",
       {{"weights", held_of(Memory::weights)},
        {"prepared", held_of(Memory::prepared)},
        {"arena", held_of(Memory::arena)},
        {"cache", held_of(Memory::cache)}});
}

}  // namespace transmuter::telemetry
