// Computes what is elementwise before values are repeated, not on the copies.
// Pattern:   elementwise ops of one value (and numbers), quantizations by one scale, below transposes and reshapes of a
//            broadcast; a reshape among them joins the repeated axis to another (keys and values repeated for the query
//            heads), so that no strides express it.
// Condition: nothing else reads what lies between.
// Gain:      the work is done once for each element, and a cache is read where it lies in place of a repeated copy.
#include <unordered_map>

#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

class Mover {
 public:
  explicit Mover(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) { return moved(op); });
  }

 private:
  // A value of the new program that is not repeated yet, and what repeats it: from the broadcast on.
  struct Repeated {
    Value value;
    std::vector<const Op*> moves;
  };

  bool is_elementwise(const Op& op) const {
    if (op.primitive != &composite::quantize_linear && op.primitive != &composite::dequantize_linear)
      return op.primitive->elementwise;
    const auto single = [&](Value v) { return match_.rank(v) == 0; };
    return std::all_of(op.operands.begin() + 1, op.operands.end(), single);
  }

  std::optional<Repeated> repeated(Value value) const {
    if (const auto found = repeated_.find(value.id); found != repeated_.end()) return found->second;
    Repeated result;
    bool joins = false;
    for (const Op* op = match_.definition(value); op; op = match_.definition(value)) {
      if (match_.uses(value) != 1) return {};
      result.moves.insert(result.moves.begin(), op);
      value = op->operands.empty() ? Value{} : op->operands[0];
      if (op->primitive == &prim::broadcast_in_dim) {
        if (!joins || match_.rank(value) == 0 || match_.number(value)) return {};
        result.value = copier_[value];
        return result;
      }
      if (op->primitive != &prim::transpose && op->primitive != &prim::reshape) return {};
      joins = joins || op->primitive == &prim::reshape;
    }
    return {};
  }

  Value moved(const Op& op) {
    if (!is_elementwise(op)) return {};
    const Value from = match_.only_operand(op);
    if (!from || match_.uses(from) != 1) return {};
    std::optional<Repeated> was = repeated(from);
    if (!was) return {};
    const Value source = was->value;
    const Dims shape = build_.shape(source);
    Value y = was->value = elementwise_over(match_, copier_, op, shape, [&](Value) { return source; });
    for (const Op* move : was->moves) y = moved_again(match_, build_, *move, y);
    repeated_.emplace(op.results[0].id, std::move(*was));
    return y;
  }

  const Matcher match_;
  Copier copier_;
  Builder& build_;
  std::unordered_map<int32_t, Repeated> repeated_;  // by result of the old program
};

}  // namespace

Program before_repeats(const Program& program) { return Mover(program).run(); }

}  // namespace transmuter::ir
