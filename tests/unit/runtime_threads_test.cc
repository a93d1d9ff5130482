// Compiled models called from several threads at once. TRANSMUTER_STRESS_SECONDS says how long (default 1); run under
// the thread sanitizer by scripts/sanitize.sh.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "runtime_models.h"

namespace transmuter::runtime::testing {
namespace {

using Clock = std::chrono::steady_clock;

CompiledModel compiled_on(const Model& model, const std::string& backend, int threads = 2, int cache_size = 8) {
  CompileOptions options;
  options.backend = backend;
  options.threads = threads;
  options.cache_size = cache_size;
  return model.compile(options);
}

Clock::duration stress_time() {
  const char* seconds = std::getenv("TRANSMUTER_STRESS_SECONDS");
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds ? std::atof(seconds) : 1));
}

// The first complaint of any thread.
class Complaints {
 public:
  void add(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_.empty()) first_ = text;
  }
  std::string first() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::string first_;
};

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

std::string drawn_wrongly(const TensorMap& out, const TensorMap& in) {
  const Tensor &y = out.at("y").tensor, &x = in.at("x").tensor;
  if (y.shape() != x.shape()) return "another shape";
  for (const float v : y.to_vector<float>())
    if (!(v >= 0 && v < 1)) return "out of range";
  return "";
}

struct Case {
  SmallModel small;
  Model model;
  CompiledModel run;
  std::vector<TensorMap> inputs, expected;
};

std::vector<Case> cases_on(const std::string& backend, int cache_size) {
  std::vector<Case> cases;
  for (SmallModel& small : small_models()) {
    Model model = load(small.parts);
    Case c{small, model, compiled_on(model, backend, 2, cache_size), {}, {}};
    const CompiledModel alone = compiled_on(model, backend, 1);
    for (int round = 0; round < small.rounds; ++round) {
      c.inputs.push_back(small.inputs(round));
      c.expected.push_back(alone(c.inputs.back()));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

// Three callers of every model, shapes changing, errors and trims in between, listings read meanwhile: the results are
// those of one thread alone.
void stress(const std::string& backend, Clock::duration time) {
  const std::vector<Case> cases = cases_on(backend, 2);  // too small a cache: traces come and go
  Complaints complaints;
  std::atomic<int64_t> calls{0};
  const Clock::time_point end = Clock::now() + time;
  in_threads(3, [&](int thread) {
    uint32_t state = 17u + static_cast<uint32_t>(thread);
    do {
      state = state * 1664525u + 1013904223u;
      const Case& c = cases[(state >> 8) % cases.size()];
      const size_t round = (state >> 16) % c.inputs.size();
      try {
        const TensorMap out = c.run(c.inputs[round]);
        const std::string wrong =
            c.small.draws ? drawn_wrongly(out, c.inputs[round]) : difference(out, c.expected[round]);
        if (!wrong.empty()) complaints.add(c.small.name + ", round " + std::to_string(round) + ": " + wrong);
        ++calls;
        if (state >> 27 == 0) c.run.trim();
        if (state >> 27 == 1 && c.run.trace_text().empty()) complaints.add("no text");
        if (state >> 27 == 2 && c.run.stats().traces < 1) complaints.add("no traces");
        if (state >> 27 == 3 && c.run.stats().breaks == 0 && c.run.stablehlo().empty()) complaints.add("no program");
      } catch (const std::exception& error) {
        complaints.add(c.small.name + ": " + error.what());
      }
      if (state >> 27 == 4) {
        const std::string error = error_in([&] { c.run({{"no such input", Tensor::scalar(1.0f)}}); });
        if (error.empty()) complaints.add("no error");
      }
    } while (Clock::now() < end && complaints.first().empty());
  });
  EXPECT_EQ(complaints.first(), "");
  std::printf("%lld calls\n", static_cast<long long>(calls.load()));
}

TEST(Threads, ResultsAreThoseOfOneThreadOnTheCpu) { stress("cpu", stress_time()); }
TEST(Threads, ResultsAreThoseOfOneThreadOnTheReference) { stress("reference", stress_time() / 4); }

TEST(Threads, TheFirstCallsOfAKindTraceAndBindOnce) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const SmallModel small = encoder();
    const CompiledModel run = compiled_on(load(small.parts), "cpu");
    in_threads(4, [&](int) { run(small.inputs(1)); });
    EXPECT_EQ(run.stats().runs, 4);
    EXPECT_EQ(run.stats().traces, 1);
    EXPECT_EQ(run.stats().binds, 1);
    EXPECT_EQ(run.stats().plan_hits, 3);
  }
}

TEST(Threads, AFailedTraceIsNotKept) {
  // y = Reshape(x, [3, -1]): 4 elements don't divide.
  const GraphParts parts{.nodes = {node("Reshape", {"x", "to"}, {"y"})},
                         .inputs = {shaped("x", kFloat, {"n"})},
                         .outputs = {value("y")},
                         .initializers = {int64_tensor("to", {3, -1})}};
  for (const char* backend : {"cpu", "reference"}) {
    const CompiledModel run = compiled_on(load(parts), backend);
    std::atomic<int> errors{0}, right{0};
    in_threads(4, [&](int thread) {
      for (int64_t i = 0; i < 10; ++i) {
        const int64_t n = (thread + i) % 2 ? 4 : 6;
        try {
          right += run({{"x", counting({n})}}).at("y").tensor.shape() == Shape{3, 2};
        } catch (const Error& error) {
          errors += n == 4 && error.code() == ErrorCode::invalid_input;
        }
      }
    });
    EXPECT_EQ(right, 20) << backend;
    EXPECT_EQ(errors, 20) << backend;
    EXPECT_EQ(run.stats().traces, 1) << backend;
  }
}

TEST(Threads, CompiledModelsOfOneModelRunAtOnce) {
  const SmallModel small = encoder();
  const Model model = load(small.parts);
  const TensorMap expected = compiled_on(model, "cpu", 1)(small.inputs(3));
  Complaints complaints;
  in_threads(3, [&](int thread) {
    const CompiledModel run = compiled_on(model, "cpu", 1 + thread % 2);
    for (int i = 0; i < 10; ++i) complaints.add(difference(run(small.inputs(3)), expected));
  });
  EXPECT_EQ(complaints.first(), "");
}

}  // namespace
}  // namespace transmuter::runtime::testing
