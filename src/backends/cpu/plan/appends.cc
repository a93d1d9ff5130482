#include "backends/cpu/plan/appends.h"

#include <algorithm>

#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {

std::vector<Append> find_appends(const ir::Program& program) {
  std::vector<int> result_count(static_cast<size_t>(program.value_count()));
  std::vector<bool> is_input(result_count.size());
  for (ir::Value v : program.results()) ++result_count[static_cast<size_t>(v.id)];
  for (const ir::Parameter& p : program.parameters())
    is_input[static_cast<size_t>(p.value.id)] = p.kind == ir::Parameter::Kind::input;
  std::vector<Append> appends;
  for (const ir::Op& op : program.ops()) {
    if (op.primitive != &ir::prim::concatenate || op.operands.size() != 2) continue;
    const ir::Value past = op.operands[0], present = op.results[0];
    if (!is_input[static_cast<size_t>(past.id)] || result_count[static_cast<size_t>(present.id)] != 1) continue;
    if (is_packed(program.type(past).dtype) || op.operands[1] == past) continue;
    const bool taken = std::any_of(appends.begin(), appends.end(), [&](const Append& a) { return a.past == past; });
    if (!taken) appends.push_back({&op, past, present, op.as<ir::AxisAttributes>().axis});
  }
  return appends;
}

}  // namespace transmuter::cpu
