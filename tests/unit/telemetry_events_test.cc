// Which events there are, in which order, and what they say.
#include <algorithm>

#include "telemetry_testing.h"

namespace transmuter::telemetry::testing {
namespace {

TEST(Events, NobodyIsListenedToUntilSomebodySubscribes) {
  EXPECT_FALSE(anybody_listens(Kind::run));
  {
    const Recorder recorder(kinds({Kind::run}));
    EXPECT_TRUE(anybody_listens(Kind::run));
    EXPECT_FALSE(anybody_listens(Kind::step));
  }
  EXPECT_FALSE(anybody_listens(Kind::run));
}

TEST(Events, TheFirstRunTracesCompilesAndBinds) {
  const Recorder recorder;
  const Model model = load(encoder().parts);
  ASSERT_EQ(recorder.count(Kind::load), 1);
  EXPECT_GT(std::stoll(recorder.of(Kind::load)[0].attributes.at("weight_bytes")), 0);
  const CompiledModel run = on_cpu(model);
  run(encoder_inputs(2, 5));
  for (const Kind kind : {Kind::trace, Kind::compile, Kind::bind, Kind::run, Kind::segment, Kind::stage})
    EXPECT_EQ(recorder.count(kind), 1) << name(kind);
  EXPECT_EQ(recorder.count(Kind::miss, "trace"), 1);
  EXPECT_EQ(recorder.count(Kind::miss, "plan"), 1);
  EXPECT_EQ(recorder.count(Kind::hit), 0);
  EXPECT_EQ(recorder.count(Kind::evict), 0);
  const Got called = recorder.of(Kind::run)[0], traced = recorder.of(Kind::trace)[0];
  EXPECT_EQ(called.attributes.at("inputs"), "ids int64 [2, 5], mask int64 [2, 5]");
  EXPECT_EQ(called.attributes.at("backend"), "cpu");
  EXPECT_EQ(traced.attributes.at("graph"), "model");
  EXPECT_EQ(traced.attributes.at("segments"), "1");
  const Got bound = recorder.of(Kind::bind)[0];
  EXPECT_NE(bound.attributes.at("sizes").find("batch=2"), std::string::npos) << bound.attributes.at("sizes");
  EXPECT_NE(bound.attributes.at("sizes").find("sequence=5"), std::string::npos) << bound.attributes.at("sizes");
  // Every launch has an event of its own, and says what it reads.
  EXPECT_EQ(recorder.count(Kind::step), std::stoi(recorder.of(Kind::stage)[0].attributes.at("steps")));
  EXPECT_GT(recorder.count(Kind::step), 3);
  for (const Got& step : recorder.of(Kind::step)) EXPECT_NE(step.attributes.at("shapes"), "") << step.name;
}

TEST(Events, SpansLieInTheirParents) {
  const Recorder recorder;
  const CompiledModel run = on_cpu(load(encoder().parts));
  for (const int64_t sequence : {5, 6}) run(encoder_inputs(2, sequence));
  std::map<uint64_t, Got> spans;
  for (const Got& got : recorder.all())
    if (is_span(got.kind)) {
      EXPECT_TRUE(spans.emplace(got.id, got).second) << "two spans have number " << got.id;
    }
  std::map<Kind, Kind> parents;
  for (const Got& got : recorder.all()) {
    EXPECT_LE(got.start, got.end);
    EXPECT_EQ(got.thread, recorder.all()[0].thread);
    if (!got.parent) continue;
    ASSERT_TRUE(spans.contains(got.parent)) << name(got.kind);
    const Got& parent = spans.at(got.parent);
    EXPECT_LE(parent.start, got.start) << name(got.kind);
    EXPECT_GE(parent.end, got.end) << name(got.kind);
    parents[got.kind] = parent.kind;
  }
  EXPECT_EQ(parents.at(Kind::trace), Kind::run);
  EXPECT_EQ(parents.at(Kind::compile), Kind::trace);
  EXPECT_EQ(parents.at(Kind::segment), Kind::run);
  EXPECT_EQ(parents.at(Kind::bind), Kind::segment);
  EXPECT_EQ(parents.at(Kind::stage), Kind::segment);
  EXPECT_EQ(parents.at(Kind::step), Kind::stage);
  EXPECT_FALSE(parents.contains(Kind::run));
}

TEST(Events, CountsAreThoseOfTheStats) {
  Recorder recorder;
  const CompiledModel run = on_cpu(load(encoder().parts), 2);
  for (int64_t sequence = 2; sequence < 22; ++sequence) run(encoder_inputs(2, sequence));
  run(encoder_inputs(1, 5));
  run(encoder_inputs(2, 21));
  run(encoder_inputs(1, 1));  // (1, 5) goes
  const RunStats stats = run.stats();
  EXPECT_EQ(recorder.count(Kind::run), stats.runs);
  EXPECT_EQ(recorder.count(Kind::trace), stats.traces);
  EXPECT_EQ(recorder.count(Kind::compile), stats.compiles);
  EXPECT_EQ(recorder.count(Kind::bind), stats.binds);
  EXPECT_EQ(recorder.count(Kind::miss, "plan"), stats.binds);
  EXPECT_EQ(recorder.count(Kind::hit, "plan"), stats.plan_hits);
  EXPECT_EQ(recorder.count(Kind::hit, "trace"), stats.trace_hits);
  EXPECT_EQ(recorder.count(Kind::evict, "plan"), stats.plan_evictions);
  EXPECT_EQ(recorder.count(Kind::evict, "trace"), stats.evictions);
  EXPECT_EQ(stats.trace_hits, 20);
  EXPECT_EQ(stats.plan_evictions, 20 - 16);
  EXPECT_EQ(stats.evictions, 1);
  for (const Got& got : recorder.of(Kind::evict)) {
    if (got.name == "trace") {
      EXPECT_EQ(got.attributes.at("inputs"), "ids int64 [1, 5], mask int64 [1, 5]");
    }
  }
  const std::vector<Got> evicted = recorder.of(Kind::evict);
  EXPECT_NE(evicted[0].attributes.at("sizes").find("sequence=2"), std::string::npos);  // the one used longest ago
}

TEST(Events, ABreakSaysWhereItIsAndWhatCameThere) {
  const Recorder recorder;
  const CompiledModel run = on_cpu(breaking_model());
  run(breaking_inputs(4, 3));
  ASSERT_EQ(run.stats().breaks, 1);
  ASSERT_EQ(run.stats().continuations, 1);
  EXPECT_EQ(recorder.count(Kind::trace), 2);
  ASSERT_GE(recorder.count(Kind::graph_break), 1);
  bool tells_the_node = false;
  for (const Got& got : recorder.of(Kind::graph_break)) {
    EXPECT_EQ(got.attributes.at("segment"), "0");
    tells_the_node |= got.attributes.at("node").find("LabelEncoder") != std::string::npos;
  }
  EXPECT_TRUE(tells_the_node);
  EXPECT_EQ(recorder.of(Kind::segment).size(), 2u);
  EXPECT_EQ(recorder.of(Kind::segment)[1].attributes.at("segment"), "1");
}

TEST(Events, PlansBoundUnheardAreDescribedToWhoComesLater) {
  const CompiledModel run = on_cpu(load(encoder().parts));
  const TensorMap inputs = encoder_inputs(2, 5), expected = run(inputs);
  const Recorder recorder;
  EXPECT_EQ(difference(run(inputs), expected), "");
  EXPECT_GT(recorder.count(Kind::step), 3);
  for (const Got& step : recorder.of(Kind::step)) EXPECT_NE(step.attributes.at("shapes"), "") << step.name;
  EXPECT_EQ(run.stats().binds, 1);
  EXPECT_EQ(recorder.count(Kind::bind), 0);
}

TEST(Events, RefusalsOfKernelsAreNotes) {
  const Recorder recorder(kinds({Kind::note}));
  constexpr int32_t kDouble = 11;  // for which the engine has no product of its own
  const GraphParts parts{.nodes = {node("MatMul", {"a", "b"}, {"c"})},
                         .inputs = {shaped("a", kDouble, {2, 3}), shaped("b", kDouble, {3, 2})},
                         .outputs = {value("c", kDouble)}};
  const Tensor a = counting({2, 3}).cast(DType::f64), b = counting({3, 2}).cast(DType::f64);
  on_cpu(load(parts))({{"a", a}, {"b", b}});
  ASSERT_GT(recorder.count(Kind::note), 0);
  for (const Got& note : recorder.all())
    for (const char* key : {"op", "kernel", "reason"}) EXPECT_NE(note.attributes.at(key), "");
}

TEST(Events, WhatFailsSaysSo) {
  const int64_t failed_before = counters().failed_runs;
  const Recorder recorder;
  const CompiledModel run = on_cpu(load(encoder().parts));
  EXPECT_NE(error_in([&] { run({{"nothing", counting({1})}}); }), "");
  TensorMap bad = encoder_inputs(2, 5);
  bad["mask"] = encoder_inputs(2, 4)["mask"];
  EXPECT_NE(error_in([&] { run(bad); }), "");
  ASSERT_EQ(recorder.count(Kind::run), 2);
  for (const Got& got : recorder.of(Kind::run)) EXPECT_TRUE(got.failed);
  run(encoder_inputs(2, 5));
  EXPECT_FALSE(recorder.of(Kind::run).back().failed);
  EXPECT_EQ(counters().failed_runs - failed_before, 2);
  EXPECT_NE(error_in([] { Model::load("/nothing/here.onnx"); }), "");
  EXPECT_TRUE(recorder.of(Kind::load).back().failed);
}

TEST(Events, AllBackendsAndEagerRunsTell) {
  const Model model = load(encoder().parts);
  for (const char* backend : {"cpu", "reference"}) {
    const Recorder recorder;
    on_cpu(model, 8, backend)(encoder_inputs(2, 5));
    EXPECT_EQ(recorder.count(Kind::segment), 1) << backend;
    model.run(encoder_inputs(2, 5), backend);
    EXPECT_EQ(recorder.count(Kind::run), 2) << backend;
    EXPECT_EQ(recorder.of(Kind::run)[1].attributes.at("eager"), "1");
    EXPECT_GT(recorder.count(Kind::trace), 1) << backend;  // a node each
    EXPECT_EQ(recorder.of(Kind::trace)[1].attributes.at("graph"), "node");
  }
}

TEST(Events, ALineHoldsAll) {
  std::vector<std::string> lines;
  const Subscription log = log_to([&](const std::string& line) { lines.push_back(line); }, kAll);
  const CompiledModel run = on_cpu(load(encoder().parts));
  run(encoder_inputs(2, 5));
  EXPECT_NE(error_in([&] { run({}); }), "");
  const auto some = [&](const std::string& start, const std::string& part) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.starts_with(start) && line.find(part) != std::string::npos;
    });
  };
  EXPECT_TRUE(some("load ", "weight_bytes"));
  EXPECT_TRUE(some("trace ", "graph model"));
  EXPECT_TRUE(some("step  ", " GF/s  "));
  EXPECT_TRUE(some("miss  plan", "sequence=5"));
  EXPECT_TRUE(some("run   ", "ids int64 [2, 5]"));
  EXPECT_TRUE(some("run   ", "FAILED"));
  EXPECT_TRUE(some("memory", "arena"));
  for (const std::string& line : lines) EXPECT_EQ(line.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace transmuter::telemetry::testing
