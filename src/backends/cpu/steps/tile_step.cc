// Clusters of elementwise ops as one tile program. A cluster is its root and, transitively, every elementwise op of the
// same shape whose users are all in the cluster: nothing but the root is stored. Views between values (broadcasts above
// all) are strides of a load.
#include "backends/cpu/steps/tile_step.h"

#include <algorithm>
#include <unordered_map>

#include "backends/cpu/kernels/tile.h"
#include "backends/cpu/plan/planner.h"
#include "ir/composites/composites.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

constexpr size_t kMaxOps = 60;
constexpr size_t kMaxInputs = 20;

bool float_or_bool(DType d) { return d == DType::f32 || d == DType::f16 || d == DType::bf16 || d == DType::boolean; }
bool small_float(DType d) { return d == DType::f32 || d == DType::f16 || d == DType::bf16; }
bool plain_integer(DType d) { return is_integer(d) && !is_packed(d); }
// Types whose values a float holds exactly enough to be loaded as operands of a convert.
bool loadable(DType d) { return float_or_bool(d) || plain_integer(d); }

struct Mapping {
  const ir::Primitive* primitive;
  TileOp op;
};

std::optional<TileOp> mapped(const ir::Primitive* p) {
  static const Mapping kTable[] = {
      {&ir::prim::negate, TileOp::neg},
      {&ir::prim::abs, TileOp::abs},
      {&ir::prim::sign, TileOp::sign},
      {&ir::prim::sqrt, TileOp::sqrt},
      {&ir::prim::rsqrt, TileOp::rsqrt},
      {&ir::prim::exponential, TileOp::exp},
      {&ir::prim::exponential_minus_one, TileOp::expm1},
      {&ir::prim::log, TileOp::log},
      {&ir::prim::log_plus_one, TileOp::log1p},
      {&ir::prim::tanh, TileOp::tanh},
      {&ir::prim::erf, TileOp::erf},
      {&ir::prim::logistic, TileOp::logistic},
      {&ir::prim::sine, TileOp::sin},
      {&ir::prim::cosine, TileOp::cos},
      {&ir::prim::floor, TileOp::floor},
      {&ir::prim::ceil, TileOp::ceil},
      {&ir::prim::round_nearest_even, TileOp::round_nearest_even},
      {&ir::prim::is_finite, TileOp::is_finite},
      {&ir::prim::logical_not, TileOp::logical_not},
      {&ir::prim::add, TileOp::add},
      {&ir::prim::subtract, TileOp::sub},
      {&ir::prim::multiply, TileOp::mul},
      {&ir::prim::divide, TileOp::div},
      {&ir::prim::maximum, TileOp::max},
      {&ir::prim::minimum, TileOp::min},
      {&ir::prim::power, TileOp::pow},
      {&ir::prim::remainder, TileOp::remainder},
      {&ir::prim::logical_and, TileOp::logical_and},
      {&ir::prim::logical_or, TileOp::logical_or},
      {&ir::prim::logical_xor, TileOp::logical_xor},
      {&ir::prim::select, TileOp::select},
      {&ir::prim::clamp, TileOp::clamp},
  };
  for (const Mapping& m : kTable) {
    if (m.primitive == p) return m.op;
  }
  return std::nullopt;
}

TileOp compare_op(ir::CompareDirection d) {
  switch (d) {
    case ir::CompareDirection::eq:
      return TileOp::eq;
    case ir::CompareDirection::ne:
      return TileOp::ne;
    case ir::CompareDirection::lt:
      return TileOp::lt;
    case ir::CompareDirection::le:
      return TileOp::le;
    case ir::CompareDirection::gt:
      return TileOp::gt;
    case ir::CompareDirection::ge:
      return TileOp::ge;
  }
  return TileOp::eq;
}

TileOp tile_op(const ir::Op& op) {
  if (op.primitive == &ir::prim::compare) return compare_op(op.as<ir::CompareAttributes>().direction);
  if (op.primitive == &ir::composite::silu) return TileOp::silu;
  if (op.primitive == &ir::composite::gelu) {
    return op.as<ir::GeluAttributes>().kind == ir::GeluKind::erf ? TileOp::gelu : TileOp::gelu_tanh;
  }
  return *mapped(op.primitive);
}

bool on_masks(const Planner& planner, const ir::Op& op) {
  const ir::Primitive* p = op.primitive;
  return planner.type(op.results[0]).dtype == DType::boolean &&
         (p == &ir::prim::logical_and || p == &ir::prim::logical_or || p == &ir::prim::logical_xor ||
          p == &ir::prim::logical_not);
}

DType conversion_type(DType from, DType to) {
  if ((small_float(to) && loadable(from)) || (small_float(from) && loadable(to)) ||
      (from == DType::boolean && float_or_bool(to))) {
    return DType::f32;
  }
  const auto real = [](DType d) { return loadable(d) || d == DType::f64; };
  if (!real(from) || !real(to)) return DType::invalid;
  return to == DType::f64 || plain_integer(to) ? to : from;
}

// What the op is computed in on tiles: f32, f64 or an integer type; invalid: it is no op of tiles.
DType compute_type(const Planner& planner, const ir::Op& op) {
  if (op.results.size() != 1) return DType::invalid;
  const DType to = planner.type(op.results[0]).dtype;
  const ir::Primitive* p = op.primitive;
  if (p == &ir::prim::convert) return conversion_type(planner.type(op.operands[0]).dtype, to);
  const bool f32 = p == &ir::composite::gelu || (p == &ir::composite::silu && op.as<ir::SiluAttributes>().alpha == 1);
  if (f32) return small_float(to) ? DType::f32 : DType::invalid;
  const bool compares = p == &ir::prim::compare;
  if (!compares && !mapped(p)) return DType::invalid;
  if (on_masks(planner, op)) return DType::f32;
  const TileOp tile = tile_op(op);
  // Of integers it is every bit.
  if (tile == TileOp::logical_not) return DType::invalid;
  const DType type = compares || p == &ir::prim::is_finite ? planner.type(op.operands[0]).dtype : to;
  const bool masks = compares || p == &ir::prim::is_finite || p == &ir::prim::select;
  if (small_float(type) || (masks && type == DType::boolean)) {
    const bool bits = tile == TileOp::logical_and || tile == TileOp::logical_or || tile == TileOp::logical_xor;
    return bits ? DType::invalid : DType::f32;
  }
  return (type == DType::f64 || plain_integer(type)) && tile_takes(type, tile) ? type : DType::invalid;
}

struct Cluster {
  const ir::Op* root = nullptr;
  DType compute = DType::f32;
  std::vector<const ir::Op*> ops;  // in order
  std::vector<ir::Value> inputs;
  TileProgram program;
};

// Emits the tile program; false when it does not fit the registers.
bool generate(const Planner& planner, Cluster& cluster) {
  // Uses left per value, so that registers come free.
  std::unordered_map<int32_t, int> uses;
  for (const ir::Op* op : cluster.ops) {
    for (ir::Value v : op->operands) ++uses[v.id];
  }
  std::unordered_map<int32_t, uint8_t> registers;
  std::vector<uint8_t> free;
  for (int r = kTileRegisters - 1; r >= 0; --r) free.push_back(static_cast<uint8_t>(r));
  auto& steps = cluster.program.steps;
  auto operand = [&](ir::Value v) -> int {
    if (auto found = registers.find(v.id); found != registers.end()) return found->second;
    if (free.empty()) return -1;
    const uint8_t r = free.back();
    free.pop_back();
    registers[v.id] = r;
    double value;
    // The program holds constants as floats.
    if (planner.splat(v, value) && (cluster.compute == DType::f32 || double{static_cast<float>(value)} == value)) {
      steps.push_back({.op = TileOp::constant, .dst = r, .imm = static_cast<float>(value)});
      return r;
    }
    auto known = std::find(cluster.inputs.begin(), cluster.inputs.end(), v);
    if (known == cluster.inputs.end()) {
      if (cluster.inputs.size() >= kMaxInputs) return -1;
      known = cluster.inputs.insert(cluster.inputs.end(), v);
    }
    steps.push_back({.op = TileOp::load, .dst = r, .a = static_cast<uint8_t>(known - cluster.inputs.begin())});
    return r;
  };
  auto release = [&](ir::Value v) {
    if (--uses[v.id] > 0) return;
    if (auto found = registers.find(v.id); found != registers.end()) {
      free.push_back(found->second);
      registers.erase(found);
    }
  };
  for (const ir::Op* op : cluster.ops) {
    const ir::Value result = op->results[0];
    if (op->primitive == &ir::prim::convert) {
      const int a = operand(op->operands[0]);
      if (a < 0) return false;
      const DType from = planner.type(op->operands[0]).dtype, to = planner.type(result).dtype;
      const bool inner = op != cluster.root;
      release(op->operands[0]);
      if (free.empty()) return false;
      const uint8_t dst = free.back();
      free.pop_back();
      if (inner && to == DType::boolean && from != DType::boolean) {
        steps.push_back({.op = TileOp::logical_not, .dst = dst, .a = static_cast<uint8_t>(a)});
        steps.push_back({.op = TileOp::logical_not, .dst = dst, .a = dst});
      } else {
        steps.push_back({.op = TileOp::add_imm, .dst = dst, .a = static_cast<uint8_t>(a), .imm = -0.0f});
      }
      registers[result.id] = dst;
      continue;
    }
    int r[3] = {0, 0, 0};
    for (size_t i = 0; i < op->operands.size(); ++i) {
      r[i] = operand(op->operands[i]);
      if (r[i] < 0) return false;
    }
    for (ir::Value v : op->operands) release(v);
    if (free.empty()) return false;
    const uint8_t dst = free.back();
    free.pop_back();
    steps.push_back({.op = tile_op(*op),
                     .dst = dst,
                     .a = static_cast<uint8_t>(r[0]),
                     .b = static_cast<uint8_t>(r[1]),
                     .c = static_cast<uint8_t>(r[2])});
    registers[result.id] = dst;
  }
  steps.push_back({.op = TileOp::store, .a = registers.at(cluster.root->results[0].id), .b = 0});
  return steps.size() <= static_cast<size_t>(kTileMaxSteps);
}

// Inside a cluster everything has the type that it is computed in, or is a mask. Half floats round when they are
// stored, so they stand at the root.
bool may_be_inner(const Planner& planner, const ir::Op& op, DType compute) {
  const DType dtype = planner.type(op.results[0]).dtype;
  if (dtype != compute && dtype != DType::boolean) return false;
  return compute_type(planner, op) == compute || on_masks(planner, op);
}

// Masks can be joined in any type: in that of the comparison that gives one of them.
DType type_of_root(const Planner& planner, const ir::Op& root) {
  const DType own = compute_type(planner, root);
  if (!on_masks(planner, root)) return own;
  for (const ir::Value v : root.operands) {
    const ir::Op* def = planner.definition(v);
    if (!def || planner.absorbed(*def) || !planner.only_user(v)) continue;
    const DType type = compute_type(planner, *def);
    if (type != DType::invalid && type != DType::f32) return type;
  }
  return own;
}

Cluster gather_cluster(const Planner& planner, const ir::Op& root) {
  Cluster cluster;
  cluster.root = &root;
  cluster.compute = type_of_root(planner, root);
  std::vector<const ir::Op*> members{&root};
  // Candidates are looked at in reverse program order, so that all users of an op were decided before it.
  std::vector<const ir::Op*> queue;
  auto add_operands = [&](const ir::Op& op) {
    for (ir::Value v : op.operands) {
      const ir::Op* def = planner.definition(v);
      if (def && std::find(queue.begin(), queue.end(), def) == queue.end()) queue.push_back(def);
    }
  };
  add_operands(root);
  while (!queue.empty() && members.size() < kMaxOps) {
    auto latest = std::max_element(queue.begin(), queue.end());  // ops lie in one vector, in order
    const ir::Op* op = *latest;
    queue.erase(latest);
    if (planner.absorbed(*op) || !may_be_inner(planner, *op, cluster.compute)) continue;
    const ir::Value v = op->results[0];
    if (planner.is_result(v) || !planner.same_shape(v, root.results[0])) continue;
    const auto& users = planner.users(v);
    const bool inside = std::all_of(users.begin(), users.end(), [&](const ir::Op* user) {
      return std::find(members.begin(), members.end(), user) != members.end();
    });
    if (!inside) continue;
    members.push_back(op);
    add_operands(*op);
  }
  std::sort(members.begin(), members.end());
  cluster.ops = std::move(members);
  return cluster;
}

// The result is stored as its operands are: those that are images with their channels last, above all.
AxisOrder order_of(const std::vector<View>& inputs) {
  for (const View& input : inputs) {
    const AxisOrder order = axis_order(input);
    if (!order.empty()) return order;
  }
  return {};
}

// Strides of every operand over the result's shape, whose axes are taken in the given order; neighbours that run on in
// all of them are merged.
struct Space {
  Extents dims;
  SmallVector<int64_t, 16> strides;  // by axis, then by input
};

Space collapse(const Extents& shape, const std::vector<View>& inputs, const AxisOrder& order) {
  Space space;
  for (size_t at = 0; at < shape.size(); ++at) {
    const size_t i = order.empty() ? at : static_cast<size_t>(order[at]);
    if (shape[i] == 1) continue;
    bool merge = !space.dims.empty();
    int64_t* last = space.strides.end() - (merge ? inputs.size() : 0);
    for (size_t k = 0; merge && k < inputs.size(); ++k) merge = last[k] == inputs[k].strides[i] * shape[i];
    if (merge) {
      space.dims.back() *= shape[i];
      for (size_t k = 0; k < inputs.size(); ++k) last[k] = inputs[k].strides[i];
      continue;
    }
    space.dims.push_back(shape[i]);
    for (const View& input : inputs) space.strides.push_back(input.strides[i]);
  }
  if (space.dims.empty()) {
    space.dims.push_back(1);
    for (size_t k = 0; k < inputs.size(); ++k) space.strides.push_back(0);
  }
  return space;
}

class TileClusterStep : public Step {
 public:
  explicit TileClusterStep(Cluster cluster) : cluster_(std::move(cluster)) {
    reads = cluster_.inputs;
    writes = cluster_.root->results;
  }

  void bind(Binder& bind) const override {
    const ir::Value result = cluster_.root->results[0];
    const Extents shape = bind.shape(result);
    std::vector<View> inputs = views(bind, shape);
    AxisOrder order = order_of(inputs);
    Space space = collapse(shape, inputs, order);
    if (space.dims.size() > static_cast<size_t>(kTileMaxDims)) {
      order.clear();
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].is_dense()) inputs[i] = bind.dense_copy(inputs[i]);
      }
      bind.untouch();
      for (const View& v : inputs) bind.touch_again(v.buffer);
      space = collapse(shape, inputs, order);
    }
    const auto lies_so = [&](const View& v) { return in_order(v, order).is_dense(); };
    View to;
    bool placed = false;
    for (size_t i = 0; !placed && i < inputs.size(); ++i) {
      if (!lies_so(inputs[i]) || bit_width(inputs[i].dtype) != bit_width(bind.dtype(result))) continue;
      // Another operand that lies in the same memory in another way would be overwritten before it is read.
      const bool alone = std::all_of(inputs.begin(), inputs.end(), [&](const View& other) {
        return other.buffer != inputs[i].buffer ||
               (other.offset == inputs[i].offset && lies_so(other) && other.dtype == inputs[i].dtype);
      });
      if (!alone) continue;
      to = bind.allocate_over(result, inputs[i], order);
      placed = true;
    }
    if (!placed) to = bind.allocate(result, order);
    const int64_t total = product(shape);
    if (total == 0) return bind.untouch();
    SmallVector<Place, 4> places;
    for (const View& v : inputs) places.push_back(v);
    bind.launch(cluster_.ops.size() == 1 ? cluster_.root->primitive->name : "tile", 0,
                [this, places, to = Place(to), space, total](const RunContext& run) {
                  TileInput in[kMaxInputs];
                  for (size_t i = 0; i < places.size(); ++i) {
                    in[i].data = run.at<std::byte>(places[i]);
                    in[i].dtype = places[i].dtype;
                    for (size_t d = 0; d < space.dims.size(); ++d)
                      in[i].strides[d] = space.strides[d * places.size() + i];
                  }
                  const TileOutput out{run.at<std::byte>(to), to.dtype};
                  const int rank = static_cast<int>(space.dims.size());
                  run.pool.parallel_for(total, grain(total), [&](int64_t begin, int64_t end) {
                    if (cluster_.compute == DType::f32) {
                      run_tile(cluster_.program, space.dims.data(), rank, in, &out, begin, end);
                    } else {
                      run_tile_as(cluster_.compute, cluster_.program, space.dims.data(), rank, in, &out, begin, end);
                    }
                  });
                });
  }

 private:
  // 0-d operands (predicates, bounds) repeat.
  std::vector<View> views(Binder& bind, const Extents& shape) const {
    std::vector<View> inputs;
    for (ir::Value v : cluster_.inputs) {
      View view = bind.view(v);
      if (view.rank() == 0 && !shape.empty()) view = broadcast(view, shape, {});
      inputs.push_back(view);
    }
    return inputs;
  }

  int64_t grain(int64_t total) const {
    const int64_t work = static_cast<int64_t>(cluster_.program.steps.size());
    const int64_t elements = std::max<int64_t>(4096, 65536 / work);
    return std::min(total, (elements + kTileLanes - 1) / kTileLanes * kTileLanes);
  }

  Cluster cluster_;
};

}  // namespace

std::unique_ptr<Step> plan_tile(Planner& planner, const ir::Op& op) {
  const DType compute = compute_type(planner, op);
  if (compute == DType::invalid) {
    if (op.primitive->elementwise) planner.refuse(op, "tile", "no operation of tiles");
    return nullptr;
  }
  // Clusters were formed before; what is left over stands alone.
  Cluster cluster;
  cluster.root = &op;
  cluster.compute = compute;
  cluster.ops = {&op};
  if (!generate(planner, cluster)) return nullptr;
  return std::make_unique<TileClusterStep>(std::move(cluster));
}

void plan_tile_clusters(Planner& planner) {
  const auto& ops = planner.program().ops();
  for (size_t i = ops.size(); i-- > 0;) {
    const ir::Op& op = ops[i];
    if (planner.absorbed(op) || compute_type(planner, op) == DType::invalid) continue;
    Cluster cluster = gather_cluster(planner, op);
    while (!generate(planner, cluster)) {
      // Too large: the earliest members stand for themselves.
      const size_t keep = std::max<size_t>(1, cluster.ops.size() / 2);
      std::vector<const ir::Op*> ops_left(cluster.ops.end() - static_cast<ptrdiff_t>(keep), cluster.ops.end());
      const DType compute = cluster.compute;
      cluster = Cluster{};
      cluster.root = &op;
      cluster.compute = compute;
      cluster.ops = std::move(ops_left);
    }
    for (const ir::Op* member : cluster.ops) planner.absorb(*member);
    auto step = std::make_unique<TileClusterStep>(std::move(cluster));
    step->location = op.location;
    planner.move_to(std::move(step), op);
  }
}

}  // namespace transmuter::cpu
