// `transmuter bench`: latency, start-up and memory of one model on generated inputs.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_decode.h"
#include "commands.h"
#include "hub_progress.h"
#include "inputs.h"

namespace transmuter::cli {

using nlohmann::json;

namespace {

struct BenchOptions {
  EngineOptions engine;
  std::string model;
  std::vector<std::string> extents;
  std::vector<std::string> warm_up;
  std::string data_set;
  double seconds = 2;
  int64_t vocabulary = 0;
  int64_t decode = 0;  // tokens
  int64_t past = 128;
  bool as_json = false;
};

// Bytes of this process in memory at most.
int64_t peak_rss() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

// In MiB, as compare.py reads it.
double peak_rss_for_json() { return static_cast<double>(peak_rss()) / (1 << 20); }

// All that the telemetry counts, after the runs.
json counters_json(const CompiledModel& run) {
  const telemetry::Counters c = telemetry::counters();
  return {{"runs", c.runs},
          {"traces",
           {{"model", c.traces},
            {"body", c.body_traces},
            {"node", c.node_traces},
            {"continuation", c.continuations},
            {"hits", c.trace_hits},
            {"evictions", c.trace_evictions}}},
          {"breaks", c.breaks},
          {"compiles", c.compiles},
          {"plans", {{"made", c.binds}, {"hits", c.plan_hits}, {"evictions", c.plan_evictions}}},
          {"caches", {{"appends", c.appends}, {"copies", c.cache_copies}}},
          {"allocated_bytes", c.allocated_bytes},
          {"bytes",
           {{"weights", c.weight_bytes},
            {"prepared", c.prepared_bytes},
            {"arena", c.arena_bytes},
            {"cache", c.cache_bytes}}},
          {"prepared_by_type", run.memory().prepared}};
}

void print_counters(const CompiledModel& run) {
  const telemetry::Counters c = telemetry::counters();
  const auto n = [](int64_t count) { return static_cast<long long>(count); };
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::printf(
      "traces      %lld made (%lld of bodies, %lld of nodes, %lld behind breaks), %lld met again, %lld dropped; "
      "%lld breaks, %lld segments compiled\n",
      n(c.traces + c.body_traces + c.node_traces + c.continuations), n(c.body_traces), n(c.node_traces),
      n(c.continuations), n(c.trace_hits), n(c.trace_evictions), n(c.breaks), n(c.compiles));
  std::printf(
      "plans       %lld made in %.1f us, %lld met again, %lld dropped; caches: %lld grown in place, %lld copied\n",
      n(c.binds), c.bind_seconds * 1e6, n(c.plan_hits), n(c.plan_evictions), n(c.appends), n(c.cache_copies));
  std::string prepared;
  for (const auto& [dtype, bytes] : run.memory().prepared) {
    char text[64];
    std::snprintf(text, sizeof text, "%s%s %.1f", prepared.empty() ? "" : ", ", dtype.c_str(), mb(bytes));
    prepared += text;
  }
  std::printf(
      "memory      peak %.1f MB; weights %.1f MB, prepared %.1f MB%s%s%s, arenas %.1f MB, caches %.1f MB; runs "
      "allocated %.1f MB\n",
      mb(peak_rss()), mb(c.weight_bytes), mb(c.prepared_bytes), prepared.empty() ? "" : " (", prepared.c_str(),
      prepared.empty() ? "" : ")", mb(c.arena_bytes), mb(c.cache_bytes), mb(c.allocated_bytes));
}

void bench_decode(const BenchOptions& options, const Model& model, const CompiledModel& run, int64_t vocabulary,
                  double load_ms) {
  const json figures = decode_figures(model, run, parse_extents(options.extents), vocabulary, options.past,
                                      options.decode, options.seconds);
  const RunStats stats = run.stats();
  if (options.as_json) {
    const json out = {{"model", options.model},
                      {"backend", options.engine.backend},
                      {"threads", options.engine.threads},
                      {"load_ms", load_ms},
                      {"compile_ms", stats.trace_ms + stats.compile_ms},
                      {"traces", stats.traces},
                      {"binds", stats.binds},
                      {"bind_us", stats.bind_us},
                      {"cache_copies", stats.cache_copies},
                      {"peak_rss_mb", peak_rss_for_json()},
                      {"counters", counters_json(run)},
                      {"decode", figures}};
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  const auto ms = [&](const char* name) { return figures[name].get<double>(); };
  std::printf("prompt      median %.3f ms, min %.3f ms (CPU %.3f ms) for %lld tokens\n", ms("prefill_ms"),
              ms("prefill_min_ms"), ms("prefill_cpu_ms"), static_cast<long long>(options.past));
  std::printf("token       median %.3f ms, min %.3f ms, p90 %.3f ms over %lld tokens (CPU %.3f ms)\n", ms("token_ms"),
              ms("token_min_ms"), ms("token_p90_ms"), static_cast<long long>(options.decode), ms("token_cpu_ms"));
  std::printf("start       load %.1f ms, trace %.1f ms, compile %.1f ms\n", load_ms, stats.trace_ms, stats.compile_ms);
  print_counters(run);
}

void bench(const BenchOptions& options) {
  const Clock::time_point start = Clock::now();
  const Model model = Model::load(local_path(options.model));
  const double load_ms = ms_since(start);
  CompileOptions compile = options.engine.compile_options();
  const CompiledModel run = model.compile(compile);
  const int64_t vocabulary =
      options.vocabulary > 0 ? options.vocabulary : std::max<int64_t>(1, model.metadata_integer("vocab_size", 100));
  if (options.decode > 0) return bench_decode(options, model, run, vocabulary, load_ms);
  const TensorMap inputs = options.data_set.empty()
                               ? generated_inputs(model, parse_extents(options.extents), vocabulary)
                               : read_data_set(model, options.data_set);

  const Clock::time_point warming = Clock::now();
  if (!options.warm_up.empty()) run.warm_up(parse_warm_up(options.warm_up));
  const double warm_up_ms = ms_since(warming);
  const Clock::time_point first = Clock::now();
  look_at(run(inputs));
  const double first_ms = ms_since(first);
  std::vector<double> times;
  const double cpu_start = cpu_ms();
  const Clock::time_point loop = Clock::now();
  while (times.size() < 3 || (ms_since(loop) < options.seconds * 1e3 && times.size() < 1000000)) {
    const Clock::time_point begin = Clock::now();
    look_at(run(inputs));
    times.push_back(ms_since(begin));
  }
  const double cpu = (cpu_ms() - cpu_start) / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  const RunStats stats = run.stats();
  const double median = quantile(times, 0.5);
  if (options.as_json) {
    const json out = {{"model", options.model},
                      {"backend", options.engine.backend},
                      {"threads", options.engine.threads},
                      {"runs", times.size()},
                      {"min_ms", times.front()},
                      {"median_ms", median},
                      {"p90_ms", quantile(times, 0.9)},
                      {"p99_ms", quantile(times, 0.99)},
                      {"cpu_ms", cpu},
                      {"load_ms", load_ms},
                      {"compile_ms", stats.trace_ms + stats.compile_ms},
                      {"warm_up_ms", options.warm_up.empty() ? 0 : warm_up_ms},
                      {"first_run_ms", first_ms},
                      {"traces", stats.traces},
                      {"binds", stats.binds},
                      {"plan_hits", stats.plan_hits},
                      {"evictions", stats.evictions},
                      {"breaks", stats.breaks},
                      {"bind_us", stats.bind_us},
                      {"arena_mb", static_cast<double>(stats.arena_bytes) / 1e6},
                      {"peak_rss_mb", peak_rss_for_json()},
                      {"counters", counters_json(run)}};
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf("latency     min %.3f ms, median %.3f ms, p99 %.3f ms over %zu runs (CPU %.3f ms a run)\n", times.front(),
              median, quantile(times, 0.99), times.size(), cpu);
  std::printf("throughput  %.1f runs/s\n", 1e3 / median);
  std::printf("start       load %.1f ms, trace %.1f ms, compile %.1f ms, first run %.1f ms\n", load_ms, stats.trace_ms,
              stats.compile_ms, first_ms);
  if (!options.warm_up.empty()) std::printf("warm-up     %.1f ms\n", warm_up_ms);
  print_counters(run);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Time a model on generated inputs");
  command->add_option("model", options->model, "an ONNX file, or hf:REPO[@REVISION][/FILE]")->required();
  command->add_option("--dim", options->extents, "NAME=VALUE for each symbolic extent");
  command->add_option("--warm-up", options->warm_up, kWarmUpHelp);
  command->add_option("--from-case", options->data_set, "a test_data_set_N folder to take the inputs from");
  command->add_option("--seconds", options->seconds, "how long to measure")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 86400.0));
  command
      ->add_option("--vocab", options->vocabulary,
                   "ids are drawn below this (default: the model's vocab_size, else 100)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command
      ->add_option("--decode", options->decode,
                   "time a decoder: a prompt (--past), then so many tokens one by one, feeding present* back to past*")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--past", options->past, "tokens of the prompt with --decode")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_flag("--json", options->as_json, "one JSON object on one line");
  options->engine.add_to(*command);
  command->callback([options] { bench(*options); });
}

}  // namespace transmuter::cli
