// generation_config.json into settings.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "text/folder.h"
#include "transmuter/error.h"
#include "transmuter/generation.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

template <class T>
void take(const json& j, T& to) {
  j.get_to(to);
}
template <class T>
void take(const json& j, std::optional<T>& to) {
  to = j.get<T>();
}
// One id or a list of them.
void take_ids(const json& j, std::vector<int64_t>& to) {
  to = j.is_array() ? j.get<std::vector<int64_t>>() : std::vector<int64_t>{j.get<int64_t>()};
}

void take_watermark(const json& j, std::optional<Watermark>& to) {
  Watermark mark;
  mark.greenlist_ratio = j.value("greenlist_ratio", mark.greenlist_ratio);
  mark.bias = j.value("bias", mark.bias);
  mark.hashing_key = j.value("hashing_key", mark.hashing_key);
  mark.selfhash = j.value("seeding_scheme", "lefthash") == "selfhash";
  mark.context_width = j.value("context_width", mark.context_width);
  to = mark;
}

// What transformers no longer has, or what changes texts in a way that this library doesn't know: better said than
// passed over.
void refuse(const json& j) {
  const auto number = [&](const char* field) {
    const auto it = j.find(field);
    return it != j.end() && it->is_number() ? it->get<double>() : 0;
  };
  if (number("num_beam_groups") > 1 || number("diversity_penalty") > 0)
    throw Error(ErrorCode::unsupported, "group beam search (num_beam_groups, diversity_penalty) is not available");
  if (number("penalty_alpha") > 0)
    throw Error(ErrorCode::unsupported, "contrastive search (penalty_alpha) is not available");
  for (const char* field : {"constraints", "force_words_ids"}) {
    if (const auto it = j.find(field); it != j.end() && !it->is_null())
      throw Error(ErrorCode::unsupported, str("constrained beam search (", field, ") is not available"));
  }
}

using Field = void (*)(const json&, GenerationConfig&);

struct Named {
  const char* name;
  Field read;
};

template <auto member>
void plain(const json& j, GenerationConfig& config) {
  take(j, config.*member);
}

using Config = GenerationConfig;
constexpr Named kFields[] = {
    {"max_new_tokens", plain<&Config::max_new_tokens>},
    {"max_length", plain<&Config::max_length>},
    {"min_length", plain<&Config::min_length>},
    {"min_new_tokens", plain<&Config::min_new_tokens>},
    {"max_time", plain<&Config::max_time>},
    {"do_sample", plain<&Config::do_sample>},
    {"num_beams", plain<&Config::num_beams>},
    {"num_return_sequences", plain<&Config::num_return_sequences>},
    {"length_penalty", plain<&Config::length_penalty>},
    {"guidance_scale", plain<&Config::guidance_scale>},
    {"encoder_repetition_penalty", plain<&Config::encoder_repetition_penalty>},
    {"repetition_penalty", plain<&Config::repetition_penalty>},
    {"no_repeat_ngram_size", plain<&Config::no_repeat_ngram_size>},
    {"encoder_no_repeat_ngram_size", plain<&Config::encoder_no_repeat_ngram_size>},
    {"bad_words_ids", plain<&Config::bad_words_ids>},
    {"forced_bos_token_id", plain<&Config::forced_bos_token_id>},
    {"remove_invalid_values", plain<&Config::remove_invalid_values>},
    {"exponential_decay_length_penalty", plain<&Config::exponential_decay_length_penalty>},
    {"temperature", plain<&Config::temperature>},
    {"top_h", plain<&Config::top_h>},
    {"top_k", plain<&Config::top_k>},
    {"top_p", plain<&Config::top_p>},
    {"min_p", plain<&Config::min_p>},
    {"typical_p", plain<&Config::typical_p>},
    {"epsilon_cutoff", plain<&Config::epsilon_cutoff>},
    {"eta_cutoff", plain<&Config::eta_cutoff>},
    {"renormalize_logits", plain<&Config::renormalize_logits>},
    {"pad_token_id", plain<&Config::pad_token_id>},
    {"bos_token_id", plain<&Config::bos_token_id>},
    {"decoder_start_token_id", plain<&Config::decoder_start_token_id>},
    {"eos_token_id", [](const json& j, GenerationConfig& c) { take_ids(j, c.eos_token_id); }},
    {"forced_eos_token_id", [](const json& j, GenerationConfig& c) { take_ids(j, c.forced_eos_token_id); }},
    {"suppress_tokens", [](const json& j, GenerationConfig& c) { take_ids(j, c.suppress_tokens); }},
    {"begin_suppress_tokens", [](const json& j, GenerationConfig& c) { take_ids(j, c.begin_suppress_tokens); }},
    {"watermarking_config", [](const json& j, GenerationConfig& c) { take_watermark(j, c.watermark); }},
    {"sequence_bias",
     [](const json& j, GenerationConfig& c) {
       c.sequence_bias = j.get<std::vector<std::pair<std::vector<int64_t>, double>>>();
     }},
    {"early_stopping",
     [](const json& j, GenerationConfig& c) {
       using Early = GenerationConfig::EarlyStopping;
       c.early_stopping = j.is_string() && j == "never" ? Early::never : j.get<bool>() ? Early::yes : Early::no;
     }},
    {"stop_strings",
     [](const json& j, GenerationConfig& c) {
       c.stop_strings =
           j.is_string() ? std::vector<std::string>{j.get<std::string>()} : j.get<std::vector<std::string>>();
     }},
};

json parsed(const std::string& text, const std::string& file) {
  try {
    json j = json::parse(text);
    if (!j.is_object()) throw Error(ErrorCode::invalid_model, str(file, " is not a JSON object"));
    return j;
  } catch (const json::exception& error) {
    throw Error(ErrorCode::invalid_model, str("cannot read ", file, ": ", error.what()));
  }
}

// `known`: fields that were set before and stay; nullptr: all may be.
void update_from(GenerationConfig& config, const json& j, const std::string& file, std::vector<std::string>* known) {
  try {
    refuse(j);
  } catch (Error& error) {
    error.in("file " + file);
    throw;
  }
  for (const Named& field : kFields) {
    const auto it = j.find(field.name);
    if (it == j.end() || it->is_null()) continue;
    if (known) {
      if (std::find(known->begin(), known->end(), field.name) != known->end()) continue;
      known->emplace_back(field.name);
    }
    try {
      field.read(*it, config);
    } catch (const json::exception& error) {
      throw Error(ErrorCode::invalid_model,
                  str("cannot read ", field.name, " = ", it->dump(), " in ", file, ": ", error.what()));
    }
  }
}

}  // namespace

bool GenerationConfig::has_field(std::string_view name) {
  return std::any_of(std::begin(kFields), std::end(kFields), [&](const Named& field) { return name == field.name; });
}

void GenerationConfig::update(const std::string& text, const std::string& file) {
  update_from(*this, parsed(text, file), file, nullptr);
}

GenerationConfig GenerationConfig::load(const std::string& folder) { return load(folder, GenerationConfig()); }

GenerationConfig GenerationConfig::load(const std::string& folder, GenerationConfig otherwise) {
  GenerationConfig config = std::move(otherwise);
  const fs::path path = fs::path(folder) / "generation_config.json";
  if (const auto text = read_text_file(path)) {
    config.update(*text, path.string());
    return config;
  }
  // The genai builder's file knows the ends of a chat's messages, which config.json often lacks.
  const fs::path genai = fs::path(folder) / "genai_config.json";
  if (const auto text = read_text_file(genai)) {
    const json j = parsed(*text, genai.string());
    for (const char* part : {"search", "model"}) {
      const auto it = j.find(part);
      if (it == j.end() || !it->is_object()) continue;
      json fields = *it;
      // As long as the model's places: no answer is meant to be.
      for (const char* field : {"max_length", "min_length"}) fields.erase(field);
      update_from(config, fields, str(genai.string(), " (", part, ")"), nullptr);
    }
    return config;
  }
  const fs::path other = fs::path(folder) / "config.json";
  const auto text = read_text_file(other);
  if (!text) return config;
  const json j = parsed(*text, other.string());
  std::vector<std::string> known;
  update_from(config, j, other.string(), &known);
  for (const char* part : {"decoder", "generator", "text_config"}) {
    if (const auto it = j.find(part); it != j.end() && it->is_object())
      update_from(config, *it, str(other.string(), " (", part, ")"), &known);
  }
  return config;
}

}  // namespace transmuter
