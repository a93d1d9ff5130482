// What passes are written with: copies a program into a new one, op by op, while the pass replaces some of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace transmuter::ir {

class Copier {
 public:
  // Makes the program's scope current while it lives, and copies the parameters (those that `keep` accepts).
  explicit Copier(const Program& from, const std::function<bool(const Parameter&)>& keep = {});
  // The same in another scope, of the same tag (scope_copy.h).
  Copier(const Program& from, const std::function<bool(const Parameter&)>& keep, std::shared_ptr<ShapeScope> scope);

  Builder& build() { return build_; }
  const Program& from() const { return from_; }
  // The new value of an old one.
  Value operator[](Value old) const { return map_[static_cast<size_t>(old.id)]; }
  void set(Value old, Value now) { map_[static_cast<size_t>(old.id)] = now; }
  std::vector<Value> mapped(const std::vector<Value>& old) const;
  const std::string& location(const Op& op) const;
  // Later ops of the builder come from where `op` came from.
  void locate(const Op& op);
  // Copies an op as it is, or with other regions.
  void copy(const Op& op);
  void copy(const Op& op, std::vector<ProgramPtr> regions);
  Program finish();

 private:
  const Program& from_;
  std::optional<ShapeScope::Enter> enter_;
  Builder build_;
  std::vector<Value> map_;
  std::vector<Type> types_;  // of the op being copied
  int32_t located_ = -1;     // where the builder's ops come from, as an index into from_'s locations
};

// The op's regions as `change(region)` makes them.
template <class Change>
std::vector<ProgramPtr> changed_regions(const Op& op, const Change& change) {
  std::vector<ProgramPtr> regions;
  regions.reserve(op.regions.size());
  for (const ProgramPtr& region : op.regions) regions.push_back(std::make_shared<const Program>(change(*region)));
  return regions;
}

}  // namespace transmuter::ir
