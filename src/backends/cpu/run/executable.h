// CpuExecutable: a planned program, and the bound plans for the sizes it has met.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cpu/plan/planner.h"
#include "backends/cpu/run/bound_plan.h"
#include "transmuter/backend.h"

namespace transmuter::cpu {

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const ir::Program& program, std::shared_ptr<ThreadPool> pool, std::shared_ptr<WeightStore> store,
                bool verbose);

  std::vector<Buffer> run(std::span<Buffer> inputs, Bindings& bindings) const override;
  ExecutableStats stats() const override;

 private:
  struct Arena {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
    std::byte* base = nullptr;
  };
  // The plans of one stage by the sizes of its dims, most recently used first.
  struct PlanCache {
    std::list<std::pair<std::vector<int64_t>, std::shared_ptr<const BoundPlan>>> plans;
  };

  void keep_weights();
  std::shared_ptr<const BoundPlan> bound(size_t stage, Bindings& bindings, const std::vector<Tensor>& values) const;
  void run_stage(size_t stage, std::vector<Tensor>& values, Bindings& bindings) const;
  void report(const BoundPlan& plan, const std::vector<double>& seconds) const;
  Arena take_arena(size_t bytes) const;
  void give_arena(Arena arena) const;

  ir::Program program_;
  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<WeightStore> store_;
  std::vector<std::pair<ir::Value, std::shared_ptr<const Tensor>>> weights_;
  bool verbose_;
  std::vector<Stage> stages_;
  std::vector<const ir::Op*> constants_;
  mutable std::mutex mutex_;
  mutable std::vector<PlanCache> caches_;
  mutable std::vector<Arena> arenas_;
  mutable size_t plans_made_ = 0;
  mutable double plan_ms_ = 0;
};

}  // namespace transmuter::cpu
