// Moves activations up to the product or convolution whose result they are of.
// Pattern:   an elementwise op of one value (and numbers) below transposes and reshapes of a product or convolution,
//            perhaps with a bias added.
// Condition: nothing else reads what lies between.
// Gain:      the product takes the activation into its epilogue; the moves cost what they did.
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

class Hoister {
 public:
  explicit Hoister(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) { return hoisted(op); });
  }

 private:
  bool is_product(Value value) const {
    return match_.defined_by(value, prim::dot_general) || match_.defined_by(value, prim::convolution);
  }
  // A product, or the sum of one that nothing else reads and something that repeats.
  bool is_product_with_bias(Value value) const {
    if (is_product(value)) return true;
    const Op* sum = match_.defined_by(value, prim::add);
    for (size_t i = 0; sum && i < 2; ++i)
      if (is_product(sum->operands[i]) && match_.uses(sum->operands[i]) == 1 &&
          match_.defined_by(sum->operands[1 - i], prim::broadcast_in_dim)) {
        return true;
      }
    return false;
  }

  Value hoisted(const Op& op) {
    if (!op.primitive->elementwise || op.primitive == &prim::convert) return {};
    const Value from = match_.only_operand(op);
    if (!from) return {};
    std::vector<const Op*> moves;  // from the op up to the product
    Value value = from;
    for (const Op* move = match_.definition(value);
         move && (move->primitive == &prim::transpose || move->primitive == &prim::reshape);
         move = match_.definition(value)) {
      if (match_.uses(value) != 1) return {};
      moves.push_back(move);
      value = move->operands[0];
    }
    if (moves.empty() || match_.uses(value) != 1 || !is_product_with_bias(value)) return {};
    Value y = elementwise_over(match_, copier_, op, match_.shape(value), [&](Value) { return copier_[value]; });
    for (size_t i = moves.size(); i-- > 0;) y = moved_again(match_, build_, *moves[i], y);
    return y;
  }

  const Matcher match_;
  Copier copier_;
  Builder& build_;
};

}  // namespace

Program hoist_activations(const Program& program) { return Hoister(program).run(); }

}  // namespace transmuter::ir
