#include "backends/cpu/run/executable.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/run/grown.h"
#include "backends/cpu/run/tell.h"
#include "base/mapped_file.h"
#include "base/run_control.h"
#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

constexpr size_t kPlansKept = 16;
constexpr size_t kStepsAhead = 4;  // fetched while one is bound

// Of all symbols, by number; INT64_MIN for one that has no value.
std::vector<int64_t> symbol_values(const ir::Program& program, const Bindings& bindings) {
  std::vector<int64_t> values;
  if (!program.scope()) return values;
  values.resize(program.scope()->symbols().size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    values[i] = bindings.has(symbol) ? bindings.value(symbol) : INT64_MIN;
  }
  return values;
}

// The same buffers and launches: all but what the launches hold.
void check_same(const BoundPlan& a, const BoundPlan& b) {
  const auto same_buffer = [](const BoundBuffer& x, const BoundBuffer& y) {
    return x.kind == y.kind && x.bytes == y.bytes && x.index == y.index && x.growing == y.growing &&
           (x.constant == y.constant || std::memcmp(x.constant, y.constant, static_cast<size_t>(x.bytes)) == 0) &&
           x.first <= y.first && x.last >= y.last;
  };
  const auto same_launch = [](const BoundLaunch& x, const BoundLaunch& y) {
    return x.call == y.call && x.kernel == y.kernel && x.location == y.location && x.flops == y.flops;
  };
  const auto same_output = [](const BoundPlan::Output& x, const BoundPlan::Output& y) {
    return x.buffer == y.buffer && x.dtype == y.dtype && x.shape == y.shape && x.grown == y.grown;
  };
  const bool same =
      std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(), same_buffer) &&
      std::equal(a.launches.begin(), a.launches.end(), b.launches.begin(), b.launches.end(), same_launch) &&
      std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), same_output) &&
      a.cache_copies == b.cache_copies && a.cache_copy_bytes == b.cache_copy_bytes;
  if (!same) throw Error(ErrorCode::internal, "a plan that started from another is not what it had been from nothing");
}

constexpr size_t kSmallWeight = size_t{32} << 10;

}  // namespace

CpuExecutable::CpuExecutable(const ir::Program& program, std::shared_ptr<ThreadPool> pool,
                             const BackendOptions& options)
    : program_(program),
      types_(program_),
      bits_(program_),
      pool_(std::move(pool)),
      store_(options.weights),
      state_(options.state),
      cache_memory_(BlockMemory::of(*store_, "caches")) {
  const char* verify = std::getenv("TRANSMUTER_VERIFY");
  verify_ = verify && *verify == '1';
  stages_ = Planner(program_, *pool_, *store_).plan();
  caches_.resize(stages_.size());
  written_.resize(static_cast<size_t>(program_.value_count()));
  for (const Stage& stage : stages_) {
    for (const Append& append : stage.appends)
      written_[static_cast<size_t>(append.present.id)] = append.kind != Append::Kind::grow;
  }
  keep_weights();
  for (const ir::Op& op : program_.ops()) {
    if (op.primitive == &ir::prim::constant) constants_.push_back(&op);
    if (!op.regions.empty()) compile_regions(op, options);
  }
}

// Regions are programs of their own. What they read of the outside as it is, and is a weight, is one of theirs.
void CpuExecutable::compile_regions(const ir::Op& op, const BackendOptions& options) {
  std::vector<std::unique_ptr<CpuExecutable>>& compiled = regions_[&op];
  for (const ir::ProgramPtr& region : op.regions) {
    std::vector<const ir::Parameter*> weights(region->parameters().size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const std::optional<size_t> operand = ir::fixed_operand(op, i);
      if (!operand) continue;
      for (const ir::Parameter& p : program_.parameters()) {
        if (p.value == op.operands[*operand] && p.kind == ir::Parameter::Kind::weight && !p.trainable && p.weight)
          weights[i] = &p;
      }
    }
    compiled.push_back(std::make_unique<CpuExecutable>(ir::Builder::with_parameters(*region, weights), pool_, options));
  }
}

// An op between stages; its regions run compiled.
std::vector<Tensor> CpuExecutable::run_between(const ir::Op& op, std::vector<Tensor> operands, Bindings& bindings) const
    try {
  const auto regions = regions_.find(&op);
  if (regions == regions_.end()) return ir::evaluate_op(program_, op, std::move(operands), &bindings);
  const ir::RegionRunner run = [&](size_t region, std::span<const Tensor> inputs, Bindings* inner) {
    const CpuExecutable& executable = *regions->second[region];
    std::vector<Buffer> buffers;
    buffers.reserve(inputs.size());
    const auto& parameters = executable.program_.parameters();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (parameters[i].kind == ir::Parameter::Kind::input) buffers.push_back({.host = inputs[i]});
    std::vector<Tensor> results;
    for (const Buffer& result : executable.run(buffers, inner ? *inner : bindings))
      results.push_back(compacted(result, pool_.get()));
    return results;
  };
  return ir::evaluate_op(program_, op, std::move(operands), &bindings, &run);
} catch (Error& error) {
  if (op.location >= 0) error.in(program_.locations()[static_cast<size_t>(op.location)]);
  throw;
}

// The weights that steps read as they are (not packed), at aligned addresses.
void CpuExecutable::keep_weights() {
  std::vector<bool> read(static_cast<size_t>(program_.value_count())), aligned(read.size());
  for (const Stage& stage : stages_) {
    for (const auto& step : stage.steps) {
      for (ir::Value v : step->reads) {
        read[static_cast<size_t>(v.id)] = true;
        if (v != step->any_address) aligned[static_cast<size_t>(v.id)] = true;
      }
    }
    if (stage.dynamic) {
      for (ir::Value v : stage.dynamic->operands)
        read[static_cast<size_t>(v.id)] = aligned[static_cast<size_t>(v.id)] = true;
    }
  }
  for (ir::Value v : program_.results()) read[static_cast<size_t>(v.id)] = true;
  for (size_t i = 0; i < program_.parameters().size(); ++i) {
    const ir::Parameter& p = program_.parameters()[i];
    if (p.kind != ir::Parameter::Kind::weight) continue;
    if (!read[static_cast<size_t>(p.value.id)]) {
      program_.forget_weight(i);
      continue;
    }
    // A small one would keep the pages of the file around it in memory, too.
    const bool small = !p.trainable && p.weight.dtype() != DType::string && p.weight.nbytes() <= kSmallWeight &&
                       is_mapped(p.weight.bytes());
    if (!small && (p.weight.is_aligned() || !aligned[static_cast<size_t>(p.value.id)])) {
      weights_.emplace_back(p.value, std::make_shared<const Tensor>(p.weight));
      continue;
    }
    const std::string key = str("aligned ", reinterpret_cast<uintptr_t>(p.weight.bytes()), " ", p.weight.nbytes());
    weights_.emplace_back(p.value, store_->get<Tensor>(key, p.weight, [&] {
      auto copy = std::make_shared<const Tensor>(p.weight.clone());
      release_pages(p.weight.bytes(), p.weight.nbytes());
      return copy;
    }));
  }
}

std::shared_ptr<CpuExecutable::PlanEntry> CpuExecutable::plan_entry(size_t stage, const Bindings& bindings,
                                                                    const std::vector<Buffer>& values) const {
  std::vector<int64_t> key = symbol_values(program_, bindings);
  for (ir::Value v : stages_[stage].inputs) {
    if (const GrowingStorage* growing = values[static_cast<size_t>(v.id)].growing.get())
      key.insert(key.end(), {v.id, growing->axis, growing->memory.dim(growing->axis)});
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& plans = caches_[stage].entries;
  for (auto it = plans.begin(); it != plans.end(); ++it) {
    if ((*it)->key != key) continue;
    plans.splice(plans.begin(), plans, it);
    return plans.front();
  }
  plans.push_front(std::make_shared<PlanEntry>());
  plans.front()->key = std::move(key);
  if (plans.size() > kPlansKept) {
    tell_plan(telemetry::Kind::evict, program_, plans.back()->key);
    plans.pop_back();
    RunCounters::add(state_->counters.plan_evictions);
  }
  return plans.front();
}

std::shared_ptr<const BoundPlan> CpuExecutable::bound(size_t stage, Bindings& bindings,
                                                      const std::vector<Buffer>& values, bool describe) const {
  const telemetry::Deferred until_unlocked;
  const std::shared_ptr<PlanEntry> entry = plan_entry(stage, bindings, values);
  const std::lock_guard<std::mutex> lock(entry->binding);
  if (entry->plan) {
    RunCounters::add(state_->counters.plan_hits);
    tell_plan(telemetry::Kind::hit, program_, entry->key);
    // Bound while nobody listened. Others may start from the plan there was, or use it now: this one takes its place
    // for those who ask for these sizes.
    if (describe && entry->plan->shapes.size() != entry->plan->launches.size())
      entry->plan = bind_steps(stages_[stage], bindings, values, nullptr, 0, true);
    return entry->plan;
  }
  tell_plan(telemetry::Kind::miss, program_, entry->key);
  telemetry::Span span(telemetry::Kind::bind);
  const auto start = std::chrono::steady_clock::now();
  entry->plan = bind_stage(stage, bindings, values, describe);
  if (span) {
    span.add("sizes", sizes_text(program_, entry->key));
    span.add("steps", entry->plan->steps_bound);
    span.add("arena_bytes", entry->plan->arena_bytes);
  }
  RunCounters::add(state_->counters.binds);
  RunCounters::add(state_->counters.bind_ns,
                   std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  return entry->plan;
}

std::shared_ptr<const BoundPlan> CpuExecutable::bind_stage(size_t index, Bindings& bindings,
                                                           const std::vector<Buffer>& values, bool describe) const {
  const Stage& stage = stages_[index];
  std::vector<int64_t> symbols = symbol_values(program_, bindings);
  std::shared_ptr<const BoundPlan> from;
  bool others_start_here = true;
  if (!describe) {
    const std::lock_guard<std::mutex> lock(mutex_);
    from = caches_[index].whole;
    // Where most steps differ from one text to the next, no plan will start from this one either.
    if (from) others_start_here = concerns_few(*from->record, bits_.differing(caches_[index].latest, symbols));
  }
  if (from) {
    const uint64_t changed = bits_.differing(from->record->symbols, symbols);
    try {
      if (concerns_few(*from->record, changed)) {
        std::shared_ptr<const BoundPlan> plan = bind_steps(stage, bindings, values, std::move(from), changed);
        RunCounters::add(state_->counters.bound_steps, plan->steps_bound);
        if (verify_) check_same(*plan, *bind_steps(stage, bindings, values, nullptr, 0));
        return plan;
      }
    } catch (const Binder::OtherPlan&) {
      // One from nothing, then.
    }
  }
  std::unique_ptr<BindRecord> spare;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    spare = std::move(caches_[index].spare);
  }
  std::shared_ptr<BoundPlan> plan = bind_steps(stage, bindings, values, nullptr, 0, describe, std::move(spare));
  RunCounters::add(state_->counters.bound_steps, plan->steps_bound);
  const std::lock_guard<std::mutex> lock(mutex_);
  PlanCache& cache = caches_[index];
  if (others_start_here) {
    plan->record->symbols = symbols;
    cache.whole = plan;
  } else {
    cache.spare = std::move(plan->record);
  }
  cache.latest = std::move(symbols);
  return plan;
}

bool CpuExecutable::concerns_few(const BindRecord& record, uint64_t changed) {
  const auto concerned = std::count_if(record.marks.begin(), record.marks.end(),
                                       [&](const BindRecord::Mark& mark) { return (mark.symbols & changed) != 0; });
  return 2 * static_cast<size_t>(concerned) < record.marks.size();
}

std::shared_ptr<BoundPlan> CpuExecutable::bind_steps(const Stage& stage, Bindings& bindings,
                                                     const std::vector<Buffer>& values,
                                                     std::shared_ptr<const BoundPlan> from, uint64_t changed,
                                                     bool describe, std::unique_ptr<BindRecord> spare) const {
  Binder bind(program_, types_, bits_, bindings, pool_->threads(), describe);
  bind.set_last_use(stage.last_use);
  const bool anew = !from;
  if (anew)
    bind.expect(stage.inputs.size() + weights_.size() + constants_.size(), stage.steps.size(), std::move(spare));
  else
    bind.start_from(std::move(from), changed);
  for (size_t i = 0; i < stage.inputs.size(); ++i) {
    const Buffer& buffer = values[static_cast<size_t>(stage.inputs[i].id)];
    const Extents shape = bind.shape(stage.inputs[i]);
    if (shape_of(shape) != shape_of(buffer)) {
      throw Error(ErrorCode::invalid_input,
                  str("a value of shape ", shape_of(buffer), " where ", shape_of(shape), " is expected"));
    }
    bind.bind_input(stage.inputs[i], static_cast<int32_t>(i), layout_of(buffer), buffer.growing != nullptr);
  }
  if (anew) {
    for (const auto& [value, tensor] : weights_) bind.bind_constant(value, *tensor);
    for (const ir::Op* op : constants_) bind.bind_constant(op->results[0], op->as<ir::ConstantAttributes>().value);
  }
  bind.begin_steps();
  int64_t steps = 0;
  for (size_t i = 0; i < stage.steps.size(); ++i) {
    if (i + kStepsAhead < stage.steps.size()) prefetch(*stage.steps[i + kStepsAhead]);
    if (!anew && bind.keeps_step(i)) continue;
    const Step& step = *stage.steps[i];
    bind.begin_step(i, step.location);
    try {
      step.bind(bind);
    } catch (Error& error) {
      if (step.location >= 0) error.in(program_.locations()[static_cast<size_t>(step.location)]);
      throw;
    }
    bind.end_step();
    ++steps;
  }
  auto plan = std::make_shared<BoundPlan>(bind.finish(stage.outputs));
  plan->steps_bound = steps;
  return plan;
}

// The input of an append in memory with room for what comes.
void CpuExecutable::make_room(const Append& append, std::vector<Buffer>& values, Bindings& bindings) const {
  Buffer& buffer = values[static_cast<size_t>(append.past.id)];
  const int64_t rows = bindings.evaluate(program_.type(append.present).shape[static_cast<size_t>(append.axis)]);
  bool copied = false;
  const bool grows = append.kind == Append::Kind::grow;
  buffer = with_room(buffer, append.axis, rows, grows, *cache_memory_, pool_.get(), copied);
  RunCounters& counters = state_->counters;
  if (!copied) return RunCounters::add(counters.appends);
  RunCounters::add(counters.cache_copies);
  RunCounters::add(counters.cache_copy_bytes,
                   static_cast<int64_t>(byte_size(dtype_of(buffer), element_count(buffer.shape))));
  RunCounters::add(counters.allocated_bytes, static_cast<int64_t>(buffer.growing->memory.nbytes()));
}

void CpuExecutable::run_stage(size_t index, std::vector<Buffer>& values, Bindings& bindings) const {
  const Stage& stage = stages_[index];
  for (const Append& append : stage.appends) make_room(append, values, bindings);
  const bool told = steps_are_told();
  const std::shared_ptr<const BoundPlan> plan = bound(index, bindings, values, told);
  const ArenaPool::Lease arena(state_->arenas, static_cast<size_t>(std::max<int64_t>(plan->arena_bytes, 64)));
  std::vector<Buffer> outputs(plan->outputs.size());
  std::vector<std::byte*> bases(plan->buffers.size());
  std::vector<GrowingStorage*> growing(bases.size());
  const auto input = [&](const BoundBuffer& buffer) -> Buffer& {
    return values[static_cast<size_t>(stage.inputs[static_cast<size_t>(buffer.index)].id)];
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const BoundPlan::Output& output = plan->outputs[i];
    if (output.grown) {
      outputs[i].growing = input(plan->buffers[static_cast<size_t>(output.buffer)]).growing;
      outputs[i].shape = output.shape;
      outputs[i].keeps_room = input(plan->buffers[static_cast<size_t>(output.buffer)]).keeps_room;
      continue;
    }
    outputs[i].host = Tensor(output.dtype, output.shape);
    bases[static_cast<size_t>(output.buffer)] = outputs[i].host.mutable_bytes();
    RunCounters::add(state_->counters.allocated_bytes, static_cast<int64_t>(outputs[i].host.nbytes()));
  }
  for (size_t i = 0; i < bases.size(); ++i) {
    const BoundBuffer& buffer = plan->buffers[i];
    switch (buffer.kind) {
      case BoundBuffer::Kind::arena:
        bases[i] = arena.base() + buffer.offset;
        break;
      case BoundBuffer::Kind::input:
        bases[i] = const_cast<std::byte*>(bytes_of(input(buffer)));
        growing[i] = input(buffer).growing.get();
        break;
      case BoundBuffer::Kind::constant:
        bases[i] = const_cast<std::byte*>(buffer.constant);
        break;
      case BoundBuffer::Kind::output:
        break;
    }
  }
  const RunContext context{bases.data(), *pool_, bindings, growing.data()};
  std::vector<std::chrono::steady_clock::time_point> times;
  if (told) {
    times.reserve(plan->launches.size() + 1);
    times.push_back(std::chrono::steady_clock::now());
  }
  for (const BoundLaunch& launch : plan->launches) {
    try {
      RunControl::check();
      launch.run(context);
    } catch (Error& error) {
      if (launch.location >= 0) error.in(program_.locations()[static_cast<size_t>(launch.location)]);
      throw;
    }
    if (told) times.push_back(std::chrono::steady_clock::now());
  }
  if (told) tell_steps(program_, *plan, times);
  RunCounters::add(state_->counters.cache_copies, plan->cache_copies);
  RunCounters::add(state_->counters.cache_copy_bytes, plan->cache_copy_bytes);
  for (size_t i = 0; i < outputs.size(); ++i) values[static_cast<size_t>(stage.outputs[i].id)] = std::move(outputs[i]);
}

std::vector<Buffer> CpuExecutable::run(std::span<Buffer> inputs, Bindings& bindings) const {
  std::vector<Buffer> values(static_cast<size_t>(program_.value_count()));
  for (const auto& [value, tensor] : weights_) values[static_cast<size_t>(value.id)].host = *tensor;
  for (const ir::Op* op : constants_)
    values[static_cast<size_t>(op->results[0].id)].host = op->as<ir::ConstantAttributes>().value;
  size_t next = 0;
  for (const ir::Parameter& p : program_.parameters()) {
    if (p.kind != ir::Parameter::Kind::input) continue;
    Buffer& value = values[static_cast<size_t>(p.value.id)];
    value = inputs[next++];
    if (!value.growing) value.host = value.host.aligned();
  }
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s];
    if (!stage.dynamic) {
      if (!stage.steps.empty() || !stage.outputs.empty()) run_stage(s, values, bindings);
      continue;
    }
    std::vector<Tensor> operands;
    for (ir::Value v : stage.dynamic->operands)
      operands.push_back(compacted(values[static_cast<size_t>(v.id)], pool_.get()));
    std::vector<Tensor> results = run_between(*stage.dynamic, std::move(operands), bindings);
    for (size_t i = 0; i < results.size(); ++i)
      values[static_cast<size_t>(stage.dynamic->results[i].id)].host = std::move(results[i]);
    bindings.check_assertions();  // what follows relies on those about what it has found
  }
  // Only a run that came through moves the high-water marks.
  std::vector<Buffer> results;
  for (ir::Value v : program_.results()) {
    Buffer& value = values[static_cast<size_t>(v.id)];
    if (value.growing) {
      GrowingStorage& storage = *value.growing;
      const int64_t rows = value.shape[static_cast<size_t>(storage.axis)];
      const bool written = written_[static_cast<size_t>(v.id)];  // their steps move the mark
      if (!written && storage.used < rows) storage.used = rows;
      if (value.shape == storage.memory.shape() && !(written && value.keeps_room)) value = {.host = storage.memory};
    }
    results.push_back(value);
  }
  return results;
}

ExecutableStats CpuExecutable::stats() const {
  ExecutableStats stats;
  for (const Stage& stage : stages_) stats.steps += stage.steps.size() + (stage.dynamic ? 1 : 0);
  stats.arena_bytes = static_cast<size_t>(state_->arenas.bytes());
  stats.plans = static_cast<size_t>(state_->counters.binds.load(std::memory_order_relaxed));
  stats.plan_ms = static_cast<double>(state_->counters.bind_ns.load(std::memory_order_relaxed)) * 1e-6;
  return stats;
}

void CpuExecutable::trim() const {
  for (const auto& [op, regions] : regions_)
    for (const auto& region : regions) region->trim();
  std::vector<PlanCache> freed(stages_.size());  // goes after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  caches_.swap(freed);
}

}  // namespace transmuter::cpu
