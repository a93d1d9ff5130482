// The backend pjrt on a plugin that is made to fail (fake_pjrt.cc): what goes wrong is one Error each and nothing else,
// nothing that the plugin made is lost, and what was given away is never read.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "backends/pjrt/plugin.h"
#include "base/strings.h"
#include "fake_pjrt.h"
#include "ir/composites/composites.h"
#include "pjrt_testing.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;

const std::string kFake = TRANSMUTER_FAKE_PJRT "/libfake_pjrt.so";
const std::string kFakeBackend = "pjrt:" + kFake + ",cache=off";

testing::FakePjrt& fake() {
  Backend::get(kFakeBackend);  // so that it is open
  void* library = dlopen(kFake.c_str(), RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<testing::FakePjrt* (*)()>(dlsym(library, "fake_pjrt"))();
}

void expect_error(const std::string& name, ErrorCode code, const std::string& words) {
  const auto error = error_of([&] { run_small(*Backend::get(name)); });
  ASSERT_TRUE(error) << name;
  EXPECT_EQ(error->code(), code) << error->what();
  EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
  // Life goes on, here and elsewhere.
  EXPECT_EQ(run_small(*Backend::get("cpu")).to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(run_small(*Backend::get(kFakeBackend)).to_vector<float>(),
            (std::vector<float>{1, 2, 3}));  // it computes nothing
}

TEST(PjrtFaults, APluginThatIsNone) {
  const std::string folder = TRANSMUTER_FAKE_PJRT;
  expect_error("pjrt:/nowhere/plugin.so", ErrorCode::not_found, "there is no PJRT plugin /nowhere/plugin.so");
  expect_error("pjrt:" + folder + "/libfake_pjrt_nothing.so", ErrorCode::invalid_input, "no GetPjrtApi");
  expect_error("pjrt:" + folder + "/libfake_pjrt_old.so", ErrorCode::unsupported, "interface 0.10");
  const std::string text = ::testing::TempDir() + "/not_a_library.so";
  std::ofstream(text) << "hello";
  expect_error("pjrt:" + text, ErrorCode::invalid_input, "cannot be opened");
}

TEST(PjrtFaults, OptionsAndDevices) {
  const std::string fake = "pjrt:" + kFake;
  expect_error(fake + ",colour=blue", ErrorCode::invalid_input, "colour");
  expect_error(fake + ",blue", ErrorCode::invalid_input, "OPTION=VALUE");
  expect_error(fake + ",device=two", ErrorCode::invalid_input, "no number");
  expect_error(fake + ",device=", ErrorCode::invalid_input, "no number");
  expect_error(fake + ",device=99999999999999999999", ErrorCode::invalid_input, "no number");
  expect_error(fake + ",device=2", ErrorCode::invalid_input, "there is no device 2; the plugin has 2");
  expect_error(fake + ",device=-1", ErrorCode::invalid_input, "there is no device -1; the plugin has 2");
  expect_error(fake + ",count=0", ErrorCode::invalid_input, "the plugin has 0");
  expect_error(fake + ",count=99999999999999999999", ErrorCode::invalid_input, "unknown option");  // not 0
  expect_error(fake + ",placement=moon", ErrorCode::invalid_input, "placement");
  // Of a plugin for CPUs one device is asked for, but never as many as somebody names.
  const std::string cpu = ::testing::TempDir() + "/fake_cpu_plugin.so";
  fs::copy_file(kFake, cpu, fs::copy_options::overwrite_existing);
  expect_error("pjrt:" + cpu + ",device=100000", ErrorCode::invalid_input, "the plugin has 2");
  expect_error("pjrt:" + cpu + ",device=-1", ErrorCode::invalid_input, "the plugin has 2");
  EXPECT_EQ(run_small(*Backend::get("pjrt:" + cpu + ",cache=off,device=1")).to_vector<float>(),
            (std::vector<float>{1, 2, 3}));
}

TEST(PjrtFaults, WhatThePluginFailsAt) {
  const std::string fake = kFakeBackend + ",fail=";
  expect_error(fake + "client", ErrorCode::internal, "no device answers at all");
  expect_error(fake + "compile", ErrorCode::internal, "this compiler is out of order");
  expect_error(fake + "upload", ErrorCode::out_of_memory, "12 bytes");
  expect_error(fake + "run", ErrorCode::out_of_memory, "out of memory while running");
  expect_error(fake + "read", ErrorCode::internal, "the device fell over");
}

TEST(PjrtMemory, FiguresAreThePlugins) {
  const MemoryFigures figures = Backend::get(kFakeBackend)->memory();
  EXPECT_EQ(figures.in_use, 100);
  EXPECT_EQ(figures.peak, 200);
  EXPECT_EQ(figures.limit, -1);  // it doesn't say
}

// x + a weight, twice: the second time on what the first gave, which is given away.
std::vector<float> run_weighted(const Backend& backend) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {3}}, "x");
  const ir::Value w = build.weight(Tensor(std::vector<float>{5, 6, 7}, {3}), "w");
  const auto executable = backend.compile(build.finish({build.add(x, w)}, {"y"}), {});
  std::vector<Buffer> inputs{backend.upload(Tensor(std::vector<float>{1, 2, 3}, {3}))};
  for (int i = 0; i < 2; ++i) {
    Bindings bindings(ShapeScope::create());
    inputs = executable->run(inputs, bindings);
    inputs[0].donated = true;
  }
  return backend.download(inputs[0]).to_vector<float>();
}

TEST(PjrtFaults, MemoryThatRunsOutAtAnyCallIsOneErrorAndNothingIsLost) {
  const int64_t live = fake().live;
  const std::vector<float> expected{1, 2, 3};  // it computes nothing
  int64_t failures = 0;
  for (int64_t n = 0;; ++n) {
    const std::string name = str(kFakeBackend, ",count=", n + 10);  // a client of its own
    fake().has_failed = false;
    fake().calls_left = n;
    std::vector<float> got;
    const auto error = error_of([&] { got = run_weighted(*Backend::get(name)); });
    fake().calls_left = -1;
    if (!fake().has_failed) break;
    if (error) {
      EXPECT_EQ(error->code(), ErrorCode::out_of_memory) << n << ": " << error->what();
      ++failures;
    } else {  // something that a run can do without
      EXPECT_EQ(got, expected) << n;
    }
    EXPECT_EQ(fake().live, live) << n;
    EXPECT_EQ(run_weighted(*Backend::get(name)), expected) << n;
    EXPECT_EQ(fake().live, live) << n;
    ASSERT_LT(n, 100);
  }
  EXPECT_GT(failures, 8);
}

// On the device, as a run leaves it.
Buffer placed(const Backend& backend, const std::vector<float>& values) {
  const int64_t n = static_cast<int64_t>(values.size());
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {n}}, "x");
  const auto executable = backend.compile(build.finish({build.add(x, x)}, {"y"}), {});
  std::vector<Buffer> inputs{backend.upload(Tensor(values, {n}))};
  Bindings bindings(ShapeScope::create());
  return executable->run(inputs, bindings)[0];
}

void expect_gone(const Backend& backend, const Buffer& buffer) {
  const auto error = error_of([&] { backend.download(buffer); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_input);
  EXPECT_NE(std::string(error->what()).find("was given to an earlier run"), std::string::npos) << error->what();
}

TEST(PjrtDonation, WhatARunTookIsNeverRead) {
  const auto backend = Backend::get(kFakeBackend);
  const auto executable = backend->compile(small_program(), {});
  const Buffer x = placed(*backend, {1, 2, 3});
  const auto run = [&] {
    std::vector<Buffer> inputs{x};
    inputs[0].donated = true;
    Bindings bindings(ShapeScope::create());
    return backend->download(executable->run(inputs, bindings)[0]).to_vector<float>();
  };
  EXPECT_EQ(run(), (std::vector<float>{1, 2, 3}));
  expect_gone(*backend, x);
  const auto error = error_of(run);
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error->what()).find("input x"), std::string::npos) << error->what();
}

TEST(PjrtDonation, ARunThatDidNotStartTookNothing) {
  const auto backend = Backend::get(kFakeBackend);
  const auto executable = backend->compile(small_program(), {});
  for (int64_t n = 0;; ++n) {
    const Buffer x = placed(*backend, {1, 2, 3});
    std::vector<Buffer> inputs{x};
    inputs[0].donated = true;
    Bindings bindings(ShapeScope::create());
    fake().has_failed = false;
    fake().calls_left = n;
    const auto error = error_of([&] { executable->run(inputs, bindings); });
    fake().calls_left = -1;
    if (error) {
      EXPECT_EQ(backend->download(x).to_vector<float>(), (std::vector<float>{1, 2, 3})) << n;
    } else {
      expect_gone(*backend, x);
    }
    if (!fake().has_failed) break;
    ASSERT_LT(n, 20);
  }
}

TEST(PjrtDonation, WhatIsGivenTwiceStays) {
  const auto backend = Backend::get(kFakeBackend);
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {3}}, "x"), y = build.input({DType::f32, {3}}, "y");
  const auto executable = backend->compile(build.finish({build.add(x, y)}, {"z"}), {});
  const Buffer both = placed(*backend, {1, 2, 3});
  std::vector<Buffer> inputs{both, both};
  inputs[0].donated = true;
  Bindings bindings(ShapeScope::create());
  const Buffer z = executable->run(inputs, bindings)[0];
  EXPECT_EQ(backend->download(z).to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(backend->download(both).to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST(PjrtDonation, TheHostsPartHasReadAnInputBeforeTheDeviceTakesIt) {
  const auto backend = Backend::get(kFakeBackend);
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  ir::Builder build(scope);
  const ir::Value x = build.input({DType::f32, {4}}, "x");
  const ir::Value places = ir::nonzero(build, x);
  const auto executable = backend->compile(build.finish({build.add(x, x), places}, {"y", "places"}), {});
  std::vector<Buffer> inputs{placed(*backend, {1, 0, 3, 0})};
  inputs[0].donated = true;
  Bindings bindings(scope);
  const std::vector<Buffer> results = executable->run(inputs, bindings);
  EXPECT_EQ(backend->download(results[1]).to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
  expect_gone(*backend, inputs[0]);
}

// Programs leave the sixteen that are kept while others run them.
TEST(PjrtThreads, ProgramsGoWhileTheyRun) {
  const int64_t live = fake().live;
  {
    const auto backend = Backend::get(kFakeBackend + ",sizes=exact");
    const auto scope = ShapeScope::create();
    std::unique_ptr<Executable> executable;
    {
      const ShapeScope::Enter enter(scope);
      ir::Builder build(scope);
      const ir::Value x = build.input({DType::f32, {scope->input_extent(0, 0, 3, "n")}}, "x");
      executable = backend->compile(build.finish({build.add(x, x)}, {"y"}), {});
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          const int64_t size = 1 + (i * 7 + t * 5) % 40;
          const std::vector<float> values(static_cast<size_t>(size), static_cast<float>(i));
          Bindings bindings(scope);
          bindings.set(0, size);
          std::vector<Buffer> inputs{backend->upload(Tensor(values, {size}))};
          std::vector<Buffer> results = executable->run(inputs, bindings);
          if (i % 10 == t) executable->trim();
          if (executable->stats().plans > 17) ++wrong;
          if (backend->download(results[0]).to_vector<float>() != values) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
  EXPECT_EQ(fake().live, live);
}

TEST(PjrtDiskCache, WhatThePluginCannotStoreOrLoadIsCompiled) {
  const std::string folder = ::testing::TempDir() + "/pjrt_stored";
  fs::remove_all(folder);
  const std::string name = str("pjrt:", kFake, ",slow=true,cache=", folder);
  // How many programs a backend of that name compiles for its first run.
  const auto compiled = [&](const std::string& options) {
    const int64_t before = fake().compiled;
    EXPECT_EQ(run_small(*Backend::get(name + options)).to_vector<float>(), (std::vector<float>{1, 2, 3}));
    return fake().compiled - before;
  };
  EXPECT_EQ(compiled(",fail=store"), 2);  // one of them asks what the plugin knows: that was stored
  EXPECT_EQ(compiled(""), 1);
  EXPECT_EQ(compiled(",count=3"), 0);
  EXPECT_EQ(compiled(",fail=load"), 1);
  for (const auto& entry : fs::directory_iterator(folder)) fs::resize_file(entry.path(), fs::file_size(entry) / 2);
  EXPECT_EQ(compiled(",count=4"), 2);
  EXPECT_EQ(compiled(",count=5"), 0);  // both written anew
}

}  // namespace
}  // namespace transmuter
