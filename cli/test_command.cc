// `transmuter test`: ONNX-standard case folders, every data set of a case through one compiled model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "commands.h"
#include "compare.h"
#include "inputs.h"

namespace transmuter::cli {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct TestOptions {
  EngineOptions engine;
  std::vector<std::string> folders;
  std::string filter;
  std::string exceptions;
  std::string report;
  std::vector<int> compare_threads;
  bool skip_unsupported = false;
  int jobs = 1;
  bool verbose = false;
  bool eager = false;
};

struct Outcome {
  bool passed = false;
  bool unsupported = false;  // the model needs an operator that isn't there
  std::string reason;
  RunStats stats;
  std::set<std::string> broken;  // nodes at which traces break: "node X (Op)"
  double ulps = 0;               // the worst of all floats
  double share = 0;              // of its tolerance, the worst of all elements
  double seconds = 0;
};

// The nodes that a text of traces names as breaks.
std::set<std::string> broken_nodes(const std::string& text) {
  constexpr std::string_view kBreak = "break: ";
  std::set<std::string> nodes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kBreak)) nodes.insert(line.substr(kBreak.size(), line.find(") ") + 1 - kBreak.size()));
  return nodes;
}

json read_meta(const fs::path& folder) {
  std::ifstream file(folder / "meta.json");
  if (!file) return json::object();
  // Python writes NaN and Infinity, which JSON does not have; nothing here reads those figures.
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string word : {"-Infinity", "Infinity", "NaN"}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), "0");
  }
  json meta = json::parse(text, nullptr, false);
  if (!meta.is_object()) throw Error(ErrorCode::invalid_input, "meta.json is not a JSON object");
  return meta;
}

Tolerance tolerance_of(const json& meta, size_t data_set, const std::string& output) {
  Tolerance t;
  auto read = [&](const json& from) {
    auto number = [&](const char* key, auto& target) {
      if (from.contains(key) && from[key].is_number()) from[key].get_to(target);
    };
    number("atol", t.atol);
    number("rtol", t.rtol);
    if (from.contains("rtol")) t.bf16_rtol = 0;
    number("int_atol", t.int_atol);
    number("rel_l2", t.rel_l2);
    number("flat_stride", t.flat_stride);
  };
  read(meta);
  if (meta.value("compare", "") == "shape_only") t.mode = Tolerance::Mode::shape_only;
  if (meta.value("expect", "") == "random") t.mode = Tolerance::Mode::random;
  const json sets = meta.value("data_sets", json::array());
  if (data_set < sets.size() && sets[data_set].is_array()) {
    for (const json& entry : sets[data_set]) {
      if (entry.value("name", "") == output) read(entry);
    }
  }
  return t;
}

std::string model_path(const fs::path& folder, const json& meta) {
  return (folder / meta.value("model", "model.onnx")).string();
}

// Maps of one set of keys as the rows of a matrix, which is how cases store them (Python's floats: f64).
Value rows_of(const Value& maps, DType dtype) {
  std::vector<float> rows;
  for (const Value& map : maps.items) {
    const std::vector<float> row = map.tensor.aligned().cast(DType::f32).to_vector<float>();
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const auto count = static_cast<int64_t>(maps.items.size());
  return Tensor(rows, {count, count == 0 ? 0 : static_cast<int64_t>(rows.size()) / count}).cast(dtype);
}

// "" when all outputs of a data set agree.
std::string run_data_set(const Model& model, const CompiledModel& run, const fs::path& folder, const json& meta,
                         size_t set, Outcome& outcome) {
  const std::string path = folder.string();
  const TensorMap outputs = run(read_data_set(model, path));
  const std::vector<std::string> files = numbered_files(path, "output");
  for (size_t i = 0; i < files.size(); ++i) {
    const ValueSpec* spec = spec_for(model.outputs(), files[i], i);
    if (!spec) return "the model has no output for " + files[i];
    const auto got = outputs.find(spec->name);
    if (got == outputs.end()) return "output " + spec->name + " is missing";
    std::optional<Tensor> mask;
    const std::string mask_file = path + "/mask_" + std::to_string(i) + ".pb";
    if (fs::exists(mask_file)) mask = read_value(mask_file).tensor.aligned().cast(DType::boolean);
    const auto& items = got->second.items;
    const bool as_rows = !items.empty() && items[0].kind == Value::Kind::map && read_value(files[i]).tensor.rank() == 2;
    const Value expected = as_rows ? read_value(files[i]) : read_value(files[i], spec);
    Tolerance tolerance = tolerance_of(meta, set, spec->name);
    tolerance.worst_ulps = &outcome.ulps;
    tolerance.worst_share = &outcome.share;
    const std::string difference =
        compare(expected, as_rows ? rows_of(got->second, expected.tensor.dtype()) : got->second, tolerance,
                mask ? &*mask : nullptr);
    if (!difference.empty()) return "data set " + std::to_string(set) + ", output " + spec->name + ": " + difference;
  }
  return "";
}

std::string run_sets(const Model& model, const CompiledModel& run, const fs::path& folder, const json& meta,
                     Outcome& outcome) {
  for (size_t set = 0;; ++set) {
    const fs::path data = folder / ("test_data_set_" + std::to_string(set));
    if (!fs::exists(data)) return "";
    const std::string difference = run_data_set(model, run, data, meta, set, outcome);
    if (!difference.empty()) return difference;
  }
}

// Every data set with each number of threads: "" when all outputs are the same to the bit.
std::string compare_threads(const Model& model, CompileOptions compile, const fs::path& folder,
                            const std::vector<int>& counts) {
  std::vector<TensorMap> first;
  for (const int threads : counts) {
    compile.threads = threads;
    const CompiledModel run = model.compile(compile);
    for (size_t set = 0;; ++set) {
      const fs::path data = folder / ("test_data_set_" + std::to_string(set));
      if (!fs::exists(data)) break;
      TensorMap outputs = run(read_data_set(model, data.string()));
      if (set == first.size()) {
        first.push_back(std::move(outputs));
        continue;
      }
      for (const auto& [name, value] : outputs) {
        const std::string difference = compare_bits(first[set].at(name), value);
        if (!difference.empty())
          return "with " + std::to_string(threads) + " threads data set " + std::to_string(set) + ", output " + name +
                 " differs: " + difference;
      }
    }
  }
  return "";
}

Outcome run_case(const fs::path& folder, const TestOptions& options) {
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  json meta = json::object();
  std::optional<CompiledModel> run;
  try {
    meta = read_meta(folder);
    const Model model = Model::load(model_path(folder, meta));
    CompileOptions compile = options.engine.compile_options();
    compile.eager = options.eager;
    run = model.compile(compile);
    outcome.reason = run_sets(model, *run, folder, meta, outcome);
    if (outcome.reason.empty() && meta.value("expect", "match") == "match")
      outcome.reason = compare_threads(model, compile, folder, options.compare_threads);
    outcome.passed = outcome.reason.empty();
    if (meta.value("expect", "match") == "error") {
      outcome.passed = meta.value("lenient_ok", false) && outcome.passed;
      if (!outcome.passed) outcome.reason = "must fail with a clear error, but ran";
    }
  } catch (const Error& error) {
    outcome.reason = error.what();
    outcome.passed = meta.value("expect", "match") == "error" || meta.value("accept_error", false);
    outcome.unsupported = error.code() == ErrorCode::unsupported;
    for (const json& words : meta.value("must_mention", json::array())) {
      if (outcome.reason.find(words.get<std::string>()) == std::string::npos) {
        outcome.passed = false;
        outcome.reason = "the error does not mention \"" + words.get<std::string>() + "\": " + outcome.reason;
      }
    }
    if (error.code() == ErrorCode::internal) outcome.passed = false;
  } catch (const std::exception& error) {
    outcome.reason = std::string("not a tm::Error: ") + error.what();
  }
  if (run) outcome.stats = run->stats();
  if (outcome.stats.breaks > 0) outcome.broken = broken_nodes(run->trace_text());
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.passed && meta.contains("time_limit_s") && outcome.seconds > meta["time_limit_s"].get<double>()) {
    outcome.passed = false;
    outcome.reason = "took " + std::to_string(outcome.seconds) + " s";
  }
  return outcome;
}

bool is_case(const fs::path& folder) { return fs::exists(folder / "model.onnx") || fs::exists(folder / "meta.json"); }

std::vector<fs::path> find_cases(const TestOptions& options) {
  std::vector<fs::path> cases;
  auto add = [&](auto&& self, const fs::path& folder, int depth) -> void {
    if (is_case(folder)) {
      if (options.filter.empty() || folder.filename().string().find(options.filter) != std::string::npos)
        cases.push_back(folder);
      return;
    }
    if (depth == 0) return;
    std::vector<fs::path> inner;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory()) inner.push_back(entry.path());
    }
    std::sort(inner.begin(), inner.end());
    for (const fs::path& path : inner) self(self, path, depth - 1);
  };
  for (const std::string& folder : options.folders) {
    if (!fs::is_directory(folder)) throw Error(ErrorCode::not_found, "no folder " + folder);
    add(add, folder, 3);
  }
  if (cases.empty()) {
    throw Error(ErrorCode::not_found, "no case in " + options.folders[0] + (options.folders.size() > 1 ? " ..." : "") +
                                          (options.filter.empty() ? "" : " has " + options.filter + " in its name"));
  }
  return cases;
}

// Lines `SUITE/CASE BACKEND REASON`, '*' for any backend, `eager` for eager runs on any; '#' starts a comment.
std::map<std::string, std::string> read_exceptions(const TestOptions& options) {
  std::map<std::string, std::string> exceptions;
  if (options.exceptions.empty()) return exceptions;
  // "pjrt:/the/plugin.so" is "pjrt".
  const std::string& full = options.engine.backend;
  const std::string kind = options.eager ? "eager" : full.substr(0, full.find_first_of(":,"));
  std::ifstream file(options.exceptions);
  if (!file) throw Error(ErrorCode::not_found, "no file " + options.exceptions);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, backend, reason;
    words >> name >> backend;
    std::getline(words, reason);
    if (reason.size() < 2)
      throw Error(ErrorCode::invalid_input, options.exceptions + ": a line without a reason: " + line);
    if (backend == "*" || backend == kind) exceptions[name] = reason.substr(1);
  }
  return exceptions;
}

std::string case_name(const fs::path& folder) { return (folder.parent_path().filename() / folder.filename()).string(); }

void run_tests(const TestOptions& options) {
  const std::vector<fs::path> cases = find_cases(options);
  const auto exceptions = read_exceptions(options);
  std::vector<Outcome> outcomes(cases.size());
  std::atomic<size_t> next{0};
  std::mutex printing;
  const bool progress = options.verbose;
  auto work = [&] {
    for (size_t i; (i = next++) < cases.size();) {
      if (progress) {
        const std::lock_guard<std::mutex> lock(printing);
        std::fprintf(stderr, "run %s\n", case_name(cases[i]).c_str());
      }
      outcomes[i] = run_case(cases[i], options);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options.jobs; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();

  size_t passed = 0, failed = 0, skipped = 0;
  json report = json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = case_name(cases[i]);
    const Outcome& o = outcomes[i];
    const auto exception = exceptions.find(name);
    if (!options.report.empty()) {
      report.push_back({{"case", name},
                        {"passed", o.passed},
                        {"reason", o.passed ? "" : o.reason},
                        {"traces", o.stats.traces},
                        {"breaks", o.stats.breaks},
                        {"broken", o.broken},
                        {"specializations", o.stats.specializations},
                        {"runs", o.stats.runs},
                        {"composites", o.stats.composites},
                        {"ulps", o.ulps},
                        {"share_of_tolerance", o.share},
                        {"seconds", o.seconds}});
    }
    if (options.verbose) {
      std::printf("%s %s: traces %lld, breaks %lld, specialisations %lld, %.2f s\n", o.passed ? "ok" : "no",
                  name.c_str(), static_cast<long long>(o.stats.traces), static_cast<long long>(o.stats.breaks),
                  static_cast<long long>(o.stats.specializations), o.seconds);
    }
    if (exception != exceptions.end()) {
      if (o.passed) {
        ++failed;
        std::printf("FAIL %s: passes, but %s lists it (%s)\n", name.c_str(), options.exceptions.c_str(),
                    exception->second.c_str());
      } else {
        ++skipped;
      }
    } else if (o.passed) {
      ++passed;
    } else if (o.unsupported && options.skip_unsupported) {
      ++skipped;
    } else {
      ++failed;
      std::printf("FAIL %s: %s\n", name.c_str(), o.reason.c_str());
    }
  }
  if (!options.report.empty() && !(std::ofstream(options.report) << report.dump(1) << std::endl))
    throw Error(ErrorCode::io, "cannot write " + options.report);
  std::printf("%zu passed, %zu failed, %zu skipped\n", passed, failed, skipped);
  if (failed > 0) throw Failed{};
}

}  // namespace

void add_test(CLI::App& app) {
  auto options = std::make_shared<TestOptions>();
  CLI::App* command = app.add_subcommand("test", "Run ONNX case folders (model.onnx, test_data_set_N) and compare");
  command->add_option("folders", options->folders, "case folders, or folders of such")->required();
  options->engine.add_to(*command);
  command->add_option("--filter", options->filter, "only cases whose name contains this");
  command->add_option("--exceptions", options->exceptions, "file of cases that are known to fail: CASE BACKEND REASON");
  command->add_flag("--skip-unsupported", options->skip_unsupported,
                    "cases that need an operator or feature that isn't there yet count as skipped");
  command->add_option("--report", options->report, "write a JSON report here");
  command->add_flag("--eager", options->eager, "operator by operator, in place of traces");
  command
      ->add_option("--compare-threads", options->compare_threads,
                   "run with each of these numbers of threads too (1,2,3): results must be the same to the bit")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  command->add_option("--jobs", options->jobs, "cases at once")->check(CLI::Range(1, 64));
  command->add_flag("-v,--verbose", options->verbose, "print every case with its traces and time");
  command->callback([options] { run_tests(*options); });
}

}  // namespace transmuter::cli
