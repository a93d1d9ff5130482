// A window into what the library does: events for whoever listens, and counters that are always there. While nobody
// listens, an event costs one relaxed load. The library itself prints nothing. guides/telemetry.md shows both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace transmuter::telemetry {

enum class Kind : uint8_t {
  // Spans: they have a duration, and those that began while one was open on the same thread are its children.
  load,         // a model: file, nodes, weight_bytes
  trace,        // one trace made: graph (model, body, node), inputs, continuation, segments, breaks, guards
  compile,      // one segment: segment, ops, backend, steps
  bind,         // one program, for new sizes: sizes, steps, arena_bytes
  run,          // one call of a model: file, backend, eager, inputs
  segment,      // one segment ran: segment, ops, inputs
  graph_break,  // between two segments: segment (that ended before it), node, reason, inputs
  stage,        // a bound plan ran (cpu): steps, arena_bytes
  step,         // one launch of it: shapes, node, flops
  // Instants.
  hit,     // a trace or a plan that was there served a run: what (trace, plan), inputs or sizes
  miss,    // there was none
  evict,   // one made room for another
  memory,  // bytes that the process holds now: weights, prepared, arena, cache
  note,    // why a kernel did not take an op: op, kernel, reason
};
constexpr size_t kKinds = 14;
const char* name(Kind kind);  // "graph_break"
constexpr bool is_span(Kind kind) { return kind < Kind::hit; }

// A set of kinds.
using Kinds = uint32_t;
constexpr Kinds kinds(std::initializer_list<Kind> list) {
  Kinds set = 0;
  for (const Kind kind : list) set |= Kinds{1} << static_cast<unsigned>(kind);
  return set;
}
constexpr Kinds kAll = (Kinds{1} << kKinds) - 1;
// What there is for each kernel that runs or was refused. Whoever listens to steps has plans bound once more that were
// bound while nobody did, since those don't say what their steps read.
constexpr Kinds kDetail = kinds({Kind::stage, Kind::step, Kind::note});
constexpr Kinds kUsual = kAll & ~kDetail;

struct Attribute {
  std::string_view key;
  std::variant<int64_t, double, std::string_view> value;
};

// Everything in it lives as long as the call that hands it out.
struct Event {
  Kind kind = Kind::note;
  std::string_view name;  // of the kind; of a step its kernel; of a hit, a miss or an eviction what it is of
  uint64_t id = 0;        // of a span; no two are the same
  uint64_t parent = 0;    // the span that was open on this thread; 0: none, or nobody listened to it
  uint64_t thread = 0;    // 1, 2, ... in the order in which threads turned up here
  std::chrono::steady_clock::time_point start = {};
  std::chrono::nanoseconds duration = {};  // 0 of an instant
  bool failed = false;                     // an exception ended the span
  std::span<const Attribute> attributes = {};

  const Attribute* find(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise = 0) const;
  std::string_view text(std::string_view key) const;  // "" where there is none
};

using Subscriber = std::function<void(const Event&)>;

// Listens until it goes.
class Subscription {
 public:
  Subscription() = default;
  Subscription(Subscription&&) noexcept = default;
  Subscription& operator=(Subscription&& other) noexcept;
  ~Subscription() { stop(); }
  // When it returns, the subscriber runs on no thread and will not again; from inside of a subscriber it does not wait
  // for the other threads. Don't hold what the subscriber waits for.
  void stop();
  explicit operator bool() const { return listener_ != nullptr; }
  // Exceptions that the subscriber threw. They end there: the run goes on, and the subscriber gets the next event.
  int64_t failures() const;
  std::string first_failure() const;

 private:
  friend Subscription subscribe(Subscriber subscriber, Kinds kinds);
  std::shared_ptr<class Listener> listener_;
};

// From now on the subscriber gets the events of these kinds, on the thread that does what they tell of, a span when it
// ends. It may be called by several threads at once. None of the library's locks is held then, so it may load, run and
// subscribe; what it does so on its own thread makes no events.
[[nodiscard]] Subscription subscribe(Subscriber subscriber, Kinds kinds = kUsual);

extern std::atomic<Kinds> wanted_kinds;  // of all subscribers; written by subscribe() and stop() alone
inline bool anybody_listens(Kind kind) {
  return (wanted_kinds.load(std::memory_order_relaxed) >> static_cast<unsigned>(kind) & 1) != 0;
}

// The ready logger: one line an event, without a line break, to `sink`, from one thread at a time.
std::string line_of(const Event& event);
[[nodiscard]] Subscription log_to(std::function<void(const std::string& line)> sink, Kinds kinds = kUsual);

// Writes what happens while it lives as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.
struct TraceFileOptions {
  Kinds kinds = kAll;
  size_t max_events = size_t{1} << 20;  // kept in memory until the file is written; later ones are counted only
};
class TraceFile {
 public:
  // Throws Error(io) where the file cannot be made.
  explicit TraceFile(const std::string& path, const TraceFileOptions& options = {});
  ~TraceFile();  // close(), but a failure is lost
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  // Stops listening and writes the file. Throws Error(io).
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What this process did so far, all models together, those that are gone included; and what it holds now. Reading them
// waits for no run; while calls are in flight the figures are each right, but not of one moment.
struct Counters {
  int64_t loads = 0;
  int64_t runs = 0;         // that found or made a trace; eager ones too
  int64_t failed_runs = 0;  // calls that ended with an error
  int64_t traces = 0, body_traces = 0, node_traces = 0, continuations = 0;  // misses, as RunStats has them
  int64_t trace_hits = 0;                                                   // all of these together
  int64_t trace_evictions = 0;
  int64_t breaks = 0;                                    // in traces
  int64_t compiles = 0;                                  // segments
  int64_t binds = 0, plan_hits = 0, plan_evictions = 0;  // binds: the misses
  int64_t appends = 0, cache_copies = 0;                 // of caches that grow: in place; copied
  int64_t allocated_bytes = 0;                           // by runs
  double trace_seconds = 0, compile_seconds = 0, bind_seconds = 0;
  // Held now.
  int64_t weight_bytes = 0;    // as models store them, most of it mapped from files
  int64_t prepared_bytes = 0;  // what backends made of them
  int64_t arena_bytes = 0;     // working memory
  int64_t cache_bytes = 0;     // in which caches grow (cpu)
};
Counters counters();

// The same as metrics, with OpenTelemetry's names: "transmuter.plan.hits", unit "{hit}".
struct Metric {
  std::string name;
  std::string unit;  // as UCUM writes it: "s", "By", "{run}"
  std::string help;
  bool monotonic = true;                                    // a counter; else a gauge
  std::vector<std::pair<std::string, std::string>> labels;  // metrics of one name stand side by side
  double value = 0;
};
std::vector<Metric> metrics();

// As a server gives them out at /metrics: Prometheus' text format 0.0.4, or OpenMetrics 1.0.
enum class Exposition { prometheus, openmetrics };
std::string metrics_text(Exposition format = Exposition::prometheus);
std::string metrics_text(const std::vector<Metric>& metrics, Exposition format = Exposition::prometheus);
const char* content_type(Exposition format);

}  // namespace transmuter::telemetry
