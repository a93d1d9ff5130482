#include "backends/cpu/plan/appends.h"

#include <algorithm>

#include "ir/composites/write_rows.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class Finder {
 public:
  explicit Finder(const ir::Program& program)
      : program_(program),
        results_(static_cast<size_t>(program.value_count())),
        reads_(results_.size()),
        is_input_(results_.size()),
        defined_(results_.size()) {
    for (ir::Value v : program.results()) ++results_[index(v)];
    for (const ir::Parameter& p : program.parameters())
      is_input_[index(p.value)] = p.kind == ir::Parameter::Kind::input;
    for (const ir::Op& op : program.ops()) {
      for (ir::Value v : op.operands) ++reads_[index(v)];
      for (ir::Value v : op.results) defined_[index(v)] = &op;
    }
  }

  bool find(const ir::Op& op, Append& append) const {
    const bool grows = op.primitive == &ir::prim::concatenate && op.operands.size() == 2;
    const bool rows = op.primitive == &ir::composite::write_rows;
    if (!grows && !rows && op.primitive != &ir::prim::dynamic_update_slice) return false;
    append.op = &op;
    append.zeros = nullptr;
    append.past = op.operands[0];
    append.present = op.results[0];
    if (!is_input_[index(append.past)] || results_[index(append.present)] != 1) return false;
    if (is_packed(program_.type(append.past).dtype) || op.operands[1] == append.past) return false;
    append.kind = grows ? Append::Kind::grow : rows ? Append::Kind::write_rows : Append::Kind::write;
    if (grows) append.axis = op.as<ir::AxisAttributes>().axis;
    if (rows) append.axis = op.as<ir::WriteRowsAttributes>().axis;
    if (grows) return true;
    // What is overwritten must not be wanted any more.
    if (reads_[index(append.past)] != 1 || results_[index(append.past)] != 0) return false;
    return rows || find_window(op, append);
  }

 private:
  static size_t index(ir::Value v) { return static_cast<size_t>(v.id); }

  // One axis is where the window moves.
  bool find_window(const ir::Op& op, Append& append) const {
    const Dims &shape = program_.type(append.past).shape, &window = program_.type(op.operands[1]).shape;
    if (shape.empty()) return false;
    append.axis = -1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (provably_eq(shape[i], window[i])) continue;
      if (append.axis >= 0) return false;
      append.axis = static_cast<int64_t>(i);
    }
    if (const ir::Op* pad = defined_[index(op.operands[1])]; pad && zeros_behind(*pad, append.axis)) append.zeros = pad;
    if (append.zeros && append.axis < 0) append.axis = behind(*append.zeros);
    return append.axis >= 0;
  }

  // The only axis with anything added behind; -1: several, or something before or between.
  static int64_t behind(const ir::Op& pad) {
    const auto& a = pad.as<ir::PadAttributes>();
    int64_t axis = -1;
    for (size_t i = 0; i < a.high.size(); ++i) {
      if (!provably_eq(a.low[i], 0) || !provably_eq(a.interior[i], 0)) return -1;
      if (provably_eq(a.high[i], 0)) continue;
      if (axis >= 0) return -1;
      axis = static_cast<int64_t>(i);
    }
    return axis;
  }

  bool zeros_behind(const ir::Op& pad, int64_t axis) const {
    if (pad.primitive != &ir::prim::pad || reads_[index(pad.results[0])] != 1 || results_[index(pad.results[0])] != 0)
      return false;
    const ir::Op* fill = defined_[index(pad.operands[1])];
    if (!fill || fill->primitive != &ir::prim::constant) return false;
    const Tensor& value = fill->as<ir::ConstantAttributes>().value;
    const int64_t found = behind(pad);
    return found >= 0 && (axis < 0 || found == axis) &&
           std::all_of(value.bytes(), value.bytes() + value.nbytes(), [](std::byte b) { return b == std::byte{0}; });
  }

  const ir::Program& program_;
  std::vector<int> results_, reads_;
  std::vector<bool> is_input_;
  std::vector<const ir::Op*> defined_;
};

}  // namespace

std::vector<Append> find_appends(const ir::Program& program) {
  const Finder finder(program);
  std::vector<Append> appends;
  for (const ir::Op& op : program.ops()) {
    Append found;
    if (!finder.find(op, found)) continue;
    const auto same = [&](const Append& a) { return a.past == found.past; };
    if (std::none_of(appends.begin(), appends.end(), same)) appends.push_back(found);
  }
  return appends;
}

}  // namespace transmuter::cpu
