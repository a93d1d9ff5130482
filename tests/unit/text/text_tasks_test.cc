// Each task on the tiny models of tests/data/text_tasks, against what the pipelines of transformers and
// sentence-transformers said (record_text_tasks.py), one by one and all at once.
#include "transmuter/text_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "../temporary_folder.h"
#include "transmuter/error.h"
#include "transmuter/graph.h"
#include "transmuter/text.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;

std::string folder(const std::string& name) { return std::string(TRANSMUTER_TEST_DATA "/text_tasks/") + name; }

json recorded(const std::string& name) {
  std::ifstream file(folder(name) + "/recorded.json");
  return json::parse(file);
}

// A lone answer is a list of one.
json as_list(const json& value) { return value.is_array() ? value : json::array({value}); }

void expect_labels(const std::vector<LabelScore>& got, const json& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].label, expected[i]["label"].get<std::string>());
    EXPECT_NEAR(got[i].score, expected[i]["score"].get<double>(), kTolerance);
  }
}

class Classify : public ::testing::TestWithParam<const char*> {};

TEST_P(Classify, SaysWhatTheyRecorded) {
  const TextClassifier classifier = TextClassifier::load(folder(GetParam()));
  std::vector<std::string> texts;
  json expected = json::array();
  for (const json& entry : recorded(GetParam())) {
    SCOPED_TRACE(entry["input"]);
    ClassifyOptions options;
    options.top_k = std::nullopt;
    options.function = entry["options"].value("function", "");
    const std::vector<std::string> text = {entry["input"].get<std::string>()};
    if (entry.contains("pair")) {
      const std::vector<std::string> second = {entry["pair"].get<std::string>()};
      expect_labels(classifier.pairs(text, second, options)[0], entry["expected"]);
    } else {
      expect_labels(classifier(text, options)[0], entry["expected"]);
      if (!options.function.empty()) continue;
      texts.push_back(text[0]);
      expected.push_back(entry["expected"]);
    }
  }
  ClassifyOptions all;
  all.top_k = std::nullopt;
  const auto batch = classifier(texts, all);
  for (size_t i = 0; i < texts.size(); ++i) expect_labels(batch[i], expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Recorded, Classify,
                         ::testing::Values("classify_single", "classify_multi", "classify_regression"));

TEST(TextClassifier, GivesTheBestLabelUnlessAskedForMore) {
  const TextClassifier classifier = TextClassifier::load(folder("classify_single"));
  const std::vector<std::string> texts = {"the film"};
  EXPECT_EQ(classifier(texts)[0].size(), 1u);
  EXPECT_EQ(classifier(texts, {.top_k = 2})[0].size(), 2u);
  EXPECT_THROW(classifier(texts, {.function = "tanh"}), Error);
  EXPECT_TRUE(classifier({}).empty());
}

Aggregation aggregation_named(const std::string& name) {
  if (name == "simple") return Aggregation::simple;
  if (name == "first") return Aggregation::first;
  if (name == "max") return Aggregation::max;
  return name == "average" ? Aggregation::average : Aggregation::none;
}

class Entities : public ::testing::TestWithParam<const char*> {};

TEST_P(Entities, AreThoseRecorded) {
  const EntityRecognizer recognizer = EntityRecognizer::load(folder(GetParam()));
  for (const json& entry : recorded(GetParam())) {
    SCOPED_TRACE(entry["options"].dump() + entry["input"].dump());
    EntityOptions options;
    options.aggregation = aggregation_named(entry["options"]["aggregation"]);
    if (entry["options"].contains("ignore")) options.ignore = entry["options"]["ignore"];
    const std::vector<std::string> texts = {entry["input"].get<std::string>(), "another text beside it"};
    const std::vector<Entity> got = recognizer(texts, options)[0];
    const json& expected = entry["expected"];
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const bool group = options.aggregation != Aggregation::none;
      EXPECT_EQ(got[i].entity, expected[i][group ? "entity_group" : "entity"].get<std::string>());
      EXPECT_EQ(got[i].word, expected[i]["word"].get<std::string>());
      EXPECT_EQ(got[i].start, expected[i]["start"].get<size_t>());
      EXPECT_EQ(got[i].end, expected[i]["end"].get<size_t>());
      EXPECT_NEAR(got[i].score, expected[i]["score"].get<double>(), kTolerance);
      if (!group) {
        EXPECT_EQ(got[i].index, expected[i]["index"].get<int64_t>());
      }
      EXPECT_LE(got[i].byte_end, texts[0].size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Entities, ::testing::Values("ner_words", "ner_bytes"));

TEST(EntityRecognizer, WindowsOfALongTextCoverItsEnd) {
  const EntityRecognizer recognizer = EntityRecognizer::load(folder("ner_words"));
  std::string text = "John Smith lives in Berlin. ";
  for (int i = 0; i < 4; ++i) text += text;
  const std::vector<std::string> texts = {text};
  EntityOptions options = {.aggregation = Aggregation::simple, .ignore = {}, .stride = 8};
  const std::vector<Entity> windows = recognizer(texts, options)[0];
  EXPECT_GT(windows.back().end, text.size() - 12);
  for (size_t i = 1; i < windows.size(); ++i) EXPECT_GE(windows[i].start, windows[i - 1].end);
  options.stride.reset();
  EXPECT_LT(recognizer(texts, options)[0].back().end, text.size() / 2);
  options = {.stride = 8};
  EXPECT_THROW(recognizer(texts, options), Error);
}

TEST(EntityRecognizer, WordsThatCameSplitAreTheText) {
  const EntityRecognizer recognizer = EntityRecognizer::load(folder("ner_words"));
  const EntityOptions options = {.aggregation = Aggregation::first, .ignore = {}};
  const std::vector<std::string> whole = {"John lives in Berlin"};
  const std::vector<std::vector<std::string>> split = {{"John", "lives", "in", "Berlin"}};
  const std::vector<Entity> from_text = recognizer(whole, options)[0], from_words = recognizer.words(split, options)[0];
  ASSERT_EQ(from_text.size(), from_words.size());
  for (size_t i = 0; i < from_text.size(); ++i) {
    EXPECT_EQ(from_text[i].word, from_words[i].word);
    EXPECT_EQ(from_text[i].start, from_words[i].start);
    EXPECT_EQ(from_text[i].end, from_words[i].end);
  }
}

TEST(MaskFiller, FillsAsRecorded) {
  const MaskFiller filler = MaskFiller::load(folder("fill_mask"));
  EXPECT_EQ(filler.mask_token(), "[MASK]");
  for (const json& entry : recorded("fill_mask")) {
    SCOPED_TRACE(entry.dump());
    FillMaskOptions options;
    options.top_k = entry["options"].value("top_k", size_t{5});
    options.targets = entry["options"].value("targets", std::vector<std::string>());
    const std::vector<std::string> texts = {entry["input"].get<std::string>(), "a longer text with a [MASK] beside it"};
    const auto got = filler(texts, options)[0];
    const json expected = entry["expected"][0].is_array() ? entry["expected"] : json::array({entry["expected"]});
    ASSERT_EQ(got.size(), expected.size());
    for (size_t m = 0; m < got.size(); ++m) {
      ASSERT_EQ(got[m].size(), expected[m].size());
      for (size_t i = 0; i < got[m].size(); ++i) {
        EXPECT_EQ(got[m][i].token, expected[m][i]["token"].get<int64_t>());
        EXPECT_EQ(got[m][i].token_str, expected[m][i]["token_str"].get<std::string>());
        EXPECT_EQ(got[m][i].sequence, expected[m][i]["sequence"].get<std::string>());
        EXPECT_NEAR(got[m][i].score, expected[m][i]["score"].get<double>(), kTolerance);
      }
    }
  }
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(MaskFiller, NamesTheTextWithoutAMask) {
  const MaskFiller filler = MaskFiller::load(folder("fill_mask"));
  const std::vector<std::string> texts = {"[MASK]", "nothing"};
  EXPECT_THAT(error_of([&] { filler(texts); }), HasSubstr("text 1 has no [MASK] to fill"));
}

TEST(QuestionAnswerer, AnswersAsRecorded) {
  const QuestionAnswerer answerer = QuestionAnswerer::load(folder("answer"));
  for (const json& entry : recorded("answer")) {
    SCOPED_TRACE(entry["options"].dump() + entry["passage"].dump());
    const json& given = entry["options"];
    const AnswerOptions options = {.top_k = given.value("top_k", size_t{1}),
                                   .max_answer_length = given.value("max_answer_len", size_t{15}),
                                   .max_length = given.value("max_seq_len", size_t{0}),
                                   .stride = given.value("doc_stride", size_t{0}),
                                   .handle_impossible = given.value("handle_impossible_answer", false),
                                   .align_to_words = given.value("align_to_words", true)};
    const std::vector<Answer> got = answerer(entry["input"], entry["passage"], options);
    const json expected = as_list(entry["expected"]);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].answer, expected[i]["answer"].get<std::string>());
      EXPECT_EQ(got[i].start, expected[i]["start"].get<size_t>());
      EXPECT_EQ(got[i].end, expected[i]["end"].get<size_t>());
      EXPECT_NEAR(got[i].score, expected[i]["score"].get<double>(), kTolerance);
    }
  }
  EXPECT_THAT(error_of([&] { answerer("Who?", ""); }), HasSubstr("the passage is empty"));
}

TEST(ZeroShotClassifier, JudgesAsRecorded) {
  const ZeroShotClassifier classifier = ZeroShotClassifier::load(folder("zero_shot"));
  for (const json& entry : recorded("zero_shot")) {
    SCOPED_TRACE(entry.dump());
    const ZeroShotOptions options = {.hypothesis = entry["options"].value("hypothesis_template", "This example is {}."),
                                     .multi_label = entry["options"].value("multi_label", false)};
    const std::vector<std::string> texts = {entry["input"].get<std::string>(), "beside it"};
    const auto got = classifier(texts, entry["labels"].get<std::vector<std::string>>(), options)[0];
    const json& expected = entry["expected"];
    ASSERT_EQ(got.size(), expected["labels"].size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].label, expected["labels"][i].get<std::string>());
      EXPECT_NEAR(got[i].score, expected["scores"][i].get<double>(), kTolerance);
    }
  }
  const std::vector<std::string> texts = {"x"}, labels = {"y"};
  EXPECT_THAT(error_of([&] { classifier(texts, labels, {.hypothesis = "no hole"}); }), HasSubstr("has no {}"));
}

TEST(Reranker, RanksAsRecorded) {
  const Reranker reranker = Reranker::load(folder("rerank"));
  const json entry = recorded("rerank")[0];
  const auto documents = entry["documents"].get<std::vector<std::string>>();
  const std::vector<Ranked> got = reranker.rank(entry["input"], documents);
  ASSERT_EQ(got.size(), documents.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].index, entry["expected"][i]["corpus_id"].get<size_t>());
    EXPECT_NEAR(got[i].score, entry["expected"][i]["score"].get<double>(), kTolerance);
  }
  EXPECT_EQ(reranker.rank(entry["input"], documents, 2).size(), 2u);
}

class Embeddings : public ::testing::TestWithParam<const char*> {};

TEST_P(Embeddings, AreThoseRecorded) {
  const TextEmbedder embedder = TextEmbedder::load(folder(GetParam()));
  for (const json& entry : recorded(GetParam())) {
    SCOPED_TRACE(entry["options"].dump());
    const json& given = entry["options"];
    EmbedOptions options;
    options.prompt = given.value("prompt", "");
    options.truncate_dim = given.value("truncate_dim", size_t{0});
    options.normalize = given.value("normalize", false);
    const std::string role = given.value("role", "");
    options.role = role == "query" ? EmbedRole::query : role == "document" ? EmbedRole::document : EmbedRole::text;
    const Tensor got = embedder(entry["input"].get<std::vector<std::string>>(), options);
    const json& expected = entry["expected"];
    ASSERT_EQ(got.dim(0), static_cast<int64_t>(expected.size()));
    ASSERT_EQ(got.dim(1), static_cast<int64_t>(expected[0].size()));
    for (int64_t r = 0; r < got.dim(0); ++r)
      for (int64_t i = 0; i < got.dim(1); ++i)
        EXPECT_NEAR(got.data<float>()[r * got.dim(1) + i],
                    expected[static_cast<size_t>(r)][static_cast<size_t>(i)].get<double>(), kTolerance)
            << r << " " << i;
  }
  const std::vector<std::string> texts = {"x"};
  EXPECT_THAT(error_of([&] { embedder(texts, {.prompt_name = "song"}); }), HasSubstr("has no prompt \"song\""));
}

INSTANTIATE_TEST_SUITE_P(Recorded, Embeddings, ::testing::Values("embed_mean", "embed_dense"));

TEST(TextTasks, CallersOfOneModelShareItsBatches) {
  const TextClassifier classifier = TextClassifier::load(folder("classify_single"), {.batch_delay_ms = 5});
  const std::vector<std::string> texts = {"the quick fox", "Berlin", "a wonderful film, it was"};
  const auto expected = classifier(texts);
  std::vector<std::thread> callers;
  std::vector<int> wrong(6);
  for (size_t c = 0; c < wrong.size(); ++c) {
    callers.emplace_back([&, c] {
      for (size_t i = 0; i < 20; ++i) {
        const size_t at = (c + i) % texts.size();
        const auto got = classifier(std::span(texts).subspan(at, 1));
        if (got[0][0].label != expected[at][0].label || std::abs(got[0][0].score - expected[at][0].score) > kTolerance)
          ++wrong[c];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(TextTasks, AGraphForAnotherTaskIsRefusedWithWhatItGives) {
  EXPECT_THAT(error_of([] { TextClassifier::load(folder("ner_words")); }),
              HasSubstr("is not a model for text classification"));
  EXPECT_THAT(error_of([] { EntityRecognizer::load(folder("classify_single")); }),
              HasSubstr("(it gives logits [batch, "));
  EXPECT_THAT(error_of([] { QuestionAnswerer::load(folder("fill_mask")); }),
              HasSubstr("it has no output start_logits"));
  EXPECT_THAT(error_of([] { MaskFiller::load(folder("rerank")); }), HasSubstr("is not a model for fill-mask"));
  EXPECT_THAT(error_of([] { Reranker::load(folder("classify_single")).scores("q", std::vector<std::string>{"d"}); }),
              HasSubstr("3 scores a pair"));
}

// A copy of a task's folder with its graph for `rows` rows of `tokens` tokens alone.
class FixedFolder : public TemporaryFolder {
 public:
  FixedFolder(const std::string& name, int64_t rows, int64_t tokens) {
    fs::copy(folder(name), path(), fs::copy_options::recursive);
    const std::string graph = (path() / "model.onnx").string();
    GraphEdit edit = Graph::load(graph).edit();
    edit.fix_dim("batch", rows).fix_dim("sequence", tokens);
    edit.commit().save(graph);
  }
};

TEST(TextTasks, GraphsOfOneSizeSayWhatTheOthersSay) {
  const std::vector<std::string> texts = {"the quick fox", "", "John Smith lives in New York City, near the river.",
                                          "a text that is longer than twelve tokens and is cut there, by either"};
  const TextTaskOptions cut = {.max_length = 12};
  for (const int64_t rows : {1, 3}) {
    const FixedFolder classes("classify_multi", rows, 12);
    const auto labels = TextClassifier::load(classes.string())(texts, {.top_k = std::nullopt}),
               expected_labels = TextClassifier::load(folder("classify_multi"), cut)(texts, {.top_k = std::nullopt});
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t l = 0; l < labels[i].size(); ++l) {
        EXPECT_EQ(labels[i][l].label, expected_labels[i][l].label);
        EXPECT_NEAR(labels[i][l].score, expected_labels[i][l].score, kTolerance);
      }
    }
    const FixedFolder words("ner_words", rows, 12);
    const EntityOptions average = {.aggregation = Aggregation::average, .ignore = {}};
    const auto entities = EntityRecognizer::load(words.string())(texts, average),
               expected_entities = EntityRecognizer::load(folder("ner_words"), cut)(texts, average);
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(entities[i].size(), expected_entities[i].size());
      for (size_t e = 0; e < entities[i].size(); ++e) {
        EXPECT_EQ(entities[i][e].word, expected_entities[i][e].word);
        EXPECT_NEAR(entities[i][e].score, expected_entities[i][e].score, kTolerance);
      }
    }
    const FixedFolder dense("embed_dense", rows, 12);
    const Tensor vectors = TextEmbedder::load(dense.string())(texts),
                 expected_vectors = TextEmbedder::load(folder("embed_dense"), cut)(texts);
    for (int64_t i = 0; i < vectors.size(); ++i)
      EXPECT_NEAR(vectors.data<float>()[i], expected_vectors.data<float>()[i], kTolerance);
    const FixedFolder questions("answer", rows, 24);
    const Answer answer = QuestionAnswerer::load(questions.string())("Where?", texts[2])[0],
                 expected = QuestionAnswerer::load(folder("answer"), {.max_length = 24})("Where?", texts[2])[0];
    EXPECT_EQ(answer.answer, expected.answer);
    EXPECT_NEAR(answer.score, expected.score, kTolerance);
  }
  // Nothing to fill up with.
  const FixedFolder place("classify_multi", 1, 12);
  std::ofstream(place / "tokenizer_config.json") << "{}";
  std::ofstream(place / "config.json") << "{}";
  json tokenizer;
  std::ifstream(place / "tokenizer.json") >> tokenizer;
  std::string text = tokenizer.dump();
  for (size_t at = 0; (at = text.find("[PAD]", at)) != std::string::npos;) text.replace(at, 5, "[GAP]");
  std::ofstream(place / "tokenizer.json") << text;
  const TextClassifier bare = TextClassifier::load(place.string());
  EXPECT_THAT(error_of([&] { bare(texts); }), HasSubstr("no \"pad_token\" in"));
}

class BrokenFolder : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy(folder("fill_mask"), folder_.path()); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string error() {
    return error_of([&] { MaskFiller::load(folder_.string()); });
  }

  TemporaryFolder folder_;
};

TEST_F(BrokenFolder, EachFaultNamesItsFile) {
  write("tokenizer_config.json", R"({"pad_token": "[PAD]"})");
  EXPECT_THAT(error(), HasSubstr("no \"mask_token\" in tokenizer_config.json"));
  write("tokenizer_config.json", R"({"mask_token": "[NONE]"})");
  EXPECT_THAT(error(), HasSubstr("the mask token \"[NONE]\" of tokenizer_config.json is not in the vocabulary"));
  write("tokenizer_config.json", R"({"mask_token": "[MASK]", "padding_side": "up"})");
  EXPECT_THAT(error(), HasSubstr("neither left nor right"));
  write("tokenizer_config.json", "");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json is not valid JSON"));
  write("config.json", "[]");
  fs::remove(folder_ / "tokenizer_config.json");
  EXPECT_THAT(error(), HasSubstr("config.json does not hold a JSON object"));
  write("tokenizer.json", "{}");
  EXPECT_THAT(error(), HasSubstr("tokenizer.json is not a tokenizer"));
  fs::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(error(), HasSubstr("there is no tokenizer.json in"));
}

TEST_F(BrokenFolder, SeveralGraphsAreAskedAbout) {
  fs::rename(folder_ / "model.onnx", folder_ / "a.onnx");
  EXPECT_NO_THROW(MaskFiller::load(folder_.string()));
  fs::copy(folder_ / "a.onnx", folder_ / "b.onnx");
  EXPECT_THAT(error(), HasSubstr("a.onnx, b.onnx: give the path"));
  EXPECT_NO_THROW(MaskFiller::load((folder_ / "b.onnx").string()));
}

}  // namespace
}  // namespace transmuter
