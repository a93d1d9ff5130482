// `transmuter ner`, `fill-mask` and `answer`: places in texts.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <sstream>

#include "text_input.h"

namespace transmuter::cli {

namespace {

struct NerCommand {
  TextOptions text;
  EntityOptions entities;
  std::string aggregation = "simple";
  int64_t stride = -1;
  bool words = false;
};

// The words of an input: "words" or "tokens", a list; a plain text's are between its blanks.
std::vector<std::string> words_of(const TextItem& item) {
  for (const char* key : {"words", "tokens"}) {
    const auto found = item.fields.find(key);
    if (found == item.fields.end()) continue;
    std::vector<std::string> words;
    for (const Json& word : *found) {
      if (!word.is_string()) break;
      words.push_back(word.get<std::string>());
    }
    if (!found->is_array() || words.size() != found->size())
      throw Error(ErrorCode::invalid_input, std::string("\"") + key + "\" is no list of texts: " + found->dump());
    return words;
  }
  std::vector<std::string> words;
  std::istringstream text(item.text("text"));
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words, const std::string& delimiter) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : delimiter) + word;
  return text;
}

Json entity_json(const Entity& entity, bool group) {
  Json out;
  out[group ? "entity_group" : "entity"] = entity.entity;
  out["score"] = entity.score;
  if (!group) out["index"] = entity.index;
  out["word"] = entity.word;
  out["start"] = entity.start;
  out["end"] = entity.end;
  return out;
}

void ner(NerCommand& command) {
  static const std::map<std::string, Aggregation> kNames = {{"none", Aggregation::none},
                                                            {"simple", Aggregation::simple},
                                                            {"first", Aggregation::first},
                                                            {"max", Aggregation::max},
                                                            {"average", Aggregation::average}};
  command.entities.aggregation = kNames.at(command.aggregation);
  if (command.stride >= 0) command.entities.stride = static_cast<size_t>(command.stride);
  const std::vector<TextItem> items = read_items(command.text, "text");
  const EntityRecognizer recognizer = EntityRecognizer::load(command.text.place(), command.text.task_options());
  std::vector<std::string> texts;
  std::vector<std::vector<std::string>> split;
  for (const TextItem& item : items) {
    if (command.words) split.push_back(words_of(item));
    texts.push_back(command.words ? joined(split.back(), command.entities.delimiter) : item.text("text"));
  }
  const auto results = command.words ? recognizer.words(split, command.entities) : recognizer(texts, command.entities);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (command.text.as_json) {
      Json list = Json::array();
      for (const Entity& entity : results[i])
        list.push_back(entity_json(entity, command.entities.aggregation != Aggregation::none));
      print_json(list);
      continue;
    }
    std::printf("%s\n", texts[i].c_str());
    for (const Entity& entity : results[i])
      std::printf("  %s  %-8s %5zu-%-5zu %s\n", percent(entity.score).c_str(), entity.entity.c_str(), entity.start,
                  entity.end, entity.word.c_str());
  }
}

struct FillMaskCommand {
  TextOptions text;
  FillMaskOptions fill;
};

void fill_mask(const FillMaskCommand& command) {
  const std::vector<std::string> texts = column(read_items(command.text, "text"), "text");
  const MaskFiller filler = MaskFiller::load(command.text.place(), command.text.task_options());
  const auto results = filler(texts, command.fill);
  for (size_t i = 0; i < texts.size(); ++i) {
    Json masks = Json::array();
    if (!command.text.as_json) std::printf("%s\n", texts[i].c_str());
    for (size_t m = 0; m < results[i].size(); ++m) {
      Json list = Json::array();
      for (const FilledMask& filled : results[i][m]) {
        list.push_back({{"score", filled.score},
                        {"token", filled.token},
                        {"token_str", filled.token_str},
                        {"sequence", filled.sequence}});
        if (!command.text.as_json)
          std::printf("  %s  %-14s %s\n", percent(filled.score).c_str(), filled.token_str.c_str(),
                      filled.sequence.c_str());
      }
      masks.push_back(std::move(list));
      if (!command.text.as_json && m + 1 < results[i].size()) std::printf("\n");
    }
    // One mask: its list, as transformers prints it.
    if (command.text.as_json) print_json(masks.size() == 1 ? masks[0] : masks);
  }
}

struct AnswerCommand {
  TextOptions text;
  AnswerOptions answer;
  std::string question;
};

void answer(const AnswerCommand& command) {
  std::vector<TextItem> items = read_items(command.text, "context");
  const QuestionAnswerer answerer = QuestionAnswerer::load(command.text.place(), command.text.task_options());
  for (TextItem& item : items) {
    if (!command.question.empty()) item.fields["question"] = command.question;
    if (!item.has("question"))
      throw Error(ErrorCode::invalid_input, "no question: give --question, or JSONL with question and context");
    const std::vector<Answer> answers = answerer(item.text("question"), item.text("context"), command.answer);
    Json list = Json::array();
    for (const Answer& found : answers) {
      list.push_back({{"score", found.score}, {"start", found.start}, {"end", found.end}, {"answer", found.answer}});
      if (!command.text.as_json) std::printf("%s  %s\n", percent(found.score).c_str(), found.answer.c_str());
    }
    if (command.text.as_json) print_json(list.size() == 1 ? list[0] : list);
  }
}

}  // namespace

void add_ner(CLI::App& app) {
  auto options = std::make_shared<NerCommand>();
  CLI::App* command = app.add_subcommand("ner", "Entities in texts: names, places, or whatever a model labels");
  options->text.add_to(*command, "one text a line");
  command
      ->add_option("-a,--aggregation", options->aggregation, "how tokens are joined: none, simple, first, max, average")
      ->check(CLI::IsMember({"none", "simple", "first", "max", "average"}))
      ->capture_default_str();
  command->add_option("--stride", options->stride, "read long texts in windows that share so many tokens");
  command->add_flag("--words", options->words,
                    "texts come as words: JSONL with a list \"words\" (or \"tokens\"), or split at blanks");
  command->add_option("--delimiter", options->entities.delimiter, "with --words: between words, where places count")
      ->capture_default_str();
  command->add_option("--ignore", options->entities.ignore, "labels to leave out")->capture_default_str();
  command->callback([options] { ner(*options); });
}

void add_fill_mask(CLI::App& app) {
  auto options = std::make_shared<FillMaskCommand>();
  CLI::App* command = app.add_subcommand("fill-mask", "The words that a model puts for [MASK] in texts");
  options->text.add_to(*command, "one text a line");
  command->add_option("-k,--top-k", options->fill.top_k, "so many words a mask")->capture_default_str();
  command->add_option("--targets", options->fill.targets, "only these words");
  command->callback([options] { fill_mask(*options); });
}

void add_answer(CLI::App& app) {
  auto options = std::make_shared<AnswerCommand>();
  CLI::App* command = app.add_subcommand("answer", "Where passages answer a question (JSONL: question, context)");
  options->text.add_to(*command, "one passage a line");
  command->add_option("-q,--question", options->question, "asked of every passage");
  command->add_option("-k,--top-k", options->answer.top_k, "the best so many answers")->capture_default_str();
  command->add_option("--max-answer-length", options->answer.max_answer_length, "tokens")->capture_default_str();
  command->add_option("--stride", options->answer.stride, "tokens that windows of long passages share; 0: by length");
  command->add_flag("--impossible", options->answer.handle_impossible, "a passage may hold no answer");
  command->add_flag("!--inside-words", options->answer.align_to_words, "answers may begin and end within words");
  command->callback([options] { answer(*options); });
}

}  // namespace transmuter::cli
