// The types of a program's values, side by side in memory: binding reads most of them, and in the program each shape is
// an allocation of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/program.h"

namespace transmuter::cpu {

class ValueTypes {
 public:
  explicit ValueTypes(const ir::Program& program) {
    for (int32_t id = 0; id < program.value_count(); ++id) {
      const ir::Type& type = program.type({id});
      types_.push_back({static_cast<uint32_t>(dims_.size()), static_cast<uint32_t>(type.shape.size()), type.dtype});
      dims_.insert(dims_.end(), type.shape.begin(), type.shape.end());
    }
  }

  DType dtype(ir::Value v) const { return types_[static_cast<size_t>(v.id)].dtype; }
  std::span<const Dim> shape(ir::Value v) const {
    const Type& type = types_[static_cast<size_t>(v.id)];
    return {dims_.data() + type.first, type.rank};
  }

 private:
  struct Type {
    uint32_t first, rank;
    DType dtype;
  };
  std::vector<Type> types_;  // by value
  std::vector<Dim> dims_;
};

}  // namespace transmuter::cpu
