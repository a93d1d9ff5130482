#include <cstdio>
#include <mutex>

#include "base/strings.h"
#include "transmuter/telemetry.h"

namespace transmuter::telemetry {
namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double milliseconds(const Event& event) { return std::chrono::duration<double, std::milli>(event.duration).count(); }

std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  if (out.size() < width) out.resize(width, ' ');
  return out;
}

std::string step_line(const Event& event) {
  const double seconds = std::chrono::duration<double>(event.duration).count();
  const Attribute* const flops = event.find("flops");
  const double* const count = flops ? std::get_if<double>(&flops->value) : nullptr;
  return str("step  ", padded(event.name, 12), number(" %8.3f ms", seconds * 1e3),
             number(" %7.1f GF/s  ", count && seconds > 0 ? *count / seconds * 1e-9 : 0.0), event.text("shapes"), "  ",
             event.text("node"));
}

}  // namespace

std::string line_of(const Event& event) {
  if (event.kind == Kind::step) return step_line(event);
  std::string line = padded(name(event.kind), 5);
  if (event.name != name(event.kind)) line += str(" ", event.name);
  if (is_span(event.kind)) line += number(" %.3f ms", milliseconds(event));
  if (event.failed) line += " FAILED";
  for (const Attribute& attribute : event.attributes) {
    line += str("  ", attribute.key, " ");
    if (const auto* text = std::get_if<std::string_view>(&attribute.value)) {
      for (const char c : *text) line += c == '\n' || c == '\r' ? ' ' : c;
    } else if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
      line += std::to_string(*integer);
    } else {
      line += number("%g", std::get<double>(attribute.value));
    }
  }
  return line;
}

Subscription log_to(std::function<void(const std::string& line)> sink, Kinds kinds) {
  return subscribe(
      [sink = std::move(sink), mutex = std::make_shared<std::mutex>()](const Event& event) {
        const std::string line = line_of(event);
        const std::lock_guard<std::mutex> lock(*mutex);
        sink(line);
      },
      kinds);
}

}  // namespace transmuter::telemetry
