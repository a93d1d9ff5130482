// The hub without a network: hashes, which files make a model, names; tests/check_hub.py talks to a server.
#include "transmuter/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "hub/cache.h"
#include "hub/digest.h"

namespace transmuter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string hash(hub::Digest::Kind kind, const std::string& text, size_t piece) {
  hub::Digest digest(kind);
  for (size_t i = 0; i < text.size(); i += piece) digest.add(std::string_view(text).substr(i, piece));
  return digest.hex();
}

TEST(HubDigest, VectorsOfTheStandard) {
  using Kind = hub::Digest::Kind;
  const std::string two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{64}, size_t{1000000}}) {
    EXPECT_EQ(hash(Kind::sha1, "abc", piece), "a9993e364706816aba3e25717850c26c9cd0d89d");
    EXPECT_EQ(hash(Kind::sha1, two_blocks, piece), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    EXPECT_EQ(hash(Kind::sha256, "", piece), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash(Kind::sha256, "abc", piece), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash(Kind::sha256, two_blocks, piece),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash(Kind::sha256, std::string(1000000, 'a'), piece),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(HubChoice, OneVariantOfTheGraphWithItsSettings) {
  const std::vector<std::string> files = {"README.md",
                                          "config.json",
                                          "model.safetensors",
                                          "onnx/model.onnx",
                                          "onnx/model_O3.onnx",
                                          "onnx/model_fp16.onnx",
                                          "onnx/model_q4f16.onnx",
                                          "onnx/model_qint8_avx512.onnx",
                                          "onnx/model_quantized.onnx",
                                          "tokenizer.json",
                                          "1_Pooling/config.json",
                                          "openvino/config.json"};
  EXPECT_THAT(hf_choose(files),
              ElementsAre("onnx/model.onnx", "config.json", "tokenizer.json", "1_Pooling/config.json"));
  EXPECT_EQ(hf_choose(files, "fp16")[0], "onnx/model_fp16.onnx");
  EXPECT_EQ(hf_choose(files, "q4f16")[0], "onnx/model_q4f16.onnx");
  EXPECT_EQ(hf_choose(files, "q8")[0], "onnx/model_quantized.onnx");
  EXPECT_EQ(hf_choose(files, "int8")[0], "onnx/model_quantized.onnx");
  EXPECT_THAT(error_of([&] { hf_choose(files, "q4"); }), HasSubstr("it has O3, fp16, fp32, q4f16, q8, qint8_avx512"));
}

TEST(HubChoice, SeveralGraphsAndFolders) {
  EXPECT_THAT(
      hf_choose({"onnx/decoder_model.onnx", "onnx/decoder_model_merged.onnx", "onnx/decoder_model_merged_q4.onnx",
                 "onnx/decoder_with_past_model.onnx", "onnx/encoder_model.onnx"}),
      ElementsAre("onnx/decoder_model_merged.onnx", "onnx/encoder_model.onnx"));
  EXPECT_THAT(hf_choose({"onnx/decoder_model.onnx", "onnx/decoder_with_past_model.onnx"}),
              ElementsAre("onnx/decoder_model.onnx", "onnx/decoder_with_past_model.onnx"));
  EXPECT_EQ(hf_choose({"model.onnx", "onnx/model.onnx"})[0], "onnx/model.onnx");
  EXPECT_EQ(hf_choose({"model.onnx", "deep/model.onnx"})[0], "model.onnx");
  EXPECT_EQ(hf_choose({"onnx/model_q4.onnx"})[0], "onnx/model_q4.onnx") << "the only one there is";
  EXPECT_THAT(error_of([] {
                hf_choose({"onnx/model_q4.onnx", "onnx/model_fp16.onnx"});
              }),
              HasSubstr("it has fp16, q4"));
  EXPECT_THAT(error_of([] { hf_choose({"cpu/model.onnx", "gpu/model.onnx"}); }), HasSubstr("cpu/, gpu/"));
  EXPECT_THAT(error_of([] { hf_choose({"model.safetensors", ".onnx"}); }), HasSubstr("no .onnx file"));
}

TEST(HubNames, NothingLeadsOutOfTheCache) {
  for (const char* good : {"gpt2", "org/name", "a_b/c-d.e"}) EXPECT_NO_THROW(hub::check_repository(good)) << good;
  for (const char* bad : {"", "/", "a/", "/a", "..", "a/..", "a/b/c", "a--b/c", "a b", "-a", "a/b.git", "a\\b"})
    EXPECT_THROW(hub::check_repository(bad), Error) << bad;
  for (const char* bad : {"", "..", "a/../b", "/a", "a/./b", "a//b", "a\\b"}) {
    EXPECT_THROW(hub::check_file(bad), Error) << bad;
    EXPECT_THROW(hub::check_revision(bad), Error) << bad;
  }
  EXPECT_NO_THROW(hub::check_revision("refs/pr/1"));
  EXPECT_TRUE(hub::is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(hub::is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  for (const char* bad : {"", "..", "a/b", ".hidden"}) EXPECT_FALSE(hub::is_plain_name(bad)) << bad;
}

TEST(HubPath, PathsOnDiskAreLeftAlone) {
  EXPECT_EQ(hf_path("models/a.onnx"), "models/a.onnx");
  EXPECT_EQ(hf_folder("folder"), "folder");
  EXPECT_THAT(error_of([] { hf_folder("hf:org/name/model.onnx"); }), HasSubstr("names a file"));
  EXPECT_THAT(error_of([] { hf_path("hf:a b/c"); }), HasSubstr("is not the name of a repository"));
}

}  // namespace
}  // namespace transmuter
