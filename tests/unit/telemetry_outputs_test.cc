// What comes out: the trace file, read back; the counters, as text for servers.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "telemetry_testing.h"
#include "temporary_folder.h"

namespace transmuter::telemetry::testing {
namespace {

using nlohmann::json;

class TemporaryFile {
 public:
  std::string path() const { return (folder_ / "trace.json").string(); }
  json read() const {
    std::ifstream file(path());
    return json::parse(file);
  }

 private:
  TemporaryFolder folder_;
};

// Trace Event Format: what each phase must have, times that don't go back, spans of a thread that lie in each other.
void check_events(const json& trace) {
  ASSERT_TRUE(trace.at("traceEvents").is_array());
  double last = 0;
  std::map<int64_t, std::vector<int64_t>> open;  // by thread: ends of the spans that are open
  std::set<int64_t> named, used;
  for (const json& event : trace.at("traceEvents")) {
    for (const char* key : {"name", "ph"}) ASSERT_TRUE(event.at(key).is_string()) << event;
    for (const char* key : {"pid", "tid"}) ASSERT_TRUE(event.at(key).is_number_integer()) << event;
    ASSERT_TRUE(event.at("ts").is_number()) << event;
    ASSERT_TRUE(event.at("args").is_object()) << event;
    const std::string phase = event["ph"];
    const double start = event["ts"];
    const int64_t thread = event["tid"];
    if (phase == "M") {
      ASSERT_TRUE(event["args"].at("name").is_string());
      if (event["name"] == "thread_name") named.insert(thread);
      continue;
    }
    used.insert(thread);
    EXPECT_GE(start, last) << event;
    last = start;
    if (phase == "X") {
      ASSERT_TRUE(event.at("dur").is_number()) << event;
      EXPECT_GE(event["dur"].get<double>(), 0);
      const int64_t begin = std::llround(start * 1e3), end = begin + std::llround(event["dur"].get<double>() * 1e3);
      std::vector<int64_t>& ends = open[thread];
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      if (!ends.empty()) {
        EXPECT_LE(end, ends.back()) << event;
      }
      ends.push_back(end);
    } else if (phase == "i") {
      EXPECT_EQ(event.at("s"), "t");
    } else {
      ASSERT_EQ(phase, "C") << event;
      for (const auto& [key, value] : event["args"].items()) EXPECT_TRUE(value.is_number()) << key;
    }
  }
  EXPECT_EQ(named, used);
}

TEST(TraceFile, IsWhatPerfettoReads) {
  const TemporaryFile file;
  {
    TraceFile trace(file.path());
    const CompiledModel run = on_cpu(load(encoder().parts));
    std::thread other([&] {
      for (const int64_t sequence : {4, 5, 6}) run(encoder_inputs(2, sequence));
    });
    for (const int64_t sequence : {5, 6, 7}) run(encoder_inputs(2, sequence));
    other.join();
    on_cpu(breaking_model())(breaking_inputs(4, 3));
    trace.close();
    trace.close();  // there is nothing more to do
  }
  const json trace = file.read();
  check_events(trace);
  EXPECT_EQ(trace["otherData"]["dropped_events"], 0);
  std::map<std::string, int> categories;
  for (const json& event : trace["traceEvents"])
    if (event.contains("cat")) ++categories[event["cat"]];
  EXPECT_EQ(categories["run"], 7);
  EXPECT_EQ(categories["load"], 2);
  EXPECT_EQ(categories["trace"], 3);
  EXPECT_GT(categories["step"], 6 * 3);
  for (const char* category : {"compile", "bind", "segment", "graph_break", "stage", "hit", "miss", "memory"})
    EXPECT_GT(categories[category], 0) << category;
}

TEST(TraceFile, NamesOfAllSortsAreJson) {
  const TemporaryFile file;
  const std::string odd = "a\"b\\c\n\x01\xff\xc3(\xed\xa0\x80 \xf0\x9f\x98\x80 \xc3\xa9";
  TraceFile trace(file.path(), {.kinds = kinds({Kind::run})});
  const GraphParts parts{
      .nodes = {node("Neg", {odd}, {"y"})}, .inputs = {shaped(odd, kFloat, {"n"})}, .outputs = {value("y")}};
  on_cpu(load(parts))({{odd, counting({3})}});
  trace.close();
  const json read = file.read();
  check_events(read);
  const std::string inputs = read["traceEvents"].back()["args"]["inputs"];
  EXPECT_NE(inputs.find("a\"b\\c\n"), std::string::npos);
  EXPECT_NE(inputs.find("\xf0\x9f\x98\x80 \xc3\xa9 float32 [3]"), std::string::npos);
}

TEST(TraceFile, HasALimitAndSaysWhatWasLost) {
  const TemporaryFile file;
  TraceFile trace(file.path(), {.kinds = kinds({Kind::run}), .max_events = 2});
  const CompiledModel run = on_cpu(load(encoder().parts));
  for (int i = 0; i < 5; ++i) run(encoder_inputs(2, 5));
  trace.close();
  EXPECT_EQ(file.read()["otherData"]["dropped_events"], 3);
}

TEST(TraceFile, ThatCannotBeMadeIsAnError) {
  const std::string error = error_in([] { TraceFile trace("/no/such/folder/trace.json"); });
  EXPECT_NE(error.find("/no/such/folder/trace.json"), std::string::npos) << error;
  EXPECT_FALSE(anybody_listens(Kind::run));
}

TEST(Counters, AddUpOverModelsAlsoThoseThatAreGone) {
  const Counters before = counters();
  {
    const CompiledModel one = on_cpu(load(encoder().parts)), two = on_cpu(load(decoder().parts));
    for (const int64_t sequence : {4, 5, 4}) one(encoder_inputs(2, sequence));
    two(decoder().inputs(1));
    const Counters during = counters();
    EXPECT_EQ(during.runs - before.runs, 4);
    EXPECT_EQ(during.loads - before.loads, 2);
    EXPECT_EQ(during.arena_bytes - before.arena_bytes, one.stats().arena_bytes + two.stats().arena_bytes);
    EXPECT_GT(during.weight_bytes, before.weight_bytes);
    EXPECT_GT(during.prepared_bytes, before.prepared_bytes);
  }
  const Counters after = counters();
  EXPECT_EQ(after.runs - before.runs, 4);
  EXPECT_EQ(after.traces - before.traces, 2);
  EXPECT_EQ(after.compiles - before.compiles, 2);
  EXPECT_EQ(after.binds - before.binds, 3);
  EXPECT_EQ(after.plan_hits - before.plan_hits, 1);
  EXPECT_EQ(after.trace_hits - before.trace_hits, 2);
  EXPECT_GT(after.trace_seconds, before.trace_seconds);
  // What was held is held no more.
  EXPECT_EQ(after.weight_bytes, before.weight_bytes);
  EXPECT_EQ(after.prepared_bytes, before.prepared_bytes);
  EXPECT_EQ(after.arena_bytes, before.arena_bytes);
  EXPECT_EQ(after.cache_bytes, before.cache_bytes);
}

TEST(Counters, CachesThatGrowAreHeldAsLongAsSomebodyHasThem) {
  const int64_t before = counters().cache_bytes;
  const SmallModel small = decoder();
  const CompiledModel run = on_cpu(load(small.parts));
  {
    TensorMap out = run(small.inputs(1));
    TensorMap next = small.inputs(1);
    next["past_k"] = std::move(out.at("present_k"));
    next["past_v"] = std::move(out.at("present_v"));
    out.clear();
    const TensorMap grown = run(std::move(next));
    EXPECT_GT(counters().cache_bytes, before);
  }
  EXPECT_EQ(counters().cache_bytes, before);
}

TEST(Metrics, ArePrometheusText) {
  const std::vector<Metric> some = {
      {"transmuter.plan.hits", "{plan}", "Plans met\nagain.", true, {}, 12},
      {"transmuter.trace.time", "s", "Time.", true, {}, 0.25},
      {"transmuter.memory", "By", "Held.", false, {{"kind", "a\"b"}, {"file", "c\\d"}}, 3},
      {"transmuter.memory", "By", "Held.", false, {{"kind", "arena"}}, 4e9},
  };
  EXPECT_EQ(metrics_text(some, Exposition::prometheus),
            "# HELP transmuter_plan_hits_total Plans met\\nagain.\n"
            "# TYPE transmuter_plan_hits_total counter\n"
            "transmuter_plan_hits_total 12\n"
            "# HELP transmuter_trace_time_seconds_total Time.\n"
            "# TYPE transmuter_trace_time_seconds_total counter\n"
            "transmuter_trace_time_seconds_total 0.25\n"
            "# HELP transmuter_memory_bytes Held.\n"
            "# TYPE transmuter_memory_bytes gauge\n"
            "transmuter_memory_bytes{kind=\"a\\\"b\",file=\"c\\\\d\"} 3\n"
            "transmuter_memory_bytes{kind=\"arena\"} 4000000000\n");
  EXPECT_EQ(metrics_text({some[0], some[1]}, Exposition::openmetrics),
            "# HELP transmuter_plan_hits Plans met\\nagain.\n"
            "# TYPE transmuter_plan_hits counter\n"
            "transmuter_plan_hits_total 12\n"
            "# HELP transmuter_trace_time_seconds Time.\n"
            "# TYPE transmuter_trace_time_seconds counter\n"
            "# UNIT transmuter_trace_time_seconds seconds\n"
            "transmuter_trace_time_seconds_total 0.25\n"
            "# EOF\n");
}

TEST(Metrics, FamiliesStandTogetherAndNamesAreTheStandards) {
  std::set<std::string> ended;
  std::string last;
  for (const Metric& metric : metrics()) {
    EXPECT_TRUE(metric.name.starts_with("transmuter.")) << metric.name;
    EXPECT_EQ(metric.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz._"), std::string::npos) << metric.name;
    EXPECT_NE(metric.help, "");
    if (metric.name != last) {
      EXPECT_TRUE(ended.insert(metric.name).second) << metric.name << " comes twice";
    }
    last = metric.name;
  }
  const int64_t runs = counters().runs;
  on_cpu(load(encoder().parts))(encoder_inputs(2, 5));
  EXPECT_NE(metrics_text().find("\ntransmuter_runs_total " + std::to_string(runs + 1) + "\n"), std::string::npos);
  EXPECT_NE(metrics_text().find("\ntransmuter_memory_bytes{kind=\"weights\"} "), std::string::npos);
}

TEST(Memory, IsToldByType) {
  const CompiledModel run = on_cpu(load(encoder().parts));
  MemoryUse use = run.memory();
  EXPECT_GT(use.stored.at("float32"), 4 * 32 * 16);
  EXPECT_EQ(use.prepared.size(), 0u);
  run(encoder_inputs(2, 5));
  use = run.memory();
  EXPECT_GE(use.prepared.at("float32"), 4 * (4 * 16 * 16 + 2 * 16 * 32));  // the products' weights, packed
  EXPECT_GT(use.arenas, 0);
}

TEST(Memory, ReleasedIsMadeAgain) {
  for (const char* backend : {"cpu", "reference"}) {
    for (SmallModel& small : small_models()) {
      const Model model = load(small.parts);
      const CompiledModel run = on_cpu(model, 8, backend);
      const TensorMap expected = run(small.inputs(3));
      const int64_t traces = run.stats().traces;
      run.release_cached_memory();
      run.release_cached_memory();
      const MemoryUse use = run.memory();
      EXPECT_EQ(use.prepared.size(), 0u) << small.name;
      EXPECT_EQ(use.arenas, 0) << small.name;
      EXPECT_EQ(run.trace_text(), "") << small.name;
      const TensorMap again = run(small.inputs(3));
      if (!small.draws) {
        EXPECT_EQ(difference(again, expected), "") << small.name;
      }
      EXPECT_EQ(run.stats().traces, 2 * traces) << small.name;
    }
  }
}

TEST(Memory, OfEagerRunsIsReleasedToo) {
  const Model model = load(encoder().parts);
  const int64_t before = counters().prepared_bytes;
  const TensorMap inputs = encoder_inputs(2, 5), expected = model.run(inputs);
  EXPECT_GT(counters().prepared_bytes, before);
  model.release_cached_memory();
  EXPECT_EQ(counters().prepared_bytes, before);
  EXPECT_EQ(difference(model.run(inputs), expected), "");
}

}  // namespace
}  // namespace transmuter::telemetry::testing
