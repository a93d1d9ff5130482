// Random small graphs: the CPU backend gives what the plain interpreter gives, passes change nothing, and neither does
// how the inputs are declared. TRANSMUTER_RANDOM_GRAPHS says how many (300), TRANSMUTER_RANDOM_SEED where they begin
// (1).
#include <cstdlib>
#include <limits>

#include "random_graphs.h"

namespace transmuter::runtime::testing {
namespace {

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

enum class Declared { sizes, names, nothing };

Model model_of_graph(RandomGraph graph, Declared declared) {
  for (const RandomValue& v : graph.inputs) {
    std::vector<Extent> extents;
    for (size_t i = 0; i < v.shape.size(); ++i) {
      if (declared == Declared::sizes)
        extents.emplace_back(static_cast<int>(v.shape[i]));
      else
        extents.emplace_back(declared == Declared::names ? str(v.name, "_", i) : std::string());
    }
    graph.parts.inputs.push_back(shaped(v.name, GraphMaker::number(v.dtype), extents));
  }
  return load(graph.parts, 20, 10);
}

// "" when all outputs agree within what rounding explains.
std::string difference(const RandomGraph& graph, const TensorMap& expected, const TensorMap& got) {
  for (const RandomValue& v : graph.outputs) {
    const Tensor &e = expected.at(v.name).tensor, &g = got.at(v.name).tensor;
    if (e.shape() != g.shape() || e.dtype() != g.dtype())
      return str(v.name, ": ", name(e.dtype()), " ", e.shape(), " and ", name(g.dtype()), " ", g.shape());
    if (!v.terminal && e.shape() != v.shape) return str(v.name, ": ", e.shape(), ", not ", v.shape);
    if (!is_float(e.dtype()) && e.nbytes() > 0 && !std::equal(e.bytes(), e.bytes() + e.nbytes(), g.aligned().bytes()))
      return v.name + ": other integers";
    if (!is_float(e.dtype())) continue;
    const std::vector<double> a = e.aligned().cast(DType::f64).to_vector<double>();
    const std::vector<double> b = g.aligned().cast(DType::f64).to_vector<double>();
    const double unit = e.dtype() == DType::f64 ? 0x1p-52 : e.dtype() == DType::f32 ? 0x1p-23 : 0x1p-10;
    for (size_t i = 0; i < a.size(); ++i)
      if (!(std::fabs(a[i] - b[i]) <= 2 * v.error + (v.error > 0 ? unit * v.bound : 0)))
        return str(v.name, "[", i, "]: ", a[i], " and ", b[i], ", error ", v.error);
  }
  return "";
}

TensorMap answers(const Model& model, const std::string& backend, bool passes, bool eager, const TensorMap& feeds) {
  CompileOptions options;
  options.backend = backend;
  options.passes = passes;
  options.eager = eager;
  options.threads = 1;
  const CompiledModel run = model.compile(options);
  run(feeds);
  return run(feeds);  // the trace that is kept, and its plan
}

TEST(RandomGraphs, BackendsPassesAndDeclarationsChangeNothing) {
  const int64_t count = setting("TRANSMUTER_RANDOM_GRAPHS", 300), first = setting("TRANSMUTER_RANDOM_SEED", 1);
  int64_t failures = 0;
  for (int64_t seed = first; seed < first + count && failures < 10; ++seed) {
    const RandomGraph graph = GraphMaker(static_cast<uint64_t>(seed)).make();
    std::string what;
    try {
      const Model fixed = model_of_graph(graph, Declared::sizes), named = model_of_graph(graph, Declared::names);
      const Model open = model_of_graph(graph, Declared::nothing);
      const TensorMap expected = answers(fixed, "reference", false, false, graph.feeds);
      const auto check = [&](const char* label, const TensorMap& got) {
        if (!what.empty()) return;
        what = difference(graph, expected, got);
        if (!what.empty()) what = str(label, ": ", what);
      };
      check("reference", answers(named, "reference", true, false, graph.feeds));
      check("cpu, sizes declared", answers(fixed, "cpu", true, false, graph.feeds));
      check("cpu, names declared", answers(named, "cpu", true, false, graph.feeds));
      check("cpu, nothing declared, passes off", answers(open, "cpu", false, false, graph.feeds));
      if (seed % 4 == 0) check("cpu, eager", answers(open, "cpu", true, true, graph.feeds));
    } catch (const Error& error) {
      what = error.what();
    }
    failures += !what.empty();
    EXPECT_EQ(what, "") << "seed " << seed << "\n" << graph.text;
  }
}

}  // namespace
}  // namespace transmuter::runtime::testing
