#include "bench_decode.h"

#include <algorithm>
#include <ctime>

#include "inputs.h"

namespace transmuter::cli {
namespace {

struct Times {
  std::vector<double> wall, cpu;

  template <class Step>
  void take(const Step& step) {
    const double cpu_start = cpu_ms();
    const Clock::time_point start = Clock::now();
    step();
    wall.push_back(ms_since(start));
    cpu.push_back(cpu_ms() - cpu_start);
  }
  void sort() {
    std::sort(wall.begin(), wall.end());
    std::sort(cpu.begin(), cpu.end());
  }
};

std::vector<std::string> names_from(const std::vector<ValueSpec>& specs, const char* prefix) {
  std::vector<std::string> names;
  for (const ValueSpec& spec : specs) {
    if (spec.name.starts_with(prefix)) names.push_back(spec.name);
  }
  return names;
}

}  // namespace

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

void look_at(const TensorMap& results, const std::set<std::string>& caches) {
  for (const auto& [name, value] : results)
    if (value.is_tensor() && value.tensor.dtype() != DType::string && !caches.contains(name))
      static_cast<void>(value.tensor.bytes());
}

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

nlohmann::json decode_figures(const Model& model, const CompiledModel& run,
                              const std::map<std::string, int64_t>& extents, int64_t vocabulary, int64_t past,
                              int64_t tokens, double seconds) {
  const std::vector<std::string> pasts = names_from(model.inputs(), "past"),
                                 presents = names_from(model.outputs(), "present");
  if (pasts.empty() || pasts.size() != presents.size()) {
    throw Error(ErrorCode::invalid_input,
                "--decode needs inputs past* and as many outputs present*, in the same order");
  }
  const auto sizes = [&](int64_t before, int64_t length) {
    std::map<std::string, int64_t> all = extents;
    all["past_sequence_length"] = before;
    all["sequence_length"] = length;
    all["total_sequence_length"] = before + length;
    return all;
  };
  const std::set<std::string> kept(presents.begin(), presents.end());
  const TensorMap prompt = generated_inputs(model, sizes(0, past), vocabulary);
  TensorMap results = run(prompt);
  Times prefill;
  const Clock::time_point loop = Clock::now();
  while (prefill.wall.empty() || (ms_since(loop) < seconds * 1e3 && prefill.wall.size() < 20)) {
    results.clear();
    prefill.take([&] {
      results = run(prompt);
      look_at(results, kept);
    });
  }
  Times steps;
  const std::set<std::string> caches(pasts.begin(), pasts.end());
  for (int64_t t = 0; t <= tokens; ++t) {
    TensorMap inputs = generated_inputs(model, sizes(past + t, 1), vocabulary, caches);
    for (size_t i = 0; i < pasts.size(); ++i) inputs[pasts[i]] = std::move(results.at(presents[i]));
    results.clear();
    steps.take([&] {
      results = run(std::move(inputs));
      look_at(results, kept);
    });
    if (t == 0) steps = {};  // traces, and makes room in the caches
  }
  prefill.sort();
  steps.sort();
  return {{"past", past},
          {"tokens", tokens},
          {"prefill_ms", quantile(prefill.wall, 0.5)},
          {"prefill_min_ms", quantile(prefill.wall, 0)},
          {"prefill_cpu_ms", quantile(prefill.cpu, 0.5)},
          {"token_ms", quantile(steps.wall, 0.5)},
          {"token_min_ms", quantile(steps.wall, 0)},
          {"token_p90_ms", quantile(steps.wall, 0.9)},
          {"token_cpu_ms", quantile(steps.cpu, 0.5)}};
}

}  // namespace transmuter::cli
