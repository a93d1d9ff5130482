// Saving graphs: weights inside, outside, moved; all or nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "errors.h"
#include "onnx_messages.h"
#include "temporary_folder.h"
#include "transmuter/graph.h"
#include "transmuter/model.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using onnx::testing::node;
using onnx::testing::value;
using ::testing::HasSubstr;

class GraphSave : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "other");
    std::vector<float> weights(600);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
    std::ofstream(path("model.onnx"), std::ios::binary) << onnx::testing::model_of(
        {.nodes = {node("Add", {"x", "w"}, {"h"}), node("Add", {"h", "small"}, {"y"})},
         .inputs = {value("x")},
         .outputs = {value("y")},
         .initializers = {onnx::testing::tensor("w", 1, {600}, onnx::testing::floats(weights)),
                          onnx::testing::tensor("small", 1, {1}, onnx::testing::floats({0.5f}))}});
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::recursive_directory_iterator(folder_.path()), {}));
  }
  static float last(const Model& model) {
    const TensorMap out = model.run({{"x", Tensor(std::vector<float>{1}, {1})}}, "reference");
    return out.at("y").tensor.to_vector<float>().back();
  }

  TemporaryFolder folder_;
};

TEST_F(GraphSave, AnUneditedModelIsTheSameFile) {
  Graph::load(path("model.onnx")).save(path("copy.onnx"));
  EXPECT_EQ(text("copy.onnx"), text("model.onnx"));
  Graph::load(path("model.onnx")).save(path("model.onnx"));
  EXPECT_EQ(text("copy.onnx"), text("model.onnx"));
}

TEST_F(GraphSave, WeightsMoveOutAndIn) {
  SaveOptions options;
  options.weights = SaveOptions::Weights::external;
  Graph::load(path("model.onnx")).save(path("out.onnx"), options);
  EXPECT_EQ(fs::file_size(path("out.onnx.data")), 2400u);
  EXPECT_LT(fs::file_size(path("out.onnx")), 600u) << "the small tensor stays";
  EXPECT_EQ(last(Model::load(path("out.onnx"))), 600.5f);
  EXPECT_EQ(last(Model::from_graph(Graph::load(path("out.onnx")))), 600.5f);

  options.weights = SaveOptions::Weights::embed;
  Graph::load(path("out.onnx")).save(path("other/in.onnx"), options);
  EXPECT_EQ(last(Model::load(path("other/in.onnx"))), 600.5f);
  EXPECT_EQ(Graph::load(path("other/in.onnx")).initializer("w").to_vector<float>()[599], 599.f);
}

TEST_F(GraphSave, ExternalWeightsStayWhereTheyAreFound) {
  SaveOptions options;
  options.weights = SaveOptions::Weights::external;
  options.data_file = "weights.bin";
  Graph::load(path("model.onnx")).save(path("out.onnx"), options);
  const Graph graph = Graph::load(path("out.onnx"));
  const Graph edited = graph.edit().rename_value("w", "weight").set_metadata("a", "b").commit();
  EXPECT_EQ(edited.metadata().at("a"), "b");
  edited.save(path("beside.onnx"));
  EXPECT_EQ(last(Model::load(path("beside.onnx"))), 600.5f);
  EXPECT_THAT(error_of([&] { edited.save(path("other/edited.onnx")); }), HasSubstr("would not find it"));
  EXPECT_FALSE(fs::exists(path("other/edited.onnx")));
  // Over itself: the data that is read is replaced at the end only.
  Graph::load(path("out.onnx")).save(path("out.onnx"), options);
  EXPECT_EQ(last(Model::load(path("out.onnx"))), 600.5f);
  for (const char* name : {"../weights.bin", "a/b", ".", "..", "out.onnx"}) {
    options.data_file = name;
    EXPECT_THAT(error_of([&] { graph.save(path("out.onnx"), options); }), HasSubstr("cannot name the file")) << name;
  }
}

TEST_F(GraphSave, AFailureLeavesWhatWasThere) {
  const Graph graph = Graph::load(path("model.onnx"));
  const std::string before = text("model.onnx");
  const size_t count = files();
  EXPECT_THAT(error_of([&] { graph.save(path("nowhere/out.onnx")); }), HasSubstr("cannot write"));
  EXPECT_THAT(error_of([&] { graph.save(path("other")); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { graph.save("/dev/null"); }), HasSubstr("not a regular file"));
  // A file system that is full, in the middle of the weights.
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, old.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  SaveOptions external;
  external.weights = SaveOptions::Weights::external;
  const std::string inside = error_of([&] { graph.save(path("model.onnx")); });
  const std::string outside = error_of([&] { graph.save(path("model.onnx"), external); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(inside, HasSubstr("cannot write"));
  EXPECT_THAT(outside, HasSubstr("cannot write"));
  EXPECT_EQ(text("model.onnx"), before);
  EXPECT_EQ(files(), count) << "nothing partial is left";
}

TEST_F(GraphSave, ModelsBeyondTwoGigabytesNeedTheirWeightsOutside) {
  constexpr size_t kBytes = (size_t{1} << 31) + 4096;
  // Pages of zeros that nobody touches.
  void* memory = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space";
  const std::shared_ptr<const void> owner(memory, [](void* address) { ::munmap(address, kBytes); });
  const Tensor big = Tensor::view(DType::u8, {static_cast<int64_t>(kBytes)}, static_cast<std::byte*>(memory), owner);
  const Graph graph = Graph::load(path("model.onnx")).edit().set_initializer("big", big).commit();
  EXPECT_EQ(last(Model::from_graph(graph)), 600.5f) << "in memory it is no trouble";
  EXPECT_THAT(error_of([&] { graph.save(path("out.onnx")); }), HasSubstr("save its weights externally"));
  EXPECT_THAT(error_of([&] { graph.to_bytes(); }), HasSubstr("save its weights externally"));
  EXPECT_FALSE(fs::exists(path("out.onnx")));
}

}  // namespace
}  // namespace transmuter
