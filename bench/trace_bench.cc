// What happens before and between the kernels: reading a model, tracing it, the passes, the plan, binding a plan to new
// sizes, and the steps of a call. CPU time of one thread.
//   trace_bench [--rounds N] [--sizes N] MODEL...
// MODEL: an ONNX file with extents, "model.onnx:batch_size=1,sequence_length=16" (each further size is one longer), or
// a case folder, whose data sets are the sizes. Columns, in ms: read; trace, passes (both also in us a node); plan:
// kernels chosen, weights packed already; pack: the same with the packing; in us: bind, the first plan; rebind, one for
// other sizes; guards, finding out that a trace fits; call, one run for sizes seen before, with all its kernels; a
// step, the same by the number of steps. Behind a slash: how many times memory was asked for.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backends/weight_store.h"
#include "bench.h"
#include "inputs.h"
#include "onnx/graph.h"
#include "runtime/execute.h"
#include "runtime/tracer.h"

namespace transmuter::bench {
namespace {

namespace fs = std::filesystem;

struct Cost {
  double ms = 1e30;
  int64_t allocations = 0;
};

template <class Fn>
void measure(Cost& cost, const Fn& fn) {
  const int64_t asked = allocations();
  const double start = seconds(false);
  fn();
  cost.ms = std::min(cost.ms, (seconds(false) - start) * 1e3);
  cost.allocations = allocations() - asked;
}

std::vector<Value> by_position(const onnx::Graph& graph, const TensorMap& given) {
  std::vector<Value> values(graph.inputs.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (auto found = given.find(graph.inputs[i].name); found != given.end()) values[i] = found->second;
  }
  return values;
}

// The inputs of several calls, each of other sizes.
std::vector<TensorMap> calls(const Model& model, const std::string& path, const std::string& extents,
                             int64_t sizes_tried) {
  std::vector<TensorMap> inputs;
  if (fs::is_directory(path)) {
    for (int i = 0; fs::is_directory(path + "/test_data_set_" + std::to_string(i)); ++i)
      inputs.push_back(cli::read_data_set(model, path + "/test_data_set_" + std::to_string(i)));
    return inputs;
  }
  std::vector<std::string> pairs;
  for (size_t at = 0; at < extents.size();) {
    const size_t end = std::min(extents.find(',', at), extents.size());
    pairs.push_back(extents.substr(at, end - at));
    at = end + 1;
  }
  std::map<std::string, int64_t> sizes = cli::parse_extents(pairs);
  for (int64_t longer = 0; longer < std::min<int64_t>(sizes_tried, 40); ++longer) {
    inputs.push_back(
        cli::generated_inputs(model, sizes, std::max<int64_t>(1, model.metadata_integer("vocab_size", 100))));
    for (auto& [name, size] : sizes) size += size > 1 && name != "batch_size";  // 1 has a trace of its own
  }
  return inputs;
}

ExecutableStats stats_of(const runtime::Trace& trace) {
  ExecutableStats total;
  for (const auto& step : trace.steps) {
    const auto* segment = std::get_if<runtime::Segment>(&step);
    if (!segment) continue;
    const ExecutableStats stats = segment->executable->stats();
    total.steps += stats.steps;
    total.plan_ms += stats.plan_ms;
  }
  return total;
}

void bench_model(const std::string& argument, int rounds, int sizes) {
  const size_t colon = argument.find(':');
  const std::string path = argument.substr(0, colon);
  const std::string extents = colon == std::string::npos ? "" : argument.substr(colon + 1);
  const std::string file = fs::is_directory(path) ? path + "/model.onnx" : path;
  const Model model = Model::load(file);
  onnx::Model read;
  Cost reading, tracing, passing, planning, packing, guarding, calling;
  for (int i = 0; i < rounds; ++i) {
    measure(reading, [&] { read = onnx::read_model(file); });
  }
  const auto sized = calls(model, path, extents, sizes);
  auto engine = std::make_shared<runtime::Engine>();
  engine->backend = Backend::get("cpu");
  engine->options.threads = 1;
  engine->widen = true;
  engine->options.weights = std::make_shared<WeightStore>();
  runtime::TraceOptions options;
  options.engine = engine;
  std::unique_ptr<runtime::Trace> trace, held;  // `held` keeps the packed weights
  const std::vector<Value> first = by_position(read.graph, sized.front());
  size_t ops = 0;
  for (int i = 0; i < rounds + 1; ++i) {
    held = std::move(trace);
    measure(tracing, [&] { trace = runtime::Tracer(read.graph, options).trace(first); });
    std::vector<std::pair<runtime::Segment*, ir::Program>> programs;
    const ShapeScope::Enter enter(trace->scope);
    ops = 0;
    measure(passing, [&] {
      for (auto& step : trace->steps) {
        auto* segment = std::get_if<runtime::Segment>(&step);
        if (segment && !segment->executable) programs.emplace_back(segment, engine->prepare(*segment->program));
      }
    });
    for (const auto& [segment, program] : programs) ops += program.ops().size();
    measure(i == 0 ? packing : planning, [&] {
      for (auto& [segment, program] : programs)
        segment->executable = engine->backend->compile(program, engine->options);
    });
  }
  held.reset();
  Cost binding, rebinding;
  for (int call = 0; call < std::max(sizes, static_cast<int>(sized.size())); ++call) {
    const std::vector<Value> inputs = by_position(read.graph, sized[static_cast<size_t>(call) % sized.size()]);
    const auto fits = [&](Bindings& bindings) {
      runtime::bind_symbols(*trace->scope, inputs, bindings);
      return bindings.guards_hold();
    };
    Bindings bindings(trace->scope);
    if (!fits(bindings)) continue;
    const auto run_and_bind = [&](Cost& binding, bool forget) {
      Bindings bindings(trace->scope);  // as a call has them: nothing is evaluated yet
      if (!fits(bindings)) return;
      for (const auto& step : trace->steps) {
        if (const auto* segment = std::get_if<runtime::Segment>(&step); segment && forget) segment->executable->trim();
      }
      const double before = stats_of(*trace).plan_ms;
      const int64_t asked = allocations();
      std::vector<Value> slots = inputs;
      runtime::run_trace(*trace, slots, *engine->backend, bindings, runtime::RunContext{});
      const int64_t taken = allocations() - asked;
      const double took = stats_of(*trace).plan_ms - before;
      if (took <= 0) return;  // there was a plan
      binding.ms = std::min(binding.ms, took);
      binding.allocations = taken;
    };
    if (call > 0) run_and_bind(rebinding, false);
    if (call > 0) continue;
    for (int i = 0; i < 5 * rounds; ++i) run_and_bind(binding, true);
    const double start = seconds(false);
    for (int i = 0; i < 2 * rounds && seconds(false) - start < 0.3; ++i) {
      measure(guarding, [&] {
        Bindings again(trace->scope);
        fits(again);
      });
      measure(calling, [&] {
        Bindings again(trace->scope);
        fits(again);
        std::vector<Value> slots = inputs;
        runtime::run_trace(*trace, slots, *engine->backend, again, runtime::RunContext{});
      });
    }
  }
  binding.allocations -= calling.allocations;
  if (rebinding.allocations > 0) rebinding.allocations -= calling.allocations;
  const double nodes = static_cast<double>(read.graph.nodes.size());
  const size_t steps = std::max<size_t>(1, stats_of(*trace).steps);
  std::printf(
      "%-28s %5zu nodes %5zu ops %5zu steps  read %7.2f  trace %7.2f (%5.1f us/%3.0f)  passes %7.2f (%5.1f us/%3.0f)  "
      "plan %6.2f  pack %7.2f  bind %7.1f us/%5ld  rebind %7.1f us/%5ld  guards %6.2f us/%3ld  call %9.1f us/%5ld  "
      "step %6.2f us\n",
      fs::path(path).stem().string().c_str(), read.graph.nodes.size(), ops, steps, reading.ms, tracing.ms,
      1e3 * tracing.ms / nodes, static_cast<double>(tracing.allocations) / nodes, passing.ms, 1e3 * passing.ms / nodes,
      static_cast<double>(passing.allocations) / nodes, planning.ms, packing.ms, 1e3 * binding.ms,
      static_cast<long>(binding.allocations), rebinding.ms < 1e30 ? 1e3 * rebinding.ms : 0.0,
      static_cast<long>(rebinding.allocations), 1e3 * guarding.ms, static_cast<long>(guarding.allocations),
      1e3 * calling.ms, static_cast<long>(calling.allocations), 1e3 * calling.ms / static_cast<double>(steps));
}

}  // namespace
}  // namespace transmuter::bench

int main(int argc, char** argv) {
  int rounds = 3, sizes = 6, failed = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--rounds") && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
      continue;
    }
    if (!std::strcmp(argv[i], "--sizes") && i + 1 < argc) {
      sizes = std::max(1, std::atoi(argv[++i]));
      continue;
    }
    try {
      transmuter::bench::bench_model(argv[i], rounds, sizes);
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", argv[i], error.what());
      failed = 1;
    }
  }
  return failed;
}
