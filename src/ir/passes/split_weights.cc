#include "ir/passes/split_weights.h"

#include <algorithm>
#include <map>

#include "ir/passes/attribute_record.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {

namespace {

bool is_view(const Primitive& p) {
  return &p == &prim::transpose || &p == &prim::reshape || &p == &prim::broadcast_in_dim || &p == &prim::slice;
}

constexpr size_t kRepeatLimit = 4 * 1024;

class Splitter {
 public:
  explicit Splitter(const Program& program) : program_(program), facts_(static_cast<size_t>(program.value_count())) {
    for (const Parameter& parameter : program.parameters())
      if (parameter.kind == Parameter::Kind::weight && !parameter.trainable)
        fact(parameter.value) = {
            .known = true, .fits = true, .is_root = true, .view = true, .roots = {parameter.value.id}};
    for (const Op& op : program.ops()) learn(op);
  }

  SplitProgram run() {
    choose();
    if (leave_what_grows()) choose();
    Copier prepare(program_, [&](const Parameter& p) { return p.kind == Parameter::Kind::weight && !p.trainable; });
    for (const Op& op : program_.ops())
      if (runs_before(op)) prepare.copy(op);
    SplitProgram out;
    out.prepare = dce(prepare.build().finish(prepare.mapped(chosen_)));
    out.main = main_program(out.prepared);
    return out;
  }

 private:
  struct Fact {
    bool known = false;    // depends on weights and constants alone
    bool fits = false;     // and is not larger than the weights it is made of
    bool is_root = false;  // a weight, or a constant: never worth preparing by itself
    bool view = false;     // the bytes of a root in another order or under another shape: backends read those in place
    std::vector<int32_t> roots;
  };
  Fact& fact(Value value) { return facts_[static_cast<size_t>(value.id)]; }

  size_t bytes(Value value) const {
    const Type& type = program_.type(value);
    return byte_size(type.dtype, element_count(hints(type.shape)));
  }

  // A matrix of eight bits is worth more as it is: products take it so.
  bool widens_bytes(Value result, const std::vector<int32_t>& roots) const {
    const int width = bit_width(program_.type(result).dtype);
    return std::any_of(roots.begin(), roots.end(), [&](int32_t root) {
      const Type& type = program_.type({root});
      return type.rank() > 1 && bit_width(type.dtype) <= 8 && width > 8;
    });
  }

  bool runs_before(const Op& op) { return fact(op.results[0]).known; }

  void learn(const Op& op) {
    bool known = op.regions.empty() && !op.results.empty();
    for (Value operand : op.operands) known = known && fact(operand).known;
    for (Value result : op.results) known = known && all_constant(program_.type(result).shape);
    if (!known) return;
    if (!all_constant(AttributeRecord(op.attributes.get()))) return;
    std::vector<int32_t> roots;
    for (Value operand : op.operands) roots.insert(roots.end(), fact(operand).roots.begin(), fact(operand).roots.end());
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    size_t from = 0;
    for (int32_t root : roots) from += bytes({root});
    for (Value result : op.results) {
      bool fits = bytes(result) <= (widens_bytes(result, roots) ? from : std::max(from, kFoldLimit));
      // What repeats is cheaper to say than to hold.
      if (op.primitive == &prim::broadcast_in_dim && bytes(result) > kRepeatLimit) fits = bytes(result) <= from;
      const bool root = op.primitive == &prim::constant;
      const bool view = root || (is_view(*op.primitive) && fact(op.operands[0]).view);
      fact(result) = {.known = true, .fits = fits, .is_root = root, .view = view, .roots = roots};
    }
  }

  // From the end: main needs a value; it is prepared if that pays, else its op runs in main and needs its operands.
  void choose() {
    main_ops_.assign(program_.ops().size(), false);
    chosen_.clear();
    std::vector<bool> needed(facts_.size());
    for (Value result : program_.results()) needed[static_cast<size_t>(result.id)] = true;
    for (size_t i = program_.ops().size(); i-- > 0;) {
      const Op& op = program_.ops()[i];
      std::vector<Value> wanted;
      for (Value result : op.results)
        if (needed[static_cast<size_t>(result.id)]) wanted.push_back(result);
      bool before = runs_before(op);
      if (before && wanted.empty()) continue;
      if (before && std::all_of(wanted.begin(), wanted.end(),
                                [&](Value v) { return fact(v).fits && !fact(v).view && !fact(v).roots.empty(); })) {
        chosen_.insert(chosen_.end(), wanted.begin(), wanted.end());
        continue;
      }
      main_ops_[i] = true;
      for (Value operand : op.operands) needed[static_cast<size_t>(operand.id)] = true;
    }
    for (const Parameter& parameter : program_.parameters())
      unneeded_[static_cast<size_t>(parameter.value.id)] = !needed[static_cast<size_t>(parameter.value.id)];
    std::reverse(chosen_.begin(), chosen_.end());
  }

  // Results that each fit may grow together: the two halves of packed codes take twice their bytes. Those stay where
  // they are read. True if there were any.
  bool leave_what_grows() {
    std::map<std::vector<int32_t>, size_t> sums;
    for (const Value value : chosen_) sums[fact(value).roots] += bytes(value);
    bool found = false;
    for (const Value value : chosen_) {
      size_t from = 0;
      for (const int32_t root : fact(value).roots) from += bytes({root});
      if (bytes(value) <= kFoldLimit || sums[fact(value).roots] <= std::max(from, kFoldLimit)) continue;
      fact(value).fits = false;
      found = true;
    }
    return found;
  }

  Program main_program(std::vector<size_t>& prepared) {
    size_t count = 0;
    Copier main(program_, [&](const Parameter& p) {
      bool keep = p.kind == Parameter::Kind::input || p.trainable ||
                  (fact(p.value).is_root && !unneeded_[static_cast<size_t>(p.value.id)]);
      count += keep;
      return keep;
    });
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const Type& type = program_.type(chosen_[i]);
      main.set(chosen_[i], main.build().prepared_weight(type, str("prepared.", i)));
      prepared.push_back(count++);
    }
    for (size_t i = 0; i < main_ops_.size(); ++i)
      if (main_ops_[i]) main.copy(program_.ops()[i]);
    return main.finish();
  }

  const Program& program_;
  std::vector<Fact> facts_;
  std::vector<bool> main_ops_;
  std::vector<bool> unneeded_ = std::vector<bool>(facts_.size());  // parameters that main does not read
  std::vector<Value> chosen_;
};

}  // namespace

SplitProgram split_weights(const Program& program) { return Splitter(program).run(); }

Program with_prepared(SplitProgram split, std::vector<Tensor> results) {
  if (results.size() != split.prepared.size())
    throw Error(ErrorCode::internal, "prepare gave another number of results");
  return Builder::with_weights(std::move(split.main), split.prepared, std::move(results));
}

}  // namespace transmuter::ir
