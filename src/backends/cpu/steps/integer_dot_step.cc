// dot_general of eight-bit integers with a fixed right-hand side, exact in int32, by the packed kernel. What operators
// put behind it runs on the tile: a shift of each column (a zero point times the weight's sums), the conversion to f32,
// a scale (of all or of each column), then what follows any product.
#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/steps/integer_product.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// The ops between the product and its float epilogue.
struct Chain {
  ir::Value shift;  // [n] i32, subtracted
  bool to_float = false;
  ir::Value scale;  // 0-d or [n] f32
  const ir::Op* last;
  int32_t a_zero = 0;
  std::vector<float> scales;  // of the columns, where they are known
  ir::Value zero;             // of the left side: 0-d, of its dtype; there is no shift then
};

ir::Value scalar_everywhere(const Planner& planner, ir::Value v) {
  const ir::Op* op = planner.definition(v);
  if (!op || op->primitive != &ir::prim::broadcast_in_dim) return {};
  for (const Dim& extent : planner.type(op->operands[0]).shape)
    if (!provably_eq(extent, 1)) return {};
  return op->operands[0];
}

// The zero point that `shift` is, times the sums of the weight's columns; none: it is something else.
ir::Value zero_in(const Planner& planner, ir::Value shift, DType dtype, const std::vector<int32_t>& sums) {
  const ir::Op* product = planner.definition(shift);
  if (!product || product->primitive != &ir::prim::multiply) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Tensor* known = planner.constant(product->operands[i]);
    if (!known || known->dtype() != DType::i32 || known->aligned().to_vector<int32_t>() != sums) continue;
    const ir::Value one = scalar_everywhere(planner, product->operands[1 - i]);
    const ir::Op* widened = one ? planner.definition(one) : nullptr;
    if (!widened || widened->primitive != &ir::prim::convert) continue;
    const ir::Type& zero = planner.type(widened->operands[0]);
    if (zero.dtype == dtype && zero.rank() == 0) return widened->operands[0];
  }
  return {};
}

Chain follow(Planner& planner, const ir::Op& product, int64_t column_axis, const std::vector<int32_t>& sums) {
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
    if (chain.shift) {
      take(*op);
      chain.zero = zero_in(planner, chain.shift, planner.type(product.operands[0]).dtype, sums);
      if (chain.zero) {
        absorb_unread(planner, op->operands[1], *op, chain.zero);
        chain.shift = {};
      }
    }
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
  IntegerDotStep(ir::Value lhs, bool a_signed, bool b_signed, const Chain& chain, const FusedEpilogue& epilogue,
                 std::optional<Requantized> bytes, std::shared_ptr<const Packed> packed, int64_t n, int64_t k)
      : lhs_(lhs),
        a_signed_(a_signed),
        b_signed_(b_signed),
        chain_(chain),
        e_(epilogue),
        bytes_(bytes),
        result_(bytes ? bytes->result : epilogue.result),
        packed_(std::move(packed)),
        n_(n),
        k_(k) {
    for (const ir::Value v : {lhs_, chain.shift, chain.scale, e_.bias, e_.residual, chain.zero})
      if (v) reads.push_back(v);
    writes = {result_};
  }

  void bind(Binder& bind) const override {
    for (const ir::Value v : reads) bind.dense(v);
    bind.untouch();
    const View a = bind.view(lhs_);
    const auto place = [&](ir::Value v) { return v ? Place(bind.view(v)) : Place(View{}); };
    const Place shift = place(chain_.shift), bias = place(e_.bias), residual = place(e_.residual);
    const Place zero = place(chain_.zero);
    const View scale = chain_.scale ? bind.view(chain_.scale) : View{};
    const View c = bind.allocate(result_);
    if (c.size() == 0) return bind.untouch();
    QgemmArgs g;
    g.m = c.size() / n_, g.n = n_, g.k = k_;
    g.a_signed = a_signed_, g.a_row = k_;
    g.b_signed = b_signed_;
    g.c_row = n_;
    g.b_scale_per_column = !chain_.scales.empty() || (chain_.scale && scale.size() == n_ && scale.rank() > 0);
    g.epilogue = e_.arguments();
    g.epilogue.residual_row = n_;
    if (bytes_) {
      g.bytes_signed = c.dtype == DType::i8;
      g.bytes_scale = bytes_->scale;
      g.bytes_zero = bytes_->zero;
    }
    const int32_t scratch = bind.scratch(static_cast<int64_t>(qgemm_scratch_bytes(g, bind.threads())));
    const double flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(n_) * static_cast<double>(k_);
    bind.launch("qgemm", flops,
                [g, scratch, shift, bias, residual, zero, packed = packed_, chain = &chain_, bytes = bytes_.has_value(),
                 a = Place(a), scale = Place(scale), c = Place(c)](const RunContext& run) {
                  QgemmArgs args = g;
                  args.a = run.at<void>(a);
                  args.packed_b = packed->bytes;
                  if (shift.buffer >= 0) args.column_shift = run.at<int32_t>(shift);
                  int32_t own_zero;
                  if (zero.buffer >= 0) {
                    own_zero = args.a_signed ? int32_t{*run.at<int8_t>(zero)} : int32_t{*run.at<uint8_t>(zero)};
                    args.a_zero = &own_zero;
                  }
                  if (scale.buffer >= 0) args.b_scale = run.at(scale);
                  if (bias.buffer >= 0) args.epilogue.column_bias = run.at(bias);
                  if (residual.buffer >= 0) args.epilogue.residual = run.at(residual);
                  if (!chain->scales.empty()) {
                    args.b_scale = chain->scales.data();
                    args.a_zero = &chain->a_zero;
                  }
                  if (bytes) {
                    args.bytes = run.at<void>(c);
                  } else if (chain->to_float) {
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
  std::optional<Requantized> bytes_;
  ir::Value result_;
  std::shared_ptr<const Packed> packed_;
  int64_t n_, k_;
};

// The weight of a product with the last axis of its left side, a fixed matrix, packed.
struct Weight {
  std::shared_ptr<const Packed> packed;
  int64_t n, k;
};

std::optional<Weight> pack(Planner& planner, const ir::Op& op, ir::Value rhs) {
  const auto& d = op.as<ir::DotGeneralAttributes>();
  const ir::Type& type = planner.type(rhs);
  ConstantView weight;
  if (!d.rhs_batching.empty() || type.rank() != 2 || d.rhs_contracting.size() != 1 ||
      d.lhs_contracting != std::vector<int64_t>{planner.type(op.operands[0]).rank() - 1} ||
      !planner.constant_view(rhs, weight)) {
    planner.refuse(op, "qgemm", "takes a fixed matrix on the right and the last axis of the left");
    return {};
  }
  const int64_t inner = d.rhs_contracting[0], k = weight.view.dim(inner), n = weight.view.dim(1 - inner);
  const int64_t row = weight.view.stride(inner), column = weight.view.stride(1 - inner);
  if (k * n == 0) return {};
  const bool b_signed = type.dtype == DType::i8;
  const auto make = [&] {
    auto packed = std::make_shared<Packed>(planner.packed_memory(), packed_qb_bytes(k, n), type.dtype);
    const std::byte* from = planner.aligned_bytes(weight.tensor) + weight.view.offset;
    pack_qb(k, n, from, b_signed, row, column, packed->bytes, planner.pool());
    release_pages(weight.tensor.bytes(), weight.tensor.nbytes());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  const std::string key = str("qgemm ", reinterpret_cast<uintptr_t>(weight.tensor.bytes()), " ", weight.view.offset,
                              " ", k, " ", n, " ", row, " ", column, " ", b_signed);
  const bool lasting = planner.has_lasting_address(rhs);
  return Weight{lasting ? planner.store().get<Packed>(key, weight.tensor, make) : make(), n, k};
}

void place(Planner& planner, const ir::Op& op, ir::Value lhs, ir::Value rhs, const Chain& chain, Weight weight) {
  FusedEpilogue epilogue;
  epilogue.result = chain.last->results[0];
  if (chain.to_float) epilogue = match_epilogue(planner, *chain.last, planner.type(op.results[0]).rank() - 1);
  std::optional<Requantized> bytes;
  if (chain.to_float) bytes = match_requantized(planner, epilogue.result);
  const ir::Op& at = bytes ? *bytes->last : epilogue.last ? *epilogue.last : *chain.last;
  auto step =
      std::make_unique<IntegerDotStep>(lhs, planner.type(lhs).dtype == DType::i8, planner.type(rhs).dtype == DType::i8,
                                       chain, epilogue, bytes, std::move(weight.packed), weight.n, weight.k);
  step->location = op.location;
  planner.move_to(std::move(step), at);
}

}  // namespace

bool plan_integer_dot(Planner& planner, const ir::Op& op) {
  const ir::Value lhs = op.operands[0], rhs = op.operands[1];
  if (!eight_bits(planner.type(lhs).dtype) || !eight_bits(planner.type(rhs).dtype) ||
      planner.type(op.results[0]).dtype != DType::i32)
    return false;
  auto weight = pack(planner, op, rhs);
  if (!weight) return false;
  planner.absorb(op);
  const std::vector<int32_t> sums =
      packed_qb_sums(weight->packed->bytes, weight->k, weight->n, planner.type(rhs).dtype == DType::i8);
  place(planner, op, lhs, rhs, follow(planner, op, planner.type(op.results[0]).rank() - 1, sums), std::move(*weight));
  return true;
}

bool plan_quantized_dot(Planner& planner, const ir::Op& op) {
  const auto& d = op.as<ir::DotGeneralAttributes>();
  const ir::Type& rhs = planner.type(op.operands[1]);
  if (planner.type(op.results[0]).dtype != DType::f32 || rhs.rank() != 2 || d.rhs_contracting.size() != 1) return false;
  const int64_t inner = d.rhs_contracting[0];
  const Dim n = rhs.shape[static_cast<size_t>(1 - inner)], k = rhs.shape[static_cast<size_t>(inner)];
  if (!n.is_constant() || !k.is_constant()) return false;
  auto product = match_quantized_product(planner, op, 1 - inner, n.hint(), k.hint());
  if (!product) return false;
  auto weight = pack(planner, op, product->w);
  if (!weight) return false;
  for (const ir::Value v : {op.operands[0], op.operands[1]}) absorb_unread(planner, v, op, product->x);
  planner.absorb(op);
  Chain chain;
  chain.last = &op;
  chain.to_float = true;
  chain.a_zero = product->x_zero;
  chain.scales = std::move(product->scales);
  place(planner, op, product->x, product->w, chain, std::move(*weight));
  return true;
}

}  // namespace transmuter::cpu
