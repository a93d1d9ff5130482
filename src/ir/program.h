// The tensor IR: a Program is a list of ops in order over typed values, as StableHLO has them, with Dims for extents.
// Immutable once built (Builder::finish); passes return a new one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dim.h"
#include "transmuter/tensor.h"

namespace transmuter::ir {

struct Type {
  DType dtype = DType::invalid;
  Dims shape;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};
std::string to_string(const Type& type);  // "float32 [batch, 384]"

struct Value {
  int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
  friend bool operator==(Value, Value) = default;
};

// Reads the fields of an attribute struct by name: for printing, hashing and comparing.
class AttributeVisitor {
 public:
  virtual ~AttributeVisitor() = default;
  virtual void integer(const char* name, int64_t value) = 0;
  virtual void integers(const char* name, const std::vector<int64_t>& value) = 0;
  virtual void dims(const char* name, const Dims& value) = 0;
  virtual void real(const char* name, double value) = 0;
  virtual void text(const char* name, std::string_view value) = 0;
  virtual void tensor(const char* name, const Tensor& value) = 0;
  virtual void real_expression(const char* name, Real value) = 0;
};

// One plain struct per primitive derives from this (ir/primitives/*.h) and lists its fields in visit().
struct Attributes {
  virtual ~Attributes() = default;
  virtual void visit(AttributeVisitor& visitor) const = 0;
};
using AttributesPtr = std::shared_ptr<const Attributes>;

struct Primitive;
class Program;
using ProgramPtr = std::shared_ptr<const Program>;

struct Op {
  const Primitive* primitive = nullptr;
  std::vector<Value> operands;
  AttributesPtr attributes;  // null for primitives without any
  std::vector<Value> results;
  std::vector<ProgramPtr> regions;
  int32_t location = -1;  // index into Program::locations()

  template <class A>
  const A& as() const {
    return static_cast<const A&>(*attributes);
  }
};

struct Parameter {
  enum class Kind : uint8_t { input, weight };
  Kind kind;
  std::string name;
  Value value;
  Tensor weight;           // kind weight: the mapped bytes, possibly unaligned
  bool trainable = false;  // a weight that may change: never folded, never prepared
  bool prepared =
      false;  // made by a prepare program, not the model's own bytes: may be forgotten and its address taken again
};

class Program {
 public:
  const std::shared_ptr<ShapeScope>& scope() const { return scope_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Value>& results() const { return results_; }
  const std::vector<std::string>& result_names() const { return result_names_; }
  const Type& type(Value value) const { return types_[static_cast<size_t>(value.id)]; }
  int32_t value_count() const { return static_cast<int32_t>(types_.size()); }
  const std::vector<std::string>& locations() const { return locations_; }  // ONNX node labels
  // For the one who owns this copy and has laid the weight out elsewhere: its bytes are not held any longer.
  void forget_weight(size_t parameter) { parameters_[parameter].weight = {}; }

 private:
  friend class Builder;
  std::shared_ptr<ShapeScope> scope_;  // null: all extents are constants
  std::vector<Parameter> parameters_;
  std::vector<Op> ops_;
  std::deque<Type> types_;  // a deque: references to types and shapes stay valid while a builder adds ops
  std::vector<Value> results_;
  std::vector<std::string> result_names_;
  std::vector<std::string> locations_;
};

}  // namespace transmuter::ir
