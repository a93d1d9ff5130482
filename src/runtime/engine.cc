#include "runtime/engine.h"

#include "ir/evaluate.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/split_weights.h"
#include "ir/passes/widen_halves.h"
#include "ir/primitive.h"

namespace transmuter::runtime {

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
      ready, [this](const ir::Program& p, const ir::Op& op) { return backend->takes_composite(p, op); });
  if (passes) {
    ready = ir::run_passes(ready, ir::standard_passes());
    const ir::SplitProgram split = ir::split_weights(ready);
    if (!split.prepared.empty()) ready = ir::with_prepared(split, ir::evaluate(split.prepare, {}, nullptr));
  }
  return ready;
}

std::unique_ptr<Executable> Engine::compile(const ir::Program& program,
                                            std::map<std::string, int64_t>* composites) const {
  return backend->compile(prepare(program, composites), options);
}

const std::shared_ptr<const Engine>& Engine::reference() {
  static const std::shared_ptr<const Engine> kEngine = [] {
    auto engine = std::make_shared<Engine>();
    engine->backend = Backend::get("reference");
    engine->passes = false;
    return engine;
  }();
  return kEngine;
}

}  // namespace transmuter::runtime
