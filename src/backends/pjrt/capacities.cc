#include "backends/pjrt/capacities.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "ir/passes/attribute_record.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::pjrt {

using ir::Op;
using ir::Program;

namespace {

// 1, 2, 3, 4, 6, 8, 12, ...: at most half of it is room.
int64_t with_room(int64_t extent, int64_t least) {
  int64_t room = 1;
  while (room < std::max(extent, least)) room = room < 2 ? 2 : (room & (room - 1)) == 0 ? room / 2 * 3 : room / 3 * 4;
  return room;
}

}  // namespace

Capacities::Capacities(const Program& program, std::vector<int32_t> symbols, int64_t least)
    : symbols_(std::move(symbols)), least_(least), scope_(program.scope()) {
  add_all(program);
}

bool Capacities::varies(int32_t symbol) const {
  return std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end();
}

bool Capacities::depends(Dim dim) const {
  if (dim.is_constant()) return false;
  const auto [it, is_new] = depends_.emplace(dim.expr(), false);
  if (is_new) {
    for (const int32_t symbol : scope_->symbols_of(dim.expr())) it->second = it->second || varies(symbol);
  }
  return it->second;
}

bool Capacities::depends(const Dims& dims) const {
  return std::any_of(dims.begin(), dims.end(), [&](Dim dim) { return depends(dim); });
}

bool Capacities::depends(const Op& op) const {
  if (op.attributes) {
    const ir::AttributeRecord record(op.attributes.get());
    if (depends(record.dims)) return true;
    for (const Real& real : record.reals)
      if (!real.is_constant() && depends(Dim(0, real.expr(), real.scope_tag()))) return true;
  }
  for (const ir::ProgramPtr& region : op.regions) {
    for (int32_t id = 0; id < region->value_count(); ++id)
      if (depends(region->type(ir::Value{id}).shape)) return true;
    for (const Op& inner : region->ops())
      if (depends(inner)) return true;
  }
  return false;
}

void Capacities::add(Dim dim, bool is_extent) {
  if (!depends(dim)) return;
  if (positions_.emplace(dim.expr(), static_cast<int64_t>(sizes_.size())).second) sizes_.push_back(dim);
  if (!is_extent || classes_.contains(dim.expr())) return;
  for (size_t i = 0; i < largest_.size(); ++i) {
    const Dim more = dim - largest_[i];
    if (!more.is_constant()) continue;
    classes_[dim.expr()] = i;
    if (more.hint() > 0) largest_[i] = dim;
    return;
  }
  classes_[dim.expr()] = largest_.size();
  largest_.push_back(dim);
}

void Capacities::add_all(const Program& program) {
  for (int32_t id = 0; id < program.value_count(); ++id)
    for (const Dim dim : program.type(ir::Value{id}).shape) add(dim, true);
  for (const Op& op : program.ops())
    if (op.attributes)
      for (const Dim dim : ir::AttributeRecord(op.attributes.get()).dims) add(dim, false);
}

std::vector<int64_t> Capacities::rooms(Bindings& bindings) const {
  std::vector<int64_t> rooms;
  for (const Dim dim : largest_) rooms.push_back(with_room(bindings.evaluate(dim), least_));
  return rooms;
}

Dim Capacities::room(Dim dim, const std::vector<int64_t>& rooms) const {
  return depends(dim) ? Dim(rooms[classes_.at(dim.expr())]) : dim;
}

Dims Capacities::room(const Dims& dims, const std::vector<int64_t>& rooms) const {
  Dims out;
  for (const Dim dim : dims) out.push_back(room(dim, rooms));
  return out;
}

int64_t Capacities::position(Dim dim) const { return positions_.at(dim.expr()); }

std::vector<int32_t> varying_symbols(const std::vector<ir::Type>& inputs, const ShapeScope& scope) {
  std::set<int32_t> varying, fixed;
  for (const ir::Type& type : inputs) {
    for (size_t axis = 0; axis < type.shape.size(); ++axis) {
      std::set<int32_t>& symbols = axis == 0 && type.shape.size() > 1 ? fixed : varying;
      if (!type.shape[axis].is_constant())
        for (const int32_t symbol : scope.symbols_of(type.shape[axis].expr())) symbols.insert(symbol);
    }
  }
  std::vector<int32_t> out;
  std::set_difference(varying.begin(), varying.end(), fixed.begin(), fixed.end(), std::back_inserter(out));
  return out;
}

bool appends_to_inputs(const Program& program) {
  std::set<int32_t> inputs, results;
  for (const ir::Parameter& parameter : program.parameters())
    if (parameter.kind == ir::Parameter::Kind::input) inputs.insert(parameter.value.id);
  for (const ir::Value result : program.results()) results.insert(result.id);
  return std::any_of(program.ops().begin(), program.ops().end(), [&](const Op& op) {
    if (op.primitive != &ir::prim::concatenate || !inputs.contains(op.operands[0].id)) return false;
    const size_t axis = static_cast<size_t>(op.as<ir::AxisAttributes>().axis);
    return results.contains(op.results[0].id) && !program.type(op.operands[0]).shape[axis].is_constant();
  });
}

}  // namespace transmuter::pjrt
