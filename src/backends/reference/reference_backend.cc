#include "backends/reference/reference_backend.h"

#include "ir/evaluate.h"
#include "ir/primitive.h"

namespace transmuter {
namespace {

class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(const ir::Program& program) : program_(program) {}

  std::vector<Buffer> run(std::span<Buffer> inputs, Bindings& bindings) const override {
    std::vector<Tensor> tensors;
    tensors.reserve(inputs.size());
    for (const Buffer& input : inputs) tensors.push_back(input.host);
    std::vector<Buffer> results;
    for (Tensor& result : ir::evaluate(program_, tensors, &bindings)) results.push_back({.host = std::move(result)});
    return results;
  }
  ExecutableStats stats() const override { return {.steps = program_.ops().size()}; }

 private:
  ir::Program program_;
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  Capabilities capabilities() const override {
    return {.symbolic_shapes = true, .data_dependent_extents = true, .host_memory = true};
  }
  bool takes_composite(const ir::Program&, const ir::Op& op) const override {
    return op.primitive->evaluate != nullptr;
  }
  Buffer upload(const Tensor& tensor) const override { return {.host = tensor}; }
  Tensor download(const Buffer& buffer) const override { return buffer.host; }
  std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions&) const override {
    return std::make_unique<ReferenceExecutable>(program);
  }
};

}  // namespace

std::shared_ptr<Backend> make_reference_backend() { return std::make_shared<ReferenceBackend>(); }

}  // namespace transmuter
