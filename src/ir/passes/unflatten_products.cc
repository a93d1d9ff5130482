// Takes away the detour over flattened rows that exporters write around products.
// Pattern:   reshape to [b, s, n] of elementwise ops of (reshape of x [b, s, e] to [b s, e]) w, whose other operands
//            are numbers, repeat along all axes but the last, or are flattened in the same way.
// Condition: the axes before the last are provably the same before and after; nothing else reads what lies between.
// Gain:      the product meets what comes after it (activation, residual) without a reshape between, and takes it into
//            its epilogue.
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

class Unflattener {
 public:
  explicit Unflattener(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) {
      if (op.primitive != &prim::reshape) return Value{};
      const Value flat = op.operands[0];
      const Dims& shape = match_.shape(op.results[0]);
      return are_rows(flat, shape) && fits(flat, shape) ? restored(flat, shape) : Value{};
    });
  }

 private:
  // The value is `shape` with the axes before the last joined to fewer.
  bool are_rows(Value value, const Dims& shape) const {
    const Dims& flat = match_.shape(value);
    return !flat.empty() && flat.size() < shape.size() && provably_eq(flat.back(), shape.back());
  }

  // x of this shape, but for the last extent, that was flattened to the value.
  Value unflattened(Value value, const Dims& shape) const {
    const Op* op = match_.defined_by(value, prim::reshape);
    if (!op) return {};
    const Dims& from = match_.shape(op->operands[0]);
    if (from.size() != shape.size() || !provably_eq(from.back(), match_.shape(value).back())) return {};
    for (size_t i = 0; i + 1 < from.size(); ++i)
      if (!provably_eq(from[i], shape[i])) return {};
    return op->operands[0];
  }

  bool repeats_along_rows(Value value) const {
    const View view = match_.strip(match_.whole(value));
    for (const int64_t axis : view.axes)
      if (axis >= 0 && axis + 1 != match_.rank(value)) return false;
    return true;
  }

  // The product, if the value is one of flattened rows.
  const Op* product(Value value, const Dims& shape) const {
    const Op* op = match_.defined_by(value, prim::dot_general);
    if (!op) return nullptr;
    const auto& a = op->as<DotGeneralAttributes>();
    const Value x = op->operands[0];
    if (!a.lhs_batching.empty() || a.lhs_contracting != std::vector<int64_t>{match_.rank(x) - 1}) return nullptr;
    if (match_.rank(op->operands[1]) != 2) return nullptr;
    return unflattened(x, shape) ? op : nullptr;
  }

  bool fits(Value value, const Dims& shape) const {
    if (match_.uses(value) != 1) return false;
    if (product(value, shape)) return true;
    const Op* op = match_.definition(value);
    if (!op || !op->primitive->elementwise || op->results.size() != 1) return false;
    bool any = false;
    for (const Value operand : op->operands) {
      if (match_.rank(operand) == 0 || repeats_along_rows(operand)) continue;
      if (unflattened(operand, shape)) continue;
      if (!fits(operand, shape)) return false;
      any = true;
    }
    return any;
  }

  Value restored(Value value, const Dims& shape) {
    Dims wide(shape.begin(), shape.end() - 1);
    wide.push_back(match_.shape(value).back());
    if (const Op* op = product(value, shape)) {
      auto attributes = op->as<DotGeneralAttributes>();
      attributes.lhs_contracting = {static_cast<int64_t>(shape.size()) - 1};
      const Value x = copier_[unflattened(op->operands[0], shape)];
      return emit(*op, {x, copier_[op->operands[1]]}, std::move(wide),
                  std::make_shared<DotGeneralAttributes>(std::move(attributes)));
    }
    const Op& op = *match_.definition(value);
    std::vector<Value> operands;
    for (const Value operand : op.operands) {
      if (match_.rank(operand) == 0) {
        operands.push_back(copier_[operand]);
      } else if (repeats_along_rows(operand)) {
        View view = match_.strip(match_.whole(operand));
        for (int64_t& axis : view.axes)
          if (axis >= 0) axis = static_cast<int64_t>(shape.size()) - 1;
        operands.push_back(spread_over(copier_, view, 0, wide));
      } else if (const Value x = unflattened(operand, shape)) {
        operands.push_back(copier_[x]);
      } else {
        operands.push_back(restored(operand, shape));
      }
    }
    return emit(op, std::move(operands), std::move(wide), op.attributes);
  }

  Value emit(const Op& op, std::vector<Value> operands, Dims shape, AttributesPtr attributes) {
    const Op now{op.primitive, {}, std::move(attributes), {}, {}, -1};
    const Type type{match_.type(op.results[0]).dtype, std::move(shape)};
    return build_.emit_copy(now, std::move(operands), {type}, copier_.location(op))[0];
  }

  const Matcher match_;
  Copier copier_;
  Builder& build_;
};

}  // namespace

Program unflatten_products(const Program& program) { return Unflattener(program).run(); }

}  // namespace transmuter::ir
