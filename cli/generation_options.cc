#include "generation_options.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "hub_progress.h"

namespace transmuter::cli {

using nlohmann::json;

void SettingOptions::add_to(CLI::App& command) {
  const auto number = [&]<class T>(const char* option, const char* field, const char* text, T) {
    command.add_option_function<T>(
        option,
        [this, option, field](const T& value) {
          if (!std::isfinite(static_cast<double>(value))) throw CLI::ValidationError(option, "it is no finite number");
          given_[field] = value;
        },
        text);
  };
  const auto integer = [&](const char* option, const char* field, const char* text) {
    number(option, field, text, int64_t{});
  };
  const auto real = [&](const char* option, const char* field, const char* text) { number(option, field, text, 0.0); };
  integer("-n,--max-new-tokens", "max_new_tokens", "tokens to write at most");
  command.add_flag_callback(
      "--sample", [this] { given_["do_sample"] = true; }, "draw each token (see --seed)");
  command.add_flag_callback(
      "--greedy", [this] { given_["do_sample"] = false; }, "take the best token each time");
  real("--temperature", "temperature", "of draws: below 1 surer, above 1 more varied");
  integer("--top-k", "top_k", "draw from the k best tokens; 0: from all");
  real("--top-p", "top_p", "draw from the best tokens that hold this probability");
  real("--min-p", "min_p", "draw from tokens at least this likely, times the best one's probability");
  real("--typical-p", "typical_p", "draw from the most typical tokens that hold this probability");
  real("--repetition-penalty", "repetition_penalty", "above 1: what was said becomes less likely");
  integer("--no-repeat-ngram", "no_repeat_ngram_size", "no run of so many tokens twice");
  integer("--beams", "num_beams", "texts that are kept side by side");
  real("--length-penalty", "length_penalty", "of beams: above 0 favours longer texts, below shorter ones");
  integer("--answers", "num_return_sequences", "answers to each text; with --sample or --beams");
  integer("--lookup", "prompt_lookup_num_tokens",
          "tokens to guess at a time from what the text itself repeats: quicker, and the same answer");
  command.add_option("--stop", stops_, "end at this text; may be given again");
  command.add_option("--set", fields_, "NAME=VALUE: any other field of generation_config.json, VALUE as JSON");
}

void SettingOptions::apply(GenerationConfig& config, uint64_t seed) const {
  config.update(given_.dump(), "the command line");
  for (const std::string& field : fields_) set_field(config, field);
  config.stop_strings.insert(config.stop_strings.end(), stops_.begin(), stops_.end());
  config.seed = seed;
  // What only sampling has says that sampling is meant.
  for (const char* field : {"temperature", "top_k", "top_p", "min_p", "typical_p"}) {
    if (given_.contains(field) && !given_.contains("do_sample")) config.do_sample = true;
  }
}

void add_dtype(CLI::App& command, std::string& dtype) {
  command.add_option("--dtype", dtype, "variant of the model: fp32, fp16, q4, q4f16, int8, uint8, q8, bnb4");
}

void Draft::add_to(CLI::App& command) {
  command.add_option(
      "--draft", place_,
      "folder or hf:REPO of a smaller model with the same vocabulary, which guesses tokens that the model "
      "checks together: quicker, and the same answer");
}

const TokenGenerator* Draft::load(const CompileOptions& compile, const std::string& dtype) {
  if (!place_.empty()) model_.emplace(TokenGenerator::load(local_folder(place_, dtype), compile, dtype));
  return model_ ? &*model_ : nullptr;
}

void set_field(GenerationConfig& config, const std::string& field) {
  const size_t sign = field.find('=');
  if (sign == 0 || sign == std::string::npos)
    throw Error(ErrorCode::invalid_input, "\"" + field + "\" is not NAME=VALUE");
  const std::string name = field.substr(0, sign), text = field.substr(sign + 1);
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;
  if (name == "seed") {
    if (!value.is_number_unsigned()) throw Error(ErrorCode::invalid_input, "seed is a number");
    config.seed = value.get<uint64_t>();
    return;
  }
  config.update(dumped(json{{name, value}}, "a setting"), "--set");
  if (!GenerationConfig::has_field(name))
    throw Error(ErrorCode::invalid_input, "there is no setting \"" + name + "\" (--set)");
}

std::string dumped(const nlohmann::ordered_json& value, const std::string& what) {
  try {
    return value.dump();
  } catch (const json::type_error&) {
    throw Error(ErrorCode::invalid_input, what + " is not valid UTF-8: write it in that encoding");
  }
}

nlohmann::ordered_json summary_json(const GeneratedText& answer) {
  const TokenSummary& tokens = answer.token_summary;
  return {{"input", tokens.input}, {"output", tokens.output}, {"padding", tokens.padding}};
}

}  // namespace transmuter::cli
