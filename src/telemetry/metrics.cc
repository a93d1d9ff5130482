#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "transmuter/telemetry.h"

namespace transmuter::telemetry {
namespace {

// "transmuter.trace.time" in "s" -> "transmuter_trace_time_seconds", as OpenTelemetry's rules for Prometheus say.
std::string family_of(const Metric& metric) {
  std::string family = metric.name;
  for (char& c : family)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (metric.unit == "s") return family + "_seconds";
  if (metric.unit == "By") return family + "_bytes";
  return family;
}

const char* unit_word(const Metric& metric) {
  if (metric.unit == "s") return "seconds";
  return metric.unit == "By" ? "bytes" : "";
}

std::string escaped(const std::string& text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  char text[40];
  const bool whole = value == std::floor(value) && std::fabs(value) < 1e15;
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", value);
  return text;
}

}  // namespace

std::vector<Metric> metrics() {
  const Counters c = counters();
  std::vector<Metric> all;
  const auto count = [&](const char* name, const char* unit, const char* help, int64_t value,
                         std::vector<std::pair<std::string, std::string>> labels = {}) {
    all.push_back({name, unit, help, true, std::move(labels), static_cast<double>(value)});
  };
  count("transmuter.loads", "{model}", "Models loaded.", c.loads);
  count("transmuter.runs", "{run}", "Calls of models that found or made a trace, or ran eagerly.", c.runs);
  count("transmuter.failed_runs", "{run}", "Calls of models that ended with an error.", c.failed_runs);
  constexpr const char* kTraces = "Traces made: misses of the cache of traces.";
  count("transmuter.traces", "{trace}", kTraces, c.traces, {{"graph", "model"}});
  count("transmuter.traces", "{trace}", kTraces, c.body_traces, {{"graph", "body"}});
  count("transmuter.traces", "{trace}", kTraces, c.node_traces, {{"graph", "node"}});
  count("transmuter.traces", "{trace}", kTraces, c.continuations, {{"graph", "continuation"}});
  count("transmuter.trace.hits", "{trace}", "Traces that were there and served.", c.trace_hits);
  count("transmuter.trace.evictions", "{trace}", "Traces dropped to make room for others.", c.trace_evictions);
  count("transmuter.breaks", "{break}", "Graph breaks in the traces made.", c.breaks);
  count("transmuter.compiles", "{segment}", "Segments compiled.", c.compiles);
  count("transmuter.plans", "{plan}", "Plans made for new sizes: misses of the cache of plans.", c.binds);
  count("transmuter.plan.hits", "{plan}", "Plans that were there and served.", c.plan_hits);
  count("transmuter.plan.evictions", "{plan}", "Plans dropped to make room for others.", c.plan_evictions);
  count("transmuter.cache.appends", "{cache}", "Caches that grew in place.", c.appends);
  count("transmuter.cache.copies", "{cache}", "Caches that were copied, to grow or to be read.", c.cache_copies);
  count("transmuter.allocated", "By", "Memory that runs allocated.", c.allocated_bytes);
  const auto time = [&](const char* name, const char* help, double seconds) {
    all.push_back({name, "s", help, true, {}, seconds});
  };
  time("transmuter.trace.time", "Time spent tracing models, passes included.", c.trace_seconds);
  time("transmuter.compile.time", "Time spent compiling models.", c.compile_seconds);
  time("transmuter.bind.time", "Time spent making plans for new sizes.", c.bind_seconds);
  const auto bytes = [&](const char* kind, int64_t value) {
    all.push_back({"transmuter.memory", "By", "Memory held now.", false, {{"kind", kind}}, static_cast<double>(value)});
  };
  bytes("weights", c.weight_bytes);
  bytes("prepared", c.prepared_bytes);
  bytes("arena", c.arena_bytes);
  bytes("cache", c.cache_bytes);
  return all;
}

std::string metrics_text(const std::vector<Metric>& metrics, Exposition format) {
  const bool open = format == Exposition::openmetrics;
  std::string text, last;
  for (const Metric& metric : metrics) {
    const std::string family = family_of(metric), sample = family + (metric.monotonic ? "_total" : "");
    if (family != last) {
      last = family;
      // A family has its counters' suffix in Prometheus' own format alone.
      const std::string& named = open ? family : sample;
      text += str("# HELP ", named, " ", escaped(metric.help, open), "\n");
      text += str("# TYPE ", named, metric.monotonic ? " counter\n" : " gauge\n");
      if (open && *unit_word(metric)) text += str("# UNIT ", named, " ", unit_word(metric), "\n");
    }
    text += sample;
    const char* before = "{";
    for (const auto& [key, value] : metric.labels) {
      text += str(before, key, "=\"", escaped(value, true), "\"");
      before = ",";
    }
    if (!metric.labels.empty()) text += '}';
    text += str(" ", number(metric.value), "\n");
  }
  if (open) text += "# EOF\n";
  return text;
}

std::string metrics_text(Exposition format) { return metrics_text(metrics(), format); }

const char* content_type(Exposition format) {
  return format == Exposition::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                           : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace transmuter::telemetry
