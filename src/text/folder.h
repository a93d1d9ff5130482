// The files of a model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "transmuter/tokenizer.h"

namespace transmuter {

// Keys in the file's order, which templates and results show.
using Json = nlohmann::ordered_json;

// Parses JSON that people and exporters wrote. Why it can't be had, to stand behind the name of the text ("is not valid
// JSON at line 3, column 7"); nothing if it can, and then `out` holds it.
std::optional<std::string> json_fault(std::string_view text, Json& out);

// A file's bytes; nothing when there is no such file. Throws Error(io).
std::optional<std::string> read_text_file(const std::filesystem::path& path);

// A JSON object; nothing when there is no such file. Throws Error(invalid_model) that names the file.
std::optional<Json> read_json_object(const std::filesystem::path& path);

// Members of an object, missing or null giving the fallback. A wrong type throws Error(invalid_model) that names the
// file and the key.
class JsonReader {
 public:
  JsonReader(const Json& object, std::string file) : object_(object), file_(std::move(file)) {}

  const Json* find(const std::string& key) const;  // null: absent or null
  std::string text(const std::string& key, const std::string& fallback = "") const;
  bool flag(const std::string& key, bool fallback) const;
  double number(const std::string& key, double fallback) const;
  int64_t integer(const std::string& key, int64_t fallback) const;
  const std::string& file() const { return file_; }

 private:
  [[noreturn]] void wrong(const std::string& key, const char* wanted) const;

  const Json& object_;
  std::string file_;
};

// The last part of a Python class's path: "torch.nn.modules.activation.Tanh" → "Tanh".
std::string class_name(const std::string& path);

// What tokenizer_config.json and special_tokens_map.json say; a folder with neither has the defaults.
struct TokenizerConfig {
  std::map<std::string, std::string> special_tokens;  // by name: "pad_token" → "[PAD]"
  size_t model_max_length = 0;                        // 0 = no limit
  bool pad_left = false;
  bool truncate_left = false;
  Json json = Json::object();  // tokenizer_config.json itself

  const std::string* special(const std::string& name) const;
  std::optional<int64_t> special_id(const std::string& name, const Tokenizer& tokenizer) const;
};
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

// The folder's tokenizer.json. Throws Error(not_found) that says how to make one.
Tokenizer load_tokenizer(const std::filesystem::path& folder);

}  // namespace transmuter
