// Planner: program -> steps. For each op an ordered list of kernels, the first that accepts; each refusal has a reason,
// which is told as a note (telemetry.h). The plain evaluator of the primitive is last and takes everything.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cpu/plan/appends.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/step.h"
#include "backends/weight_store.h"
#include "ir/primitive.h"

namespace transmuter::cpu {

// A weight or constant seen through transposes and reshapes.
struct ConstantView {
  Tensor tensor;
  View view;  // buffer and offset unused: 0
};

// Ops between data-dependent ones run as one bound plan; a data-dependent op stands alone.
struct Stage {
  std::vector<std::unique_ptr<Step>> steps;
  const ir::Op* dynamic = nullptr;
  std::vector<ir::Value> inputs;   // computed before, or inputs of the program
  std::vector<ir::Value> outputs;  // read later, or results of the program
  std::vector<Append> appends;     // inputs that grow here
  std::vector<int32_t> last_use;   // per value: the last step here that reads it; INT32_MAX for outputs
};

class Planner {
 public:
  Planner(const ir::Program& program, ThreadPool& pool, WeightStore& store);

  std::vector<Stage> plan();

  const ir::Program& program() const { return program_; }
  ThreadPool& pool() { return pool_; }
  WeightStore& store() { return store_; }
  const std::shared_ptr<const BlockMemory>& packed_memory() const { return packed_memory_; }
  // The tensor's bytes at an aligned address, until the next call: one piece of memory serves all weights.
  const std::byte* aligned_bytes(const Tensor& tensor);
  const ir::Type& type(ir::Value v) const { return program_.type(v); }
  const ir::Op* definition(ir::Value v) const { return defined_[static_cast<size_t>(v.id)]; }
  const std::vector<const ir::Op*>& users(ir::Value v) const { return users_[static_cast<size_t>(v.id)]; }
  // The only op that reads a value that is no result; null otherwise.
  const ir::Op* only_user(ir::Value v) const;
  bool same_shape(ir::Value a, ir::Value b) const;  // provably
  bool is_result(ir::Value v) const { return is_result_[static_cast<size_t>(v.id)]; }
  const Tensor* constant(ir::Value v) const;  // a constant op's tensor or a fixed weight
  bool constant_view(ir::Value v, ConstantView& out) const;
  // The bytes behind a constant view stay where they are as long as the model: their address can name what is made of
  // them.
  bool has_lasting_address(ir::Value v) const { return lasting_root(v) != nullptr; }
  // The parameter of such a view; null: there is none.
  const ir::Parameter* lasting_root(ir::Value v) const;
  // A value that is_fixed: computed now.
  Tensor evaluate_fixed(ir::Value v) const;
  // The one value of a constant that is the same everywhere (through broadcasts and reshapes).
  bool splat(ir::Value v, double& value) const;
  // How to store a result whose only reader is a transpose, so that the reader gets it dense; empty: as it is. The last
  // axis stays innermost, or every store would be a scatter.
  SmallVector<int64_t, 6> storage_order(ir::Value result) const;
  const Append* append(const ir::Op& op) const;  // the cache that `op` grows; null: it grows none
  size_t index_of(const ir::Op& op) const { return static_cast<size_t>(&op - program_.ops().data()); }

  // Steps take ops over: those run with the op at which the step stands.
  void absorb(const ir::Op& op) { absorbed_[index_of(op)] = true; }
  // The step that took `op` does not read `v`, which `op` does.
  void stop_reading(ir::Value v, const ir::Op& op) { std::erase(users_[static_cast<size_t>(v.id)], &op); }
  bool absorbed(const ir::Op& op) const { return absorbed_[index_of(op)]; }
  // `op`'s step stands where `at` is (later: when everything it reads is there).
  void move_to(std::unique_ptr<Step> step, const ir::Op& at) { placed_[index_of(at)] = std::move(step); }

  void refuse(const ir::Op& op, const char* kernel, const std::string& reason) const;

 private:
  std::unique_ptr<Step> choose(const ir::Op& op);
  bool views_fixed(ir::Value v) const;  // a constant or fixed weight, or made of one alone by ops of one operand
  // Views of weights that packing read in their place: nothing reads them, and they would keep the weight in memory.
  void drop_unread(std::vector<Stage>& stages) const;

  const ir::Program& program_;
  ThreadPool& pool_;
  WeightStore& store_;
  std::shared_ptr<const BlockMemory> packed_memory_;
  std::vector<std::byte> aligned_;
  std::vector<const ir::Op*> defined_;
  std::vector<std::vector<const ir::Op*>> users_;
  std::vector<bool> is_result_;
  std::vector<const ir::Parameter*> parameter_;
  std::vector<bool> absorbed_;
  std::vector<Append> appends_;
  std::unordered_map<size_t, std::unique_ptr<Step>> placed_;
};

// Kernels: each returns a step, or null after saying why not.
std::unique_ptr<Step> plan_view(Planner& planner, const ir::Op& op);         // steps/view_step.cc
std::unique_ptr<Step> plan_table(Planner& planner, const ir::Op& op);        // steps/table_step.cc
std::unique_ptr<Step> plan_tile(Planner& planner, const ir::Op& op);         // steps/tile_step.cc
std::unique_ptr<Step> plan_reduce(Planner& planner, const ir::Op& op);       // steps/reduce_step.cc
std::unique_ptr<Step> plan_normalize(Planner& planner, const ir::Op& op);    // steps/normalize_step.cc
std::unique_ptr<Step> plan_attention(Planner& planner, const ir::Op& op);    // steps/attention_step.cc
std::unique_ptr<Step> plan_rotary(Planner& planner, const ir::Op& op);       // steps/rotary_step.cc
std::unique_ptr<Step> plan_recurrent(Planner& planner, const ir::Op& op);    // steps/recurrent_step.cc
std::unique_ptr<Step> plan_pool(Planner& planner, const ir::Op& op);         // steps/pool_step.cc
std::unique_ptr<Step> plan_resize(Planner& planner, const ir::Op& op);       // steps/resize_step.cc
std::unique_ptr<Step> plan_gather(Planner& planner, const ir::Op& op);       // steps/gather_step.cc
std::unique_ptr<Step> plan_concatenate(Planner& planner, const ir::Op& op);  // steps/move_step.cc
std::unique_ptr<Step> plan_update(Planner& planner, const ir::Op& op);       // steps/update_step.cc
std::unique_ptr<Step> plan_order(Planner& planner, const ir::Op& op);        // steps/order_step.cc
std::unique_ptr<Step> plan_windows(Planner& planner, const ir::Op& op);      // steps/window_step.cc
std::unique_ptr<Step> plan_plain(Planner& planner, const ir::Op& op);        // steps/plain_step.cc

// Convolutions take over what follows them (place their own step); false: the plain kernel must do. Products do the
// same (steps/dot_step.h).
bool plan_convolution_fused(Planner& planner, const ir::Op& op);  // steps/conv_step.cc

// Products of eight-bit integers with a fixed right-hand side do so too, the way back to floats included.
bool plan_integer_dot(Planner& planner, const ir::Op& op);  // steps/integer_dot_step.cc
// And those of dequantized values.
bool plan_quantized_dot(Planner& planner, const ir::Op& op);          // steps/integer_dot_step.cc
bool plan_quantized_convolution(Planner& planner, const ir::Op& op);  // steps/integer_conv_step.cc

// The range of a value's elements and the bytes that it gives; `op` is the reduction to the greatest one.
bool plan_dynamic_quantize(Planner& planner, const ir::Op& op);  // steps/dynamic_quantize_step.cc

// Sums of dequantized values that become bytes again.
bool plan_add_bytes(Planner& planner, const ir::Op& op);  // steps/add_bytes_step.cc

// A gather checks its indices itself where nothing else reads the checked ones.
void plan_checked_gather(Planner& planner, const ir::Op& op);  // steps/gather_step.cc

// Attention reads keys and values of a half type as they are: marks the conversions of those that it alone reads.
void plan_attention_halves(Planner& planner);  // steps/attention_step.cc

// Marks ops that run inside a product's step, before clusters of elementwise ops are formed (plan/clusters.cc).
void plan_clusters(Planner& planner);

}  // namespace transmuter::cpu
