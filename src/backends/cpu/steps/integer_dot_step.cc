// dot_general of eight-bit integers with a fixed right-hand side, exact in int32, by the packed kernel. What operators
// put behind it runs on the tile: a shift of each column (a zero point times the weight's sums), the conversion to f32,
// a scale (of all or of each column), then what follows any product.
#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/planner.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

bool eight_bits(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

// The ops between the product and its float epilogue.
struct Chain {
  ir::Value shift;  // [n] i32, subtracted
  bool to_float = false;
  ir::Value scale;  // 0-d or [n] f32
  const ir::Op* last;
};

ir::Value scalar_everywhere(const Planner& planner, ir::Value v) {
  const ir::Op* op = planner.definition(v);
  if (!op || op->primitive != &ir::prim::broadcast_in_dim) return {};
  for (const Dim& extent : planner.type(op->operands[0]).shape)
    if (!provably_eq(extent, 1)) return {};
  return op->operands[0];
}

Chain follow(Planner& planner, const ir::Op& product, int64_t column_axis) {
  Chain chain;
  chain.last = &product;
  const auto next = [&]() -> const ir::Op* {
    const ir::Op* user = planner.only_user(chain.last->results[0]);
    return user && !planner.absorbed(*user) ? user : nullptr;
  };
  const auto take = [&](const ir::Op& op) {
    planner.absorb(op);
    chain.last = &op;
  };
  if (const ir::Op* op = next(); op && op->primitive == &ir::prim::subtract &&
                                 op->operands[0] == chain.last->results[0] && op->operands[1] != op->operands[0]) {
    chain.shift = vector_along(planner, op->operands[1], column_axis);
    if (chain.shift) take(*op);
  }
  const ir::Op* op = next();
  if (!op || op->primitive != &ir::prim::convert || planner.type(op->results[0]).dtype != DType::f32) return chain;
  take(*op);
  chain.to_float = true;
  if (op = next(); op && op->primitive == &ir::prim::multiply && op->operands[0] != op->operands[1]) {
    const ir::Value other = op->operands[op->operands[0] == chain.last->results[0] ? 1 : 0];
    chain.scale = scalar_everywhere(planner, other);
    if (!chain.scale) chain.scale = vector_along(planner, other, column_axis);
    if (chain.scale) take(*op);
  }
  return chain;
}

class IntegerDotStep : public Step {
 public:
  IntegerDotStep(const ir::Op& op, DType lhs, bool b_signed, const Chain& chain, const FusedEpilogue& epilogue,
                 std::shared_ptr<const Packed> packed, int64_t n, int64_t k)
      : lhs_(op.operands[0]),
        a_signed_(lhs == DType::i8),
        b_signed_(b_signed),
        chain_(chain),
        e_(epilogue),
        packed_(std::move(packed)),
        n_(n),
        k_(k) {
    for (const ir::Value v : {lhs_, chain.shift, chain.scale, e_.bias, e_.residual})
      if (v) reads.push_back(v);
    writes = {e_.result};
  }

  void bind(Binder& bind) const override {
    for (const ir::Value v : reads) bind.dense(v);
    bind.untouch();
    const View a = bind.view(lhs_);
    const auto place = [&](ir::Value v) { return v ? Place(bind.view(v)) : Place(View{}); };
    const Place shift = place(chain_.shift), bias = place(e_.bias), residual = place(e_.residual);
    const View scale = chain_.scale ? bind.view(chain_.scale) : View{};
    const View c = bind.allocate(e_.result);
    if (c.size() == 0) return bind.untouch();
    QgemmArgs g;
    g.m = c.size() / n_, g.n = n_, g.k = k_;
    g.a_signed = a_signed_, g.a_row = k_;
    g.b_signed = b_signed_;
    g.c_row = n_;
    g.b_scale_per_column = chain_.scale && scale.size() == n_ && scale.rank() > 0;
    g.epilogue.alpha = e_.alpha;
    g.epilogue.activation = e_.activation;
    g.epilogue.first = e_.first, g.epilogue.second = e_.second;
    g.epilogue.combine = e_.combine;
    g.epilogue.residual_row = n_;
    const int32_t scratch = bind.scratch(static_cast<int64_t>(qgemm_scratch_bytes(g, bind.threads())));
    const double flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(n_) * static_cast<double>(k_);
    bind.launch("qgemm", flops,
                [g, scratch, shift, bias, residual, packed = packed_, to_float = chain_.to_float, a = Place(a),
                 scale = Place(scale), c = Place(c)](const RunContext& run) {
                  QgemmArgs args = g;
                  args.a = run.at<void>(a);
                  args.packed_b = packed->bytes;
                  if (shift.buffer >= 0) args.column_shift = run.at<int32_t>(shift);
                  if (scale.buffer >= 0) args.b_scale = run.at(scale);
                  if (bias.buffer >= 0) args.epilogue.column_bias = run.at(bias);
                  if (residual.buffer >= 0) args.epilogue.residual = run.at(residual);
                  if (to_float) {
                    args.c = run.at(c);
                  } else {
                    args.sums = run.at<int32_t>(c);
                  }
                  qgemm(args, run.scratch(scratch), run.pool);
                });
  }

 private:
  ir::Value lhs_;
  bool a_signed_, b_signed_;
  Chain chain_;
  FusedEpilogue e_;
  std::shared_ptr<const Packed> packed_;
  int64_t n_, k_;
};

}  // namespace

bool plan_integer_dot(Planner& planner, const ir::Op& op) {
  const auto& d = op.as<ir::DotGeneralAttributes>();
  const ir::Type &lhs = planner.type(op.operands[0]), &rhs = planner.type(op.operands[1]);
  if (!eight_bits(lhs.dtype) || !eight_bits(rhs.dtype) || d.dtype != DType::i32) return false;
  ConstantView weight;
  if (!d.rhs_batching.empty() || rhs.rank() != 2 || d.lhs_contracting != std::vector<int64_t>{lhs.rank() - 1} ||
      d.rhs_contracting.size() != 1 || !planner.constant_view(op.operands[1], weight)) {
    planner.refuse(op, "qgemm", "takes a fixed matrix on the right and the last axis of the left");
    return false;
  }
  const int64_t inner = d.rhs_contracting[0], k = weight.view.dim(inner), n = weight.view.dim(1 - inner);
  const int64_t row = weight.view.stride(inner), column = weight.view.stride(1 - inner);
  if (k * n == 0) return false;
  const bool b_signed = rhs.dtype == DType::i8;
  const auto make = [&] {
    auto packed = std::make_shared<Packed>(planner.packed_memory(), packed_qb_bytes(k, n));
    const std::byte* from = planner.aligned_bytes(weight.tensor) + weight.view.offset;
    pack_qb(k, n, from, b_signed, row, column, packed->bytes, planner.pool());
    release_pages(weight.tensor.bytes(), weight.tensor.nbytes());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  const std::string key = str("qgemm ", reinterpret_cast<uintptr_t>(weight.tensor.bytes()), " ", weight.view.offset,
                              " ", k, " ", n, " ", row, " ", column, " ", b_signed);
  auto packed =
      planner.has_lasting_address(op.operands[1]) ? planner.store().get<Packed>(key, weight.tensor, make) : make();
  planner.absorb(op);
  const int64_t column_axis = planner.type(op.results[0]).rank() - 1;
  const Chain chain = follow(planner, op, column_axis);
  FusedEpilogue epilogue;
  epilogue.result = chain.last->results[0];
  if (chain.to_float) epilogue = match_epilogue(planner, *chain.last, column_axis);
  const ir::Op& at = epilogue.last ? *epilogue.last : *chain.last;
  auto step = std::make_unique<IntegerDotStep>(op, lhs.dtype, b_signed, chain, epilogue, std::move(packed), n, k);
  step->location = op.location;
  planner.move_to(std::move(step), at);
  return true;
}

}  // namespace transmuter::cpu
