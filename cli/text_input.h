// What the text commands read: texts given as options, lines of files or of standard input, JSONL.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"

namespace CLI {
class App;
}

namespace transmuter::cli {

using Json = nlohmann::ordered_json;

// Options of every command that loads a model for texts.
struct TextOptions {
  EngineOptions engine;
  std::string folder;
  std::vector<std::string> texts;
  std::string file;
  size_t max_length = 0;
  size_t batch_tokens = TextTaskOptions().batch_tokens;
  bool as_json = false;

  // `what` names a line of the file: "one text a line".
  void add_to(CLI::App& command, const std::string& what);
  TextTaskOptions task_options() const;
  // The model's folder; hf:REPO is downloaded.
  std::string place() const;
};

// One thing to work on: {"text": …} with what else its JSON object holds.
struct TextItem {
  Json fields;
  const std::string& text(const std::string& key) const;  // throws Error(invalid_input) when it isn't there
  bool has(const std::string& key) const { return fields.contains(key); }
};

// A file's text; "-" is standard input. Throws Error(not_found).
std::string read_all(const std::string& path);
// One text a line, empty ones left out.
std::vector<std::string> read_lines(const std::string& path);

// The texts of the options, then the file's lines. A file named *.jsonl, and lines of standard input that begin with {
// , hold a JSON object each (or a text in quotes); else a line is a text. `key` is what a plain text counts as. Empty
// lines are left out. Throws Error when there is nothing.
std::vector<TextItem> read_items(const TextOptions& options, const std::string& key);

std::vector<std::string> column(const std::vector<TextItem>& items, const std::string& key);

// Whether the items have a "text_pair" too. Throws Error(invalid_input) when only some do.
bool are_pairs(const std::vector<TextItem>& items);

// A score as the tables show it.
std::string percent(double score);

// In one line. Bytes that are no character are shown as such.
void print_json(const Json& json);

}  // namespace transmuter::cli
