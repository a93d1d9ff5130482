// Memory that runs out at any place: one Error, nothing broken, the next call works. This program's operator new and
// aligned_alloc fail on request, so it is one of its own.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>

#include "../unit/runtime_models.h"

namespace {

std::atomic<int64_t> allowed{-1};  // allocations until one fails, once; negative: none does
std::atomic<bool> has_failed{false};

bool fails_now() {
  if (allowed.load(std::memory_order_relaxed) < 0 || allowed.fetch_sub(1) != 0) return false;
  has_failed = true;
  return true;
}

void* take(size_t bytes, size_t alignment) {
  void* memory = nullptr;
  if (fails_now() || posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return take(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return take(bytes, static_cast<size_t>(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  void* memory = nullptr;
  return fails_now() || posix_memalign(&memory, alignment, bytes) != 0 ? nullptr : memory;
}

namespace transmuter::runtime::testing {
namespace {

// Calls `step` with the first allocation failing, the second, ... until none is left to fail; later ones in ever longer
// strides. `prepare` comes before each; after each failure `check` must hold.
void sweep(const std::string& what, const std::function<void()>& prepare, const std::function<void()>& step,
           const std::function<void()>& check) {
  int64_t failures = 0;
  for (int64_t n = 0;; n += 1 + n / 40) {
    bool threw = false;
    prepare();
    has_failed = false;
    allowed = n;
    try {
      step();
      allowed = -1;
    } catch (const Error& error) {
      allowed = -1;
      threw = true;
      ASSERT_EQ(error.code(), ErrorCode::out_of_memory) << what << ", allocation " << n << ": " << error.what();
    } catch (const std::exception& error) {
      allowed = -1;
      FAIL() << what << ", allocation " << n << ": not an Error: " << error.what();
    }
    if (!has_failed) break;
    // Where nothing was thrown the memory was for something that a run can do without.
    failures += threw ? 1 : 0;
    check();
    if (::testing::Test::HasFailure()) FAIL() << what << ", after allocation " << n << " failed";
  }
  EXPECT_GT(failures, 5) << what;
}

class FaultsOn : public ::testing::TestWithParam<const char*> {};

TEST_P(FaultsOn, TheFirstCall) {
  for (const SmallModel& small : small_models()) {
    const Model model = load(small.parts);
    CompileOptions options;
    options.backend = GetParam();
    options.threads = 2;
    const TensorMap inputs = small.inputs(3), expected = model.compile(options)(inputs);
    std::optional<CompiledModel> run;
    sweep(
        small.name, [&] { run.reset(); },
        [&] {
          run = model.compile(options);
          (*run)(inputs);
        },
        [&] {
          if (!run) run = model.compile(options);
          const TensorMap out = (*run)(inputs);
          EXPECT_TRUE(small.draws || difference(out, expected).empty());
        });
  }
}

TEST_P(FaultsOn, LaterCalls) {
  for (const SmallModel& small : small_models()) {
    const Model model = load(small.parts);
    CompileOptions options;
    options.backend = GetParam();
    options.threads = 2;
    const CompiledModel run = model.compile(options);
    const TensorMap inputs = small.inputs(3), expected = model.compile(options)(inputs);
    run(inputs);
    const auto check = [&] {
      const TensorMap out = run(inputs);
      EXPECT_TRUE(small.draws || difference(out, expected).empty());
    };
    sweep(
        small.name + ", sizes met before", [] {}, [&] { run(inputs); }, check);
    sweep(
        small.name + ", sizes to bind", [&] { run.trim(); }, [&] { run(inputs); }, check);
  }
}

TEST(Faults, Loading) {
  const std::string model = onnx::testing::model({.graph = graph(encoder().parts), .opsets = {opset("", 18)}});
  std::vector<std::byte> bytes;
  sweep(
      "loading",
      [&] {
        const auto* first = reinterpret_cast<const std::byte*>(model.data());
        bytes.assign(first, first + model.size());
      },
      [&] { Model::from_bytes(std::move(bytes)); }, [] {});
}

INSTANTIATE_TEST_SUITE_P(Backends, FaultsOn, ::testing::Values("cpu", "reference"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace transmuter::runtime::testing
