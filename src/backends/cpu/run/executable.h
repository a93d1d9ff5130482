// CpuExecutable: a planned program, and the bound plans for the sizes it has met.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backends/cpu/plan/planner.h"
#include "backends/cpu/run/block_memory.h"
#include "backends/cpu/run/bound_plan.h"
#include "backends/run_state.h"
#include "transmuter/backend.h"

namespace transmuter::cpu {

class CpuExecutable : public Executable {
 public:
  // `options`: the stores that executables of one model share are never null.
  CpuExecutable(const ir::Program& program, std::shared_ptr<ThreadPool> pool, const BackendOptions& options);

  std::vector<Buffer> run(std::span<Buffer> inputs, Bindings& bindings) const override;
  ExecutableStats stats() const override;
  void trim() const override;

 private:
  // The plan for one set of sizes. The first thread that asks binds it, under the mutex; when that fails, the next
  // tries again.
  struct PlanEntry {
    std::vector<int64_t> key;
    std::mutex binding;
    std::shared_ptr<const BoundPlan> plan;
  };
  // Of one stage.
  struct PlanCache {
    std::list<std::shared_ptr<PlanEntry>> entries;  // most recently used first
    std::shared_ptr<const BoundPlan> whole;         // what others start from: one that started from no other
    std::vector<int64_t> latest;                    // the symbols of the newest such
    std::unique_ptr<BindRecord> spare;              // memory for the next
  };

  void keep_weights();
  void compile_regions(const ir::Op& op, const BackendOptions& options);
  std::vector<Tensor> run_between(const ir::Op& op, std::vector<Tensor> operands, Bindings& bindings) const;
  // `values`: by number, those that have been computed.
  std::shared_ptr<PlanEntry> plan_entry(size_t stage, const Bindings& bindings,
                                        const std::vector<Buffer>& values) const;
  // `describe`: its launches say what they read and write.
  std::shared_ptr<const BoundPlan> bound(size_t stage, Bindings& bindings, const std::vector<Buffer>& values,
                                         bool describe) const;
  std::shared_ptr<const BoundPlan> bind_stage(size_t stage, Bindings& bindings, const std::vector<Buffer>& values,
                                              bool describe) const;
  // Do few of the plan's steps depend on symbols with these bits?
  static bool concerns_few(const BindRecord& record, uint64_t changed);
  // `from` (may be null): a plan for other sizes, which differ in the symbols with these bits. Throws
  // Binder::OtherPlan.
  std::shared_ptr<BoundPlan> bind_steps(const Stage& stage, Bindings& bindings, const std::vector<Buffer>& values,
                                        std::shared_ptr<const BoundPlan> from, uint64_t changed, bool describe = false,
                                        std::unique_ptr<BindRecord> spare = nullptr) const;
  void make_room(const Append& append, std::vector<Buffer>& values, Bindings& bindings) const;
  void run_stage(size_t stage, std::vector<Buffer>& values, Bindings& bindings) const;

  ir::Program program_;
  ValueTypes types_;
  SymbolBits bits_;
  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<WeightStore> store_;
  std::shared_ptr<RunState> state_;
  std::shared_ptr<const BlockMemory> cache_memory_;
  std::vector<std::pair<ir::Value, std::shared_ptr<const Tensor>>> weights_;
  bool verify_;  // TRANSMUTER_VERIFY: plans that started from another are compared with ones that did not
  std::vector<Stage> stages_;
  std::vector<bool> written_;  // by value: a cache written in place
  std::vector<const ir::Op*> constants_;
  std::unordered_map<const ir::Op*, std::vector<std::unique_ptr<CpuExecutable>>> regions_;
  mutable std::mutex mutex_;  // of caches_
  mutable std::vector<PlanCache> caches_;
};

}  // namespace transmuter::cpu
