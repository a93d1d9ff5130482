#include "backends/run_state.h"

#include <algorithm>
#include <bit>
#include <new>
#include <thread>
#include <utility>

#include "base/memory.h"

namespace transmuter {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSlack = 1 << 16;

// Sizes of arenas go in steps of an eighth with some slack, so that what grows by a token a run (a mask) doesn't ask
// for new memory each time. Pages that nobody writes cost nothing.
size_t rounded(size_t bytes) {
  const size_t step = std::max<size_t>(kAlignment, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

// Arenas that wait for a next run; give() never asks for memory.
size_t most_kept() { return std::max<size_t>(4, std::thread::hardware_concurrency()); }

}  // namespace

ArenaPool::ArenaPool() { kept_.reserve(most_kept()); }

ArenaPool::Lease::Lease(ArenaPool& pool, size_t bytes) : pool_(pool), block_(pool.take(bytes)) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(block_.memory.get());
  base_ = reinterpret_cast<std::byte*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

ArenaPool::Lease::~Lease() { pool_.give(std::move(block_)); }

ArenaPool::Block ArenaPool::take(size_t bytes) {
  Block freed;  // goes after the lock
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto best = kept_.end(), largest = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->bytes >= bytes && (best == kept_.end() || it->bytes < best->bytes)) best = it;
      if (largest == kept_.end() || it->bytes > largest->bytes) largest = it;
    }
    if (best == kept_.end()) best = largest;  // none suffices: the new one takes the place of the largest
    if (best != kept_.end()) {
      std::swap(freed, *best);
      kept_.erase(best);
      if (freed.bytes >= bytes) return freed;
    }
  }
  bytes_.fetch_sub(static_cast<int64_t>(freed.bytes), std::memory_order_relaxed);
  freed = {};
  Block fresh;
  fresh.bytes = rounded(bytes + bytes / 8 + kSlack);
  if (!memory_is_there(fresh.bytes)) throw std::bad_alloc();
  fresh.memory.reset(new std::byte[fresh.bytes + kAlignment]);
  fresh.held = telemetry::HeldBytes(telemetry::Memory::arena, static_cast<int64_t>(fresh.bytes));
  bytes_.fetch_add(static_cast<int64_t>(fresh.bytes), std::memory_order_relaxed);
  allocated_.fetch_add(static_cast<int64_t>(fresh.bytes), std::memory_order_relaxed);
  return fresh;
}

void ArenaPool::give(Block block) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (kept_.size() < kept_.capacity()) {
      kept_.push_back(std::move(block));
      return;
    }
  }
  bytes_.fetch_sub(static_cast<int64_t>(block.bytes), std::memory_order_relaxed);
}

void ArenaPool::trim() {
  std::vector<Block> freed;
  freed.reserve(most_kept());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.swap(freed);
  }
  for (const Block& block : freed) bytes_.fetch_sub(static_cast<int64_t>(block.bytes), std::memory_order_relaxed);
}

void RunState::add_to(telemetry::Counters& sums) const {
  const auto add = [](auto& sum, const RunCounters::Count& count) { sum += count.load(std::memory_order_relaxed); };
  const auto add_time = [](double& sum, const RunCounters::Count& count) {
    sum += static_cast<double>(count.load(std::memory_order_relaxed)) * 1e-9;
  };
  const RunCounters& c = counters;
  add(sums.runs, c.runs);
  add(sums.traces, c.traces);
  add(sums.body_traces, c.body_traces);
  add(sums.node_traces, c.node_traces);
  add(sums.continuations, c.continuations);
  add(sums.trace_hits, c.trace_hits);
  add(sums.trace_evictions, c.evictions);
  add(sums.breaks, c.breaks);
  add(sums.compiles, c.compiles);
  add(sums.binds, c.binds);
  add(sums.plan_hits, c.plan_hits);
  add(sums.plan_evictions, c.plan_evictions);
  add(sums.appends, c.appends);
  add(sums.cache_copies, c.cache_copies);
  add(sums.allocated_bytes, c.allocated_bytes);
  sums.allocated_bytes += arenas.allocated();
  add_time(sums.trace_seconds, c.trace_ns);
  add_time(sums.compile_seconds, c.compile_ns);
  add_time(sums.bind_seconds, c.bind_ns);
}

}  // namespace transmuter
