// Random small graphs: the CPU backend gives what the plain interpreter gives, passes change nothing, and neither does
// how the inputs are declared, which sizes ran before, or the number of threads. TRANSMUTER_RANDOM_GRAPHS says how many
// (300), TRANSMUTER_RANDOM_SEED where they begin (1), TRANSMUTER_RANDOM_PRINT=1 prints each.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "base/strings.h"
#include "maker.h"

namespace transmuter::runtime::testing {
namespace {

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

enum class Declared { sizes, names, nothing };

Model model_of_graph(RandomGraph graph, Declared declared) {
  for (const RandomInput& input : graph.inputs) {
    const RandomValue& v = input.value;
    std::vector<Extent> extents;
    for (size_t i = 0; i < v.shape.size(); ++i) {
      if (declared == Declared::sizes)
        extents.emplace_back(static_cast<int>(v.shape[i]));
      else
        extents.emplace_back(declared == Declared::names ? str(v.name, "_", i) : std::string());
    }
    graph.parts.inputs.push_back(shaped(v.name, type_number(v.dtype), extents));
  }
  return load(model({.graph = onnx::testing::graph(graph.parts),
                     .opsets = {opset("", 23), opset("com.microsoft", 1)},
                     .ir_version = 11}));
}

enum class Within { rounding, bits };

// "" when all outputs agree within what rounding explains. `slack`: of other sizes than the bounds were told for.
std::string difference(const RandomGraph& graph, const TensorMap& expected, const TensorMap& got, Within within,
                       double slack = 1) {
  for (const RandomValue& v : graph.outputs) {
    const Tensor &e = expected.at(v.name).tensor, &g = got.at(v.name).tensor;
    if (e.shape() != g.shape() || e.dtype() != g.dtype())
      return str(v.name, ": ", name(e.dtype()), " ", e.shape(), " and ", name(g.dtype()), " ", g.shape());
    if (slack == 1 && !v.terminal && e.shape() != v.shape) return str(v.name, ": ", e.shape(), ", not ", v.shape);
    const Tensor ea = e.aligned(), ga = g.aligned();
    if (e.nbytes() == 0 || std::memcmp(ea.bytes(), ga.bytes(), e.nbytes()) == 0) continue;
    if (!is_float(e.dtype()) || within == Within::bits)
      return v.name + (is_float(e.dtype()) ? ": other bits" : ": other integers");
    const std::vector<double> a = ea.cast(DType::f64).to_vector<double>(), b = ga.cast(DType::f64).to_vector<double>();
    const double unit = rounding_unit(e.dtype());
    for (size_t i = 0; i < a.size(); ++i)
      if (!(std::fabs(a[i] - b[i]) <= slack * (2 * v.error + (v.error > 0 ? unit * v.bound : 0))))
        return str(v.name, "[", i, "]: ", a[i], " and ", b[i], ", error ", v.error);
  }
  return "";
}

CompiledModel compiled_on(const Model& model, const std::string& backend, bool passes, bool eager = false,
                          int threads = 1) {
  CompileOptions options;
  options.backend = backend;
  options.passes = passes;
  options.eager = eager;
  options.threads = threads;
  return model.compile(options);
}

TensorMap answers(const CompiledModel& run, const TensorMap& feeds) {
  run(feeds);
  return run(feeds);  // the trace that is kept, and its plan
}

// Sizes of 2 and more one larger: the same symbols for the tracer, other numbers. Not every graph can take them.
TensorMap grown(const RandomGraph& graph, uint64_t seed) {
  TensorMap feeds;
  for (const RandomInput& input : graph.inputs) {
    Shape shape = input.value.shape;
    for (int64_t& extent : shape) extent += extent >= 2;
    feeds[input.value.name] = numbers_for(input, shape, ++seed);
  }
  return feeds;
}

// "" when all ways to run the graph agree.
std::string fault_of(const RandomGraph& graph, int64_t seed) {
  const Model fixed = model_of_graph(graph, Declared::sizes), named = model_of_graph(graph, Declared::names);
  const Model open = model_of_graph(graph, Declared::nothing);
  std::string label = "reference, sizes declared, passes off";
  try {
    const TensorMap expected = answers(compiled_on(fixed, "reference", false), graph.feeds);
    std::string what;
    const auto compare = [&](const char* name, const CompiledModel& run, const TensorMap& wanted, Within within) {
      if (!what.empty()) return TensorMap();
      label = name;
      TensorMap got = answers(run, graph.feeds);
      what = difference(graph, wanted, got, within);
      return got;
    };
    compare("reference", compiled_on(named, "reference", true), expected, Within::rounding);
    const TensorMap on_cpu =
        compare("cpu, sizes declared", compiled_on(fixed, "cpu", true), expected, Within::rounding);
    compare("cpu, two threads", compiled_on(fixed, "cpu", true, false, 2), on_cpu, Within::bits);
    compare("cpu, names declared", compiled_on(named, "cpu", true), expected, Within::rounding);
    compare("cpu, nothing declared, passes off", compiled_on(open, "cpu", false), expected, Within::rounding);
    if (seed % 4 == 0) compare("cpu, eager", compiled_on(open, "cpu", true, true), expected, Within::rounding);
    // Traced with other sizes: those sizes are answered as the interpreter does, and so are ours afterwards.
    const TensorMap other = grown(graph, static_cast<uint64_t>(seed));
    const CompiledModel run = compiled_on(named, "cpu", true);
    TensorMap larger;
    std::string refused, refused_too;
    if (what.empty()) refused = error_in([&] { larger = run(other); });
    compare("cpu, after other sizes", run, expected, Within::rounding);
    if (what.empty()) {
      label = "cpu, other sizes";
      TensorMap wanted;
      refused_too = error_in([&] { wanted = compiled_on(open, "reference", false)(other); });
      if (refused.empty() != refused_too.empty())
        what = "one refuses: " + refused + refused_too;
      else if (refused.empty())
        what = difference(graph, wanted, larger, Within::rounding, 8);
    }
    return what.empty() ? "" : label + ": " + what;
  } catch (const Error& error) {
    return label + ": " + error.what();
  }
}

TEST(RandomGraphs, BackendsPassesSizesAndThreadsChangeNothing) {
  const int64_t count = setting("TRANSMUTER_RANDOM_GRAPHS", 300), first = setting("TRANSMUTER_RANDOM_SEED", 1);
  const bool print = setting("TRANSMUTER_RANDOM_PRINT", 0) != 0;
  int64_t failures = 0;
  for (int64_t seed = first; seed < first + count && failures < 10; ++seed) {
    const RandomGraph graph = GraphMaker(static_cast<uint64_t>(seed)).make();
    if (print) std::cout << "seed " << seed << "\n" << graph.text << std::endl;
    const std::string what = fault_of(graph, seed);
    failures += !what.empty();
    EXPECT_EQ(what, "") << "seed " << seed << "\n" << graph.text;
  }
}

}  // namespace
}  // namespace transmuter::runtime::testing
