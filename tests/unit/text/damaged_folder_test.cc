// Folders of models with one thing wrong: each file cut off, emptied or replaced, each key of each configuration taken
// away or given a value of another kind. Either the task still works, or one Error says which file and in words of
// ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../temporary_folder.h"
#include "transmuter/error.h"
#include "transmuter/text.h"
#include "transmuter/text_generator.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::vector<std::string> kTexts = {"the quick fox", "John lives in Berlin, near the river"};

struct Task {
  const char* folder;
  bool shared_tokenizer;                        // with a task before
  std::function<void(const std::string&)> use;  // loads and answers
};

void generate(const std::string& folder) {
  const TextGenerator generator = TextGenerator::load(folder);
  GenerationConfig config = generator.config();
  config.max_new_tokens = 2;
  config.num_beams = 1;
  GenerationRequest request{.text = "hello"};
  if (generator.has_chat()) request = {.messages = R"([{"role": "user", "content": "hello"}])"};
  generator(request, config);
}

const Task kTasks[] = {
    {"text_tasks/classify_multi", false, [](const std::string& f) { TextClassifier::load(f)(kTexts); }},
    {"text_tasks/ner_words", true,
     [](const std::string& f) { EntityRecognizer::load(f)(kTexts, {.aggregation = Aggregation::first}); }},
    {"text_tasks/fill_mask", false,
     [](const std::string& f) {
       MaskFiller::load(f)(std::vector<std::string>{"the [MASK] fox", "[MASK]"});
     }},
    {"text_tasks/answer", true, [](const std::string& f) { QuestionAnswerer::load(f)("Where?", kTexts[1]); }},
    {"text_tasks/zero_shot", true, [](const std::string& f) { ZeroShotClassifier::load(f)(kTexts, kTexts); }},
    {"text_tasks/rerank", true, [](const std::string& f) { Reranker::load(f).rank("Where?", kTexts); }},
    {"text_tasks/embed_dense", true,
     [](const std::string& f) { TextEmbedder::load(f)(kTexts, {.role = EmbedRole::query}); }},
    {"tiny_chat", false, generate},
    {"tiny_translator", false,
     [](const std::string& f) {
       const TextRewriter rewriter = TextRewriter::load(f, "summarization");
       rewriter(kTexts, rewriter.config());
     }},
};

class DamagedFolder : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const fs::path whole = fs::path(TRANSMUTER_TEST_DATA) / task().folder;
    fs::copy(whole, folder_.path(), fs::copy_options::recursive);
    fs::remove(folder_ / "recorded.json");
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) files_.push_back(entry.path());
    }
  }

  const Task& task() const { return kTasks[GetParam()]; }

  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
  }

  // With `text` in the file's place. `what` describes the damage.
  void expect_sense_of(const std::string& text, const fs::path& path, const std::string& what,
                       const std::string& key = "") {
    const std::string before = read(path);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    expect_sense(path, what, key);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << before;
  }

  void expect_sense(const fs::path& path, const std::string& what, const std::string& key = "") {
    SCOPED_TRACE(path.lexically_relative(folder_.path()).string() + ": " + what);
    try {
      task().use(folder_.string());
    } catch (const Error& error) {
      const std::string said = error.what();
      // Settings of generation are judged by a call, which may have its own: there the field's name has to do.
      EXPECT_TRUE(said.find(path.filename().string()) != std::string::npos ||
                  (!key.empty() && said.find(key) != std::string::npos))
          << said;
      EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
      EXPECT_EQ(said.find('\n'), std::string::npos) << said;
      EXPECT_LT(said.size(), 700U) << said;
      EXPECT_NE(error.code(), ErrorCode::internal) << said;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not an Error: " << error.what();
    }
    ++damages_;
  }

  TemporaryFolder folder_;
  std::vector<fs::path> files_;
  size_t damages_ = 0;
};

TEST_P(DamagedFolder, FilesThatAreNoneOfTheirKind) {
  ASSERT_GE(files_.size(), 3U);
  for (const fs::path& path : files_) {
    const std::string whole = read(path);
    expect_sense_of("", path, "empty");
    expect_sense_of(whole.substr(0, whole.size() / 2), path, "cut off");
    expect_sense_of(whole.substr(0, whole.size() - 1), path, "a byte short");
    expect_sense_of(std::string("\x00\xff\xfe\x80garbage", 11), path, "garbage");
    expect_sense_of("[1, 2]", path, "a list");
    expect_sense_of(std::string(100000, '['), path, "deep");
    expect_sense_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", path, "a pointer of Git LFS");
    // A folder in its place, and nothing at all.
    fs::remove(path);
    expect_sense(path, "missing");
    fs::create_directory(path);
    expect_sense(path, "a folder");
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << whole;
  }
  EXPECT_GT(damages_, 25U);
}

// Calls `visit` with each member of `json`, as a place in it; lists by their first entries, long objects too.
void for_each_place(const Json& json, const Json::json_pointer& at, int depth,
                    const std::function<void(const Json::json_pointer&)>& visit) {
  constexpr int kDeepest = 4;
  constexpr size_t kWidest = 12;
  if (depth == kDeepest || !json.is_structured()) return;
  size_t count = 0;
  for (const auto& [key, value] : json.items()) {
    if (json.size() > 40 && ++count > kWidest) return;
    if (json.is_array() && ++count > 2) return;
    const Json::json_pointer place = json.is_array() ? at / std::stoul(key) : at / key;
    visit(place);
    for_each_place(value, place, depth + 1, visit);
  }
}

TEST_P(DamagedFolder, KeysThatAreMissingOrOfAnotherKind) {
  const Json kinds[] = {nullptr,         -1, 3.5,           1e18,           true,
                        "no such thing", "", Json::array(), Json::object(), Json::array({Json::array({"x"}), 1})};
  for (const fs::path& path : files_) {
    if (path.extension() != ".json") continue;
    // The tasks of one kind of model have one tokenizer.
    if (path.filename() == "tokenizer.json" && task().shared_tokenizer) continue;
    const Json whole = Json::parse(read(path));
    for_each_place(whole, Json::json_pointer(), 0, [&](const Json::json_pointer& place) {
      Json damaged = whole;
      Json& parent = damaged[place.parent_pointer()];
      if (parent.is_object()) {
        parent.erase(place.back());
        expect_sense_of(damaged.dump(), path, "without " + place.to_string(), place.back());
      }
      for (const Json& kind : kinds) {
        damaged = whole;
        damaged[place] = kind;
        expect_sense_of(damaged.dump(), path, place.to_string() + " = " + kind.dump(), place.back());
      }
    });
  }
  EXPECT_GT(damages_, 100U);
}

INSTANTIATE_TEST_SUITE_P(Tasks, DamagedFolder, ::testing::Range(size_t{0}, std::size(kTasks)),
                         [](const auto& info) { return fs::path(kTasks[info.param].folder).filename().string(); });

}  // namespace
}  // namespace transmuter
