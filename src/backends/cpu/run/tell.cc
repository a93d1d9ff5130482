#include "backends/cpu/run/tell.h"

#include <algorithm>

#include "base/strings.h"

namespace transmuter::cpu {
namespace {

constexpr size_t kMaxSizes = 16;

}  // namespace

std::string sizes_text(const ir::Program& program, const std::vector<int64_t>& values) {
  if (!program.scope()) return "";
  const std::vector<Symbol>& symbols = program.scope()->symbols();
  std::vector<std::string> sizes;
  for (size_t i = 0; i < symbols.size() && i < values.size() && sizes.size() < kMaxSizes; ++i) {
    if (values[i] == INT64_MIN) continue;
    std::string size = str(symbols[i].name, "=", values[i]);  // several inputs may have one of this name
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(std::move(size));
  }
  std::string text;
  for (const std::string& size : sizes) text += (text.empty() ? "" : ", ") + size;
  return text;
}

void tell_plan(telemetry::Kind kind, const ir::Program& program, const std::vector<int64_t>& values) {
  if (telemetry::anybody_listens(kind)) telemetry::tell(kind, "plan", {{"sizes", sizes_text(program, values)}});
}

void tell_steps(const ir::Program& program, const BoundPlan& plan,
                const std::vector<std::chrono::steady_clock::time_point>& times) {
  using telemetry::Attribute, telemetry::Kind;
  if (times.size() != plan.launches.size() + 1) return;
  telemetry::Event stage;
  stage.kind = Kind::stage;
  stage.name = name(Kind::stage);
  stage.id = telemetry::new_id();
  stage.parent = telemetry::current_span();
  stage.thread = telemetry::this_thread();
  for (size_t i = 0; i < plan.launches.size() && telemetry::anybody_listens(Kind::step); ++i) {
    const BoundLaunch& launch = plan.launches[i];
    telemetry::Event step = stage;
    step.kind = Kind::step;
    step.name = launch.kernel;
    step.id = telemetry::new_id();
    step.parent = stage.id;
    step.start = times[i];
    step.duration = times[i + 1] - times[i];
    const std::string_view node =
        launch.location >= 0 ? program.locations()[static_cast<size_t>(launch.location)] : std::string_view();
    const std::string_view shapes = i < plan.shapes.size() ? plan.shapes[i] : std::string_view();
    const Attribute attributes[] = {{"shapes", shapes}, {"node", node}, {"flops", launch.flops}};
    step.attributes = attributes;
    telemetry::emit(step);
  }
  if (!telemetry::anybody_listens(Kind::stage)) return;
  stage.start = times.front();
  stage.duration = times.back() - times.front();
  const Attribute attributes[] = {{"steps", static_cast<int64_t>(plan.launches.size())},
                                  {"arena_bytes", plan.arena_bytes}};
  stage.attributes = attributes;
  telemetry::emit(stage);
}

}  // namespace transmuter::cpu
