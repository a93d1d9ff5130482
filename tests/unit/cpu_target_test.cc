#include "backends/cpu/kernels/target.h"

#include <gmock/gmock.h>

#include "transmuter/error.h"

namespace transmuter::cpu {
namespace {

TEST(CpuTarget, EveryTargetOfTheMachineCanBeForced) {
  const auto targets = available_targets();
  ASSERT_FALSE(targets.empty());
  for (const std::string& name : targets) {
    set_target(name);
    EXPECT_EQ(current_target(), name);
  }
  set_target("scalar");
  EXPECT_EQ(current_target(), targets.back());
  set_target("");
}

TEST(CpuTarget, AnUnknownNameIsAnError) { EXPECT_THROW(set_target("AVX9"), Error); }

}  // namespace
}  // namespace transmuter::cpu
