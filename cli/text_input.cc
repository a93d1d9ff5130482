#include "text_input.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "hub_progress.h"

namespace transmuter::cli {

void TextOptions::add_to(CLI::App& command, const std::string& what) {
  command
      .add_option("model", folder,
                  "folder with tokenizer.json, config.json and model.onnx; the graph's path; or hf:REPO[@REVISION]")
      ->required();
  command.add_option("file", file, what + "; *.jsonl: a JSON object a line; - reads standard input");
  command.add_option("-t,--text", texts, "a text; may be given again");
  command.add_option("--max-length", max_length, "tokens a text may have; 0: as the model's files say");
  command.add_option("--batch-tokens", batch_tokens, "tokens that run together, padding included")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command.add_flag("--json", as_json, "JSON, a line for each text");
  engine.add_to(command);
}

TextTaskOptions TextOptions::task_options() const {
  TextTaskOptions options;
  options.compile = engine.compile_options();
  options.max_length = max_length;
  options.batch_tokens = batch_tokens;
  return options;
}

std::string TextOptions::place() const { return local_folder(folder); }

const std::string& TextItem::text(const std::string& key) const {
  const auto found = fields.find(key);
  if (found == fields.end() || !found->is_string())
    throw Error(ErrorCode::invalid_input, "an input has no text \"" + key + "\": " + fields.dump());
  return found->get_ref<const std::string&>();
}

std::string read_all(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path, std::ios::binary);
  if (std::filesystem::is_directory(path))
    throw Error(ErrorCode::invalid_input, path + " is a folder: name a file with texts");
  if (!file) throw Error(ErrorCode::not_found, "cannot read " + path);
  text << file.rdbuf();
  return text.str();
}

namespace {

// Calls `take` with each line that isn't empty and its number.
template <class Take>
void for_each_line(const std::string& text, const Take& take) {
  std::istringstream in(text);
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) take(line, number);
  }
}

TextItem item_of(const std::string& line, size_t number, const std::string& name, bool always_json,
                 const std::string& key) {
  if (!always_json && line.front() != '{') return {Json{{key, line}}};
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() && !always_json) json = line;  // a text that begins with a brace
  if (json.is_string()) json = Json{{key, json}};
  if (!json.is_object())
    throw Error(ErrorCode::invalid_input,
                "line " + std::to_string(number) + " of " + name + " is neither a JSON object nor a JSON text");
  return {std::move(json)};
}

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  for_each_line(read_all(path), [&](const std::string& line, size_t) { lines.push_back(line); });
  return lines;
}

std::vector<TextItem> read_items(const TextOptions& options, const std::string& key) {
  std::vector<TextItem> items;
  for (const std::string& text : options.texts) items.push_back({Json{{key, text}}});
  if (!options.file.empty()) {
    const std::string name = options.file == "-" ? "standard input" : options.file;
    const bool always_json = options.file.ends_with(".jsonl");
    for_each_line(read_all(options.file), [&](const std::string& line, size_t number) {
      items.push_back(item_of(line, number, name, always_json, key));
    });
  }
  if (items.empty()) throw Error(ErrorCode::invalid_input, "no text: give --text, or a file (- for standard input)");
  return items;
}

std::vector<std::string> column(const std::vector<TextItem>& items, const std::string& key) {
  std::vector<std::string> out;
  for (const TextItem& item : items) out.push_back(item.text(key));
  return out;
}

bool are_pairs(const std::vector<TextItem>& items) {
  size_t pairs = 0;
  for (const TextItem& item : items) pairs += item.has("text_pair");
  if (pairs && pairs != items.size())
    throw Error(ErrorCode::invalid_input, "some inputs have a text_pair and some don't");
  return pairs > 0;
}

std::string percent(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%6.2f%%", score * 100);
  return text;
}

void print_json(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace transmuter::cli
