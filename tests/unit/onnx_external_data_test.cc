// Weights in files beside the model: what is read, and what is refused.
#include "onnx/external_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "onnx_messages.h"

namespace transmuter::onnx::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Entries = std::vector<std::pair<std::string, std::string>>;

std::string model_with(const Strings& tensors) {
  return model_of({{node("Add", {"x", "w"}, {"y"})}, {value("x")}, {value("y")}, tensors});
}

class OnnxExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    base_ = fs::path(::testing::TempDir()) /
            ("external_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(base_);
    folder_ = base_ / "model";
    fs::create_directories(folder_ / "sub");
    write("w.bin", floats({1, 2, 3, 4}));
  }
  void TearDown() override { fs::remove_all(base_); }

  void write(const fs::path& name, const std::string& bytes) const { write_file((folder_ / name).string(), bytes); }
  Model read(const Strings& tensors, bool map = true) const {
    write("model.onnx", model_with(tensors));
    return read_model((folder_ / "model.onnx").string(), {map});
  }
  std::vector<float> floats_of(const Entries& entries, bool map = true) const {
    return read({external_tensor("w", {2}, entries)}, map).graph.initializers.at("w").aligned().to_vector<float>();
  }
  std::string refusal(const Entries& entries) const {
    try {
      read({external_tensor("w", {2}, entries)});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path base_;
  fs::path folder_;
};

TEST_F(OnnxExternalData, OffsetAndLength) {
  for (const bool map : {true, false}) {
    EXPECT_EQ(floats_of({{"location", "w.bin"}}, map), (std::vector<float>{1, 2}));
    EXPECT_EQ(floats_of({{"location", "./w.bin"}, {"offset", "8"}, {"length", "8"}}, map), (std::vector<float>{3, 4}));
  }
  EXPECT_THAT(refusal({{"location", "w.bin"}, {"offset", "9"}}), HasSubstr("ends at byte 16"));
  EXPECT_THAT(refusal({{"location", "w.bin"}, {"length", "4"}}), HasSubstr("of 4 bytes was given for a tensor of 8"));
  EXPECT_THAT(refusal({{"location", "w.bin"}, {"offset", "-1"}}), HasSubstr("no byte count"));
  EXPECT_THAT(refusal({{"location", "w.bin"}, {"offset", "18446744073709551615"}}), HasSubstr("ends at byte"));
  EXPECT_THAT(refusal({{"location", "w.bin"}, {"offset", "99999999999999999999"}}), HasSubstr("no byte count"));
}

TEST_F(OnnxExternalData, SeveralFilesAndFolders) {
  write("sub/v.bin", floats({7, 8}));
  const Model m = read({external_tensor("w", {2}, {{"location", "w.bin"}, {"offset", "4"}}),
                        external_tensor("v", {2}, {{"location", "sub/v.bin"}}),
                        external_tensor("u", {1}, {{"location", "w.bin"}})});
  EXPECT_EQ(m.graph.initializers.at("v").aligned().to_vector<float>(), (std::vector<float>{7, 8}));
  // One mapping for both tensors of a file.
  EXPECT_EQ(m.graph.initializers.at("w").bytes() - m.graph.initializers.at("u").bytes(), 4);
}

TEST_F(OnnxExternalData, WeightsOutliveTheModel) {
  Tensor w;
  {
    const Model m = read({external_tensor("w", {2}, {{"location", "w.bin"}})});
    w = m.graph.initializers.at("w");
  }
  EXPECT_EQ(w.aligned().to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST_F(OnnxExternalData, PathsOutOfTheFolderAreRefused) {
  write_file((base_ / "secret.bin").string(), floats({1, 2}));
  EXPECT_THAT(refusal({{"location", "../secret.bin"}}), HasSubstr("'..'"));
  EXPECT_THAT(refusal({{"location", "sub/../w.bin"}}), HasSubstr("'..'"));
  EXPECT_THAT(refusal({{"location", (folder_ / "w.bin").string()}}), HasSubstr("absolute"));
  EXPECT_THAT(refusal({{"location", ""}}), HasSubstr("names no file"));
  EXPECT_THAT(refusal({}), HasSubstr("names no file"));
  EXPECT_THAT(refusal({{"location", std::string("w.bin\0x", 7)}}), HasSubstr("NUL"));
  EXPECT_THAT(refusal({{"location", "sub"}}), HasSubstr("folder"));
  EXPECT_THAT(refusal({{"location", "."}}), HasSubstr("folder"));
  EXPECT_THAT(refusal({{"location", "nothing.bin"}}), HasSubstr("'nothing.bin' is not in"));
}

TEST_F(OnnxExternalData, LinksOutOfTheFolderAreRefused) {
  write_file((base_ / "secret.bin").string(), floats({1, 2}));
  fs::create_symlink("../secret.bin", folder_ / "soft.bin");
  EXPECT_THAT(refusal({{"location", "soft.bin"}}), HasSubstr("link out of"));
  fs::create_directory_symlink("..", folder_ / "up");
  EXPECT_THAT(refusal({{"location", "up/secret.bin"}}), HasSubstr("link out of"));
  fs::create_hard_link(base_ / "secret.bin", folder_ / "hard.bin");
  EXPECT_THAT(refusal({{"location", "hard.bin"}}), HasSubstr("hard links"));
  fs::create_symlink("w.bin", folder_ / "inside.bin");
  EXPECT_EQ(floats_of({{"location", "inside.bin"}}), (std::vector<float>{1, 2}));
  // A folder whose name starts as ours does is another one.
  fs::create_directories(base_ / "model2");
  write_file((base_ / "model2" / "w.bin").string(), floats({1, 2}));
  fs::create_symlink("../model2/w.bin", folder_ / "near.bin");
  EXPECT_THAT(refusal({{"location", "near.bin"}}), HasSubstr("link out of"));
}

TEST_F(OnnxExternalData, HubCacheLinksStayInTheirRepository) {
  const fs::path repository = base_ / "models--org--name";
  fs::create_directories(repository / "blobs");
  fs::create_directories(repository / "snapshots" / "rev" / "onnx");
  fs::create_directories(base_ / "models--org--other" / "blobs");
  write_file((repository / "blobs" / "aa").string(), floats({5, 6}));
  write_file((base_ / "models--org--other" / "blobs" / "bb").string(), floats({5, 6}));
  write_file((repository / "blobs" / "cc").string(),
             model_with({external_tensor("w", {2}, {{"location", "model.onnx_data"}})}));
  const fs::path snapshot = repository / "snapshots" / "rev" / "onnx";
  fs::create_symlink("../../../blobs/cc", snapshot / "model.onnx");
  fs::create_symlink("../../../blobs/aa", snapshot / "model.onnx_data");
  const Model m = read_model((snapshot / "model.onnx").string());
  EXPECT_EQ(m.graph.initializers.at("w").aligned().to_vector<float>(), (std::vector<float>{5, 6}));
  fs::remove(snapshot / "model.onnx_data");
  fs::create_symlink("../../../../models--org--other/blobs/bb", snapshot / "model.onnx_data");
  EXPECT_THROW(read_model((snapshot / "model.onnx").string()), Error);
  // What all repositories share counts only where the folder says that it is that store.
  fs::create_directories(base_ / "blobs");
  write_file((base_ / "blobs" / "dd").string(), floats({7, 8}));
  fs::remove(snapshot / "model.onnx_data");
  fs::create_symlink("../../../../blobs/dd", snapshot / "model.onnx_data");
  EXPECT_THROW(read_model((snapshot / "model.onnx").string()), Error);
  write_file((base_ / "blobs" / ".huggingface-shared-blobs").string(), "1\n");
  EXPECT_EQ(read_model((snapshot / "model.onnx").string()).graph.initializers.at("w").aligned().to_vector<float>(),
            (std::vector<float>{7, 8}));
}

TEST_F(OnnxExternalData, ModelsInMemoryNeedAFolder) {
  const std::string bytes = model_with({external_tensor("w", {2}, {{"location", "w.bin"}})});
  EXPECT_THAT(error_of(bytes), HasSubstr("without a folder"));
  EXPECT_EQ(error_of(bytes, folder_.string()), "");
}

TEST_F(OnnxExternalData, ModelFilesThatAreNone) {
  const auto message = [](const fs::path& path) -> std::string {
    try {
      read_model(path.string());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(folder_ / "none.onnx"), HasSubstr("there is no file"));
  EXPECT_THAT(message(folder_), HasSubstr("is a folder"));
  write("empty.onnx", "");
  EXPECT_THAT(message(folder_ / "empty.onnx"), HasSubstr("is empty"));
}

}  // namespace
}  // namespace transmuter::onnx::testing
