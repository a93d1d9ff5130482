#include "runtime/engine.h"

#include <cstring>
#include <utility>

#include "backends/weight_store.h"
#include "base/hash.h"
#include "base/strings.h"
#include "ir/evaluate.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/split_weights.h"
#include "ir/passes/widen_halves.h"
#include "ir/primitive.h"
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
      std::vector<Tensor> prepared = ir::evaluate(split.prepare, {}, nullptr);
      if (options.weights)
        for (Tensor& tensor : prepared) tensor = kept_once(std::move(tensor), *options.weights);
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
  if (span) {
    span.add("segment", segment);
    span.add("ops", ready.ops().size());
    span.add("backend", backend->name());
    span.add("steps", made->stats().steps);
  }
  return made;
}

}  // namespace transmuter::runtime
