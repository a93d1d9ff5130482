// What the executables of one compiled model share besides weights: counters, and working memory for runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "telemetry/counters.h"

namespace transmuter {

// Each figure is read and written atomically; they are not a snapshot of one moment.
struct RunCounters {
  using Count = std::atomic<int64_t>;
  Count runs{0}, traces{0}, body_traces{0}, node_traces{0}, continuations{0}, trace_hits{0}, evictions{0}, breaks{0},
      specializations{0}, compiles{0};
  Count binds{0}, bound_steps{0}, plan_hits{0}, plan_evictions{0};
  // Of values that grow from run to run (caches): grown in place; copied, in order to grow or to be read.
  Count appends{0}, cache_copies{0}, cache_copy_bytes{0};
  Count allocated_bytes{0};  // results and caches
  Count trace_ns{0}, compile_ns{0}, bind_ns{0};

  static void add(Count& count, int64_t n = 1) { count.fetch_add(n, std::memory_order_relaxed); }
};

// Working memory of runs: a run in flight has one arena at a time, which the programs of the run take in turn. What a
// run gives back is kept for the next, up to one for each processor.
class ArenaPool {
 public:
  // Gives the memory back when it goes. 64-byte aligned, undefined contents.
  class Lease {
   public:
    Lease(ArenaPool& pool, size_t bytes);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    std::byte* base() const { return base_; }

   private:
    friend class ArenaPool;
    struct Block {
      std::unique_ptr<std::byte[]> memory;
      size_t bytes = 0;
      telemetry::HeldBytes held = {};
    };
    ArenaPool& pool_;
    Block block_;
    std::byte* base_;
  };

  ArenaPool();
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }          // held now, in use or kept
  int64_t allocated() const { return allocated_.load(std::memory_order_relaxed); }  // ever
  void trim();                                                                      // frees what is kept

 private:
  using Block = Lease::Block;
  Block take(size_t bytes);
  void give(Block block) noexcept;

  std::mutex mutex_;
  std::vector<Block> kept_;
  std::atomic<int64_t> bytes_{0}, allocated_{0};
};

struct RunState final : telemetry::CounterSource {
  RunState() { enlist(); }
  ~RunState() { retire(); }
  void add_to(telemetry::Counters& sums) const override;

  RunCounters counters;
  ArenaPool arenas;
  std::mutex mutex;                           // of what follows
  std::map<std::string, int64_t> composites;  // of the first trace
};

}  // namespace transmuter
