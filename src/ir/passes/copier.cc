#include "ir/passes/copier.h"

namespace transmuter::ir {

Copier::Copier(const Program& from, const std::function<bool(const Parameter&)>& keep)
    : Copier(from, keep, from.scope()) {}

Copier::Copier(const Program& from, const std::function<bool(const Parameter&)>& keep,
               std::shared_ptr<ShapeScope> scope)
    : from_(from), build_(scope), map_(static_cast<size_t>(from.value_count())) {
  if (scope) enter_.emplace(std::move(scope));
  for (const Parameter& parameter : from.parameters()) {
    if (keep && !keep(parameter)) continue;
    const Type& type = from.type(parameter.value);
    Value value;
    if (parameter.kind == Parameter::Kind::input)
      value = build_.input(type, parameter.name);
    else if (parameter.weight)
      value = build_.weight(parameter.weight, parameter.name, parameter.trainable);
    else
      value = build_.prepared_weight(type, parameter.name);
    set(parameter.value, value);
  }
}

std::vector<Value> Copier::mapped(const std::vector<Value>& old) const {
  std::vector<Value> now;
  now.reserve(old.size());
  for (Value value : old) now.push_back((*this)[value]);
  return now;
}

const std::string& Copier::location(const Op& op) const {
  static const std::string kNowhere;
  return op.location < 0 ? kNowhere : from_.locations()[static_cast<size_t>(op.location)];
}

void Copier::locate(const Op& op) {
  if (op.location == located_) return;
  build_.set_location(location(op));
  located_ = op.location;
}

void Copier::copy(const Op& op) {
  types_.resize(op.results.size());  // the shapes keep their memory
  for (size_t i = 0; i < types_.size(); ++i) types_[i] = from_.type(op.results[i]);
  const std::vector<Value> results = build_.emit_copy(op, mapped(op.operands), types_, location(op));
  located_ = op.location;
  for (size_t i = 0; i < results.size(); ++i) set(op.results[i], results[i]);
}

void Copier::copy(const Op& op, std::vector<ProgramPtr> regions) {
  if (op.regions.empty()) return copy(op);
  Op changed = op;
  changed.regions = std::move(regions);
  copy(changed);
}

Program Copier::finish() { return build_.finish(mapped(from_.results()), from_.result_names()); }

}  // namespace transmuter::ir
