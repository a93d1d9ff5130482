#define HWY_WANT_AVX3_DL  // some kernels have it; naming it must be possible
#include "backends/cpu/kernels/target.h"

#include <cstdlib>
#include <mutex>

#include <hwy/targets.h>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::cpu {
namespace {

int64_t available() {
  static const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}

std::string upper(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

void use(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void force(std::string_view name) {
  if (name.empty()) return use(0);
  std::string wanted = upper(name);
  if (wanted == "AVX512") wanted = "AVX3";
  if (wanted == "BASELINE" || wanted == "EMU128" || wanted == "SCALAR") wanted = available_targets().back();
  for (int64_t left = available(); left; left &= left - 1) {
    const int64_t target = left & -left;
    // A lower bit is a better set: keep this one and all worse.
    if (wanted == hwy::TargetName(target)) return use(available() & ~(target - 1));
  }
  throw Error(ErrorCode::invalid_input,
              str("TRANSMUTER_TARGET names the instruction set ", name, ", which this machine or this build lacks"));
}

}  // namespace

void init_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    available();
    const char* name = std::getenv("TRANSMUTER_TARGET");
    if (name && *name) force(name);
  });
}

std::string current_target() {
  init_target();
  const int64_t targets = hwy::SupportedTargets() & available();
  return hwy::TargetName(targets & -targets);
}

std::vector<std::string> available_targets() {
  std::vector<std::string> names;
  for (int64_t left = available(); left; left &= left - 1) names.emplace_back(hwy::TargetName(left & -left));
  return names;
}

void set_target(std::string_view name) {
  init_target();
  force(name);
}

}  // namespace transmuter::cpu
