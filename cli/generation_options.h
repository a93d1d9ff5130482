// Options that every command which writes texts has.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"

namespace transmuter::cli {

// Settings of generation_config.json that were given on the command line, on top of the folder's.
class SettingOptions {
 public:
  void add_to(CLI::App& command);
  // `seed`: the one of the engine's options.
  void apply(GenerationConfig& config, uint64_t seed) const;

 private:
  nlohmann::json given_ = nlohmann::json::object();  // by the names of the fields
  std::vector<std::string> stops_;
  std::vector<std::string> fields_;  // NAME=VALUE
};

// A smaller model that guesses.
class Draft {
 public:
  void add_to(CLI::App& command);
  // Null where none was given. Throws as TokenGenerator::load.
  const TokenGenerator* load(const CompileOptions& compile, const std::string& dtype);

 private:
  std::string place_;
  std::optional<TokenGenerator> model_;
};

void add_dtype(CLI::App& command, std::string& dtype);

// NAME=VALUE, VALUE in JSON (what isn't is a text): one more field of `config`. Throws Error(invalid_input).
void set_field(GenerationConfig& config, const std::string& field);

// JSON as text; `what` is named where a string in it is not valid UTF-8. Throws Error(invalid_input).
std::string dumped(const nlohmann::ordered_json& value, const std::string& what);

nlohmann::ordered_json summary_json(const GeneratedText& answer);

}  // namespace transmuter::cli
