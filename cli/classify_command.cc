// `transmuter classify`, `zero-shot` and `rerank`: labels and scores of texts.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "text_input.h"

namespace transmuter::cli {

namespace {

Json labels_json(const std::vector<LabelScore>& labels) {
  Json out = Json::array();
  for (const LabelScore& label : labels) out.push_back({{"label", label.label}, {"score", label.score}});
  return out;
}

void print_labels(const std::string& text, const std::vector<LabelScore>& labels) {
  std::printf("%s\n", text.c_str());
  for (const LabelScore& label : labels) std::printf("  %s  %s\n", percent(label.score).c_str(), label.label.c_str());
}

struct ClassifyCommand {
  TextOptions text;
  ClassifyOptions classify;
  int64_t top_k = 1;
};

void classify(ClassifyCommand& command) {
  const std::vector<TextItem> items = read_items(command.text, "text");
  command.classify.top_k = command.top_k > 0 ? std::optional(static_cast<size_t>(command.top_k)) : std::nullopt;
  const TextClassifier classifier = TextClassifier::load(command.text.place(), command.text.task_options());
  const bool pairs = are_pairs(items);
  const std::vector<std::string> texts = column(items, "text");
  const auto results = pairs ? classifier.pairs(texts, column(items, "text_pair"), command.classify)
                             : classifier(texts, command.classify);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (command.text.as_json) {
      print_json(labels_json(results[i]));
    } else {
      print_labels(texts[i], results[i]);
    }
  }
}

struct ZeroShotCommand {
  TextOptions text;
  ZeroShotOptions zero_shot;
  std::string labels;
};

// At commas, without the blanks around them.
std::vector<std::string> split_labels(const std::string& list) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const size_t first = list.find_first_not_of(" \t", begin);
    if (first < end) out.push_back(list.substr(first, list.find_last_not_of(" \t", end - 1) - first + 1));
    begin = end + 1;
  }
  return out;
}

void zero_shot(const ZeroShotCommand& command) {
  const std::vector<std::string> texts = column(read_items(command.text, "text"), "text");
  const ZeroShotClassifier classifier = ZeroShotClassifier::load(command.text.place(), command.text.task_options());
  const auto results = classifier(texts, split_labels(command.labels), command.zero_shot);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!command.text.as_json) {
      print_labels(texts[i], results[i]);
      continue;
    }
    Json labels = Json::array(), scores = Json::array();
    for (const LabelScore& label : results[i]) {
      labels.push_back(label.label);
      scores.push_back(label.score);
    }
    print_json({{"sequence", texts[i]}, {"labels", labels}, {"scores", scores}});
  }
}

struct RerankCommand {
  TextOptions text;
  std::string query;
  size_t top_k = 0;
  bool raw = false;
};

void rerank(const RerankCommand& command) {
  const std::vector<std::string> documents = column(read_items(command.text, "text"), "text");
  const Reranker reranker = Reranker::load(command.text.place(), command.text.task_options());
  for (const Ranked& ranked : reranker.rank(command.query, documents, command.top_k, command.raw)) {
    if (command.text.as_json) {
      print_json({{"corpus_id", ranked.index}, {"score", ranked.score}, {"text", documents[ranked.index]}});
    } else {
      std::printf("%9.4f  %s\n", ranked.score, documents[ranked.index].c_str());
    }
  }
}

}  // namespace

void add_classify(CLI::App& app) {
  auto options = std::make_shared<ClassifyCommand>();
  CLI::App* command = app.add_subcommand("classify", "Labels of texts or of pairs of texts (JSONL: text, text_pair)");
  options->text.add_to(*command, "one text a line");
  command->add_option("-k,--top-k", options->top_k, "the best so many labels; 0: all")->capture_default_str();
  command->add_option("--function", options->classify.function, "instead of what config.json says")
      ->check(CLI::IsMember({"sigmoid", "softmax", "none"}));
  command->callback([options] { classify(*options); });
}

void add_zero_shot(CLI::App& app) {
  auto options = std::make_shared<ZeroShotCommand>();
  CLI::App* command = app.add_subcommand("zero-shot", "Which of your labels fit texts, by a model for inference");
  options->text.add_to(*command, "one text a line");
  command->add_option("-l,--labels", options->labels, "labels, with commas between them")->required();
  command->add_option("--hypothesis", options->zero_shot.hypothesis, "{} stands for the label")->capture_default_str();
  command->add_flag("--multi-label", options->zero_shot.multi_label, "each label by itself");
  command->callback([options] { zero_shot(*options); });
}

void add_rerank(CLI::App& app) {
  auto options = std::make_shared<RerankCommand>();
  CLI::App* command = app.add_subcommand("rerank", "Documents by how well they fit a query, by a cross encoder");
  options->text.add_to(*command, "one document a line");
  command->add_option("-q,--query", options->query, "what is looked for")->required();
  command->add_option("-k,--top-k", options->top_k, "the best so many; 0: all")->capture_default_str();
  command->add_flag("--raw", options->raw, "scores without the model's activation");
  command->callback([options] { rerank(*options); });
}

}  // namespace transmuter::cli
