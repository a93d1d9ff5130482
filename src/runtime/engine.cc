#include "runtime/engine.h"

#include <cstring>
#include <utility>

#include "backends/weight_store.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/memory.h"
#include "base/strings.h"
#include "ir/evaluate.h"
#include "ir/passes/attribute_record.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/split_weights.h"
#include "ir/passes/widen_halves.h"
#include "ir/primitive.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"
#include "telemetry/span.h"

namespace transmuter::runtime {
namespace {

// What one trace prepared serves the others, and other compiled models of the model: the same bytes lie in one place,
// and so does what a backend makes of them.
Tensor kept_once(Tensor made, WeightStore& store) {
  if (made.dtype() == DType::string || made.nbytes() == 0) return made;
  const std::string key =
      str("prepared ", name(made.dtype()), " ", made.shape(), " ", hash_of(made.bytes(), made.nbytes()));
  const auto kept = store.get<Tensor>(key, [&] { return std::make_shared<const Tensor>(made); });
  if (std::memcmp(kept->bytes(), made.bytes(), made.nbytes()) != 0) return made;  // the hash says too little
  return Tensor::view(made.dtype(), made.shape(), kept->bytes(), kept);
}

// What a program of weights computes. Traces of one model mostly have the same one: it runs once, and reads the
// weights' files once.
struct Prepared {
  std::vector<Tensor> results, weights;
};

// Says all that the results depend on; "": strings do.
std::string key_of(const ir::Program& program) {
  std::string key = "prepared by";
  for (const ir::Parameter& p : program.parameters())
    key += str(" ", p.value.id, ":", name(p.weight.dtype()), p.weight.shape(), "@",
               reinterpret_cast<uintptr_t>(p.weight.bytes()));
  for (const ir::Op& op : program.ops()) {
    key += str("; ", op.primitive->name);
    for (const ir::Value v : op.operands) key += str(" ", v.id);
    key += str(" ->", ir::attribute_text(op.attributes.get()));
    for (const ir::Value v : op.results) key += str(" ", v.id, ":", to_string(program.type(v)));
    if (op.primitive != &ir::prim::constant) continue;
    const Tensor& value = op.as<ir::ConstantAttributes>().value;
    if (value.dtype() == DType::string) return "";
    key += str(" =", hash_of(value.bytes(), value.nbytes()));
  }
  for (const ir::Value v : program.results()) key += str(" ", v.id);
  return key;
}

std::vector<Tensor> prepared_once(const ir::Program& program, WeightStore& store) {
  const auto make = [&] {
    auto made = std::make_shared<Prepared>();
    made->results = ir::evaluate(program, {}, nullptr);
    for (Tensor& tensor : made->results) tensor = kept_once(std::move(tensor), store);
    for (const ir::Parameter& p : program.parameters()) {
      made->weights.push_back(p.weight);
      if (p.weight.dtype() != DType::string) release_pages(p.weight.bytes(), p.weight.nbytes());
    }
    return std::shared_ptr<const Prepared>(std::move(made));
  };
  const std::string key = key_of(program);
  const auto all = key.empty() ? make() : store.get<Prepared>(key, make);
  std::vector<Tensor> results = all->results;
  for (Tensor& tensor : results)
    if (tensor.dtype() != DType::string) tensor = Tensor::view(tensor.dtype(), tensor.shape(), tensor.bytes(), all);
  return results;
}

}  // namespace

ir::Program Engine::prepare(const ir::Program& program, std::map<std::string, int64_t>* composites) const {
  ir::Program ready = widen ? ir::widen_halves(program) : program;
  if (passes) {
    ready = ir::run_passes(ready, ir::standard_passes());
    ready = ir::run_passes(ready, ir::raising_passes());
  }
  if (composites) {
    for (const ir::Op& op : ready.ops()) {
      if (op.primitive->decompose) ++(*composites)[op.primitive->name];
    }
  }
  ready = ir::inline_composites(
      std::move(ready), [this](const ir::Program& p, const ir::Op& op) { return backend->takes_composite(p, op); });
  if (passes) {
    ready = ir::run_passes(ready, ir::standard_passes());
    ir::SplitProgram split = ir::split_weights(ready);
    if (!split.prepared.empty()) {
      std::vector<Tensor> prepared =
          options.weights ? prepared_once(split.prepare, *options.weights) : ir::evaluate(split.prepare, {}, nullptr);
      ready = ir::with_prepared(std::move(split), std::move(prepared));
    }
  }
  return ready;
}

std::unique_ptr<Executable> Engine::compile(const ir::Program& program, size_t segment,
                                            std::map<std::string, int64_t>* composites) const {
  telemetry::Span span(telemetry::Kind::compile);
  const ir::Program ready = prepare(program, composites);
  std::unique_ptr<Executable> made = backend->compile(ready, options);
  RunCounters::add(state->counters.compiles);
  give_back_free_memory();  // what tracing and packing took
  if (span) {
    span.add("segment", segment);
    span.add("ops", ready.ops().size());
    span.add("backend", backend->name());
    span.add("steps", made->stats().steps);
  }
  return made;
}

}  // namespace transmuter::runtime
