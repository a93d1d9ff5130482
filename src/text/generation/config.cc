// generation_config.json into settings.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/strings.h"
#include "text/folder.h"
#include "transmuter/error.h"
#include "transmuter/generation.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
// Each takes `j` if it is of the member's kind; false: it is not, and nothing has changed.
bool take(const Json& j, bool& to) {
  if (!j.is_boolean()) return false;
  to = j.get<bool>();
  return true;
}
bool take(const Json& j, double& to) {
  if (!j.is_number()) return false;
  to = j.get<double>();
  return true;
}
bool take(const Json& j, int64_t& to) {
  double number = NAN;
  if (!take(j, number) || !(std::abs(number) < 9e15) || number != std::floor(number)) return false;
  to = j.is_number_integer() ? j.get<int64_t>() : static_cast<int64_t>(number);
  return true;
}
bool take(const Json& j, std::string& to) {
  if (!j.is_string()) return false;
  to = j.get<std::string>();
  return true;
}
template <class A, class B>
bool take(const Json& j, std::pair<A, B>& to);
template <class T>
bool take(const Json& j, std::optional<T>& to) {
  T value{};
  if (!take(j, value)) return false;
  to = std::move(value);
  return true;
}
template <class T>
bool take(const Json& j, std::vector<T>& to) {
  if (!j.is_array()) return false;
  std::vector<T> all(j.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (!take(j[i], all[i])) return false;
  }
  to = std::move(all);
  return true;
}
template <class A, class B>
bool take(const Json& j, std::pair<A, B>& to) {
  return j.is_array() && j.size() == 2 && take(j[0], to.first) && take(j[1], to.second);
}
// One or a list of them.
template <class T>
bool take_several(const Json& j, std::vector<T>& to) {
  return j.is_array() ? take(j, to) : take(Json::array({j}), to);
}

bool take_watermark(const Json& j, std::optional<Watermark>& to) {
  if (!j.is_object()) return false;
  Watermark mark;
  int64_t key = -1;
  std::string scheme;
  const auto part = [&](const char* name, auto& value) {
    const auto it = j.find(name);
    return it == j.end() || it->is_null() || take(*it, value);
  };
  const bool fine = part("greenlist_ratio", mark.greenlist_ratio) && part("bias", mark.bias) &&
                    part("hashing_key", key) && part("seeding_scheme", scheme) &&
                    part("context_width", mark.context_width);
  if (!fine) return false;
  if (key >= 0) mark.hashing_key = static_cast<uint64_t>(key);
  mark.selfhash = scheme == "selfhash";
  to = mark;
  return true;
}

bool take_early_stopping(const Json& j, GenerationConfig::EarlyStopping& to) {
  using Early = GenerationConfig::EarlyStopping;
  if (!j.is_boolean() && j != "never") return false;
  to = j.is_string() ? Early::never : j.get<bool>() ? Early::yes : Early::no;
  return true;
}

// What transformers no longer has, or what changes texts in a way that this library doesn't know: better said than
// passed over.
void refuse(const Json& j) {
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

// Takes a field's value; false: it is of the wrong kind.
using Field = bool (*)(const Json&, GenerationConfig&);

struct Named {
  const char* name;
  const char* wanted;  // for messages
  Field read;
};

using Config = GenerationConfig;
template <auto member>
bool plain(const Json& j, Config& config) {
  return take(j, config.*member);
}
template <auto member>
bool several(const Json& j, Config& config) {
  return take_several(j, config.*member);
}

constexpr const char *kInteger = "an integer", *kNumber = "a number", *kFlag = "true or false",
                     *kIds = "an id or a list of ids";
constexpr Named kFields[] = {
    {"max_new_tokens", kInteger, plain<&Config::max_new_tokens>},
    {"max_length", kInteger, plain<&Config::max_length>},
    {"min_length", kInteger, plain<&Config::min_length>},
    {"min_new_tokens", kInteger, plain<&Config::min_new_tokens>},
    {"max_time", kNumber, plain<&Config::max_time>},
    {"do_sample", kFlag, plain<&Config::do_sample>},
    {"num_beams", kInteger, plain<&Config::num_beams>},
    {"num_return_sequences", kInteger, plain<&Config::num_return_sequences>},
    {"length_penalty", kNumber, plain<&Config::length_penalty>},
    {"guidance_scale", kNumber, plain<&Config::guidance_scale>},
    {"encoder_repetition_penalty", kNumber, plain<&Config::encoder_repetition_penalty>},
    {"repetition_penalty", kNumber, plain<&Config::repetition_penalty>},
    {"no_repeat_ngram_size", kInteger, plain<&Config::no_repeat_ngram_size>},
    {"encoder_no_repeat_ngram_size", kInteger, plain<&Config::encoder_no_repeat_ngram_size>},
    {"bad_words_ids", "a list of lists of ids", plain<&Config::bad_words_ids>},
    {"forced_bos_token_id", kInteger, plain<&Config::forced_bos_token_id>},
    {"remove_invalid_values", kFlag, plain<&Config::remove_invalid_values>},
    {"exponential_decay_length_penalty", "[START, FACTOR]", plain<&Config::exponential_decay_length_penalty>},
    {"temperature", kNumber, plain<&Config::temperature>},
    {"top_h", kNumber, plain<&Config::top_h>},
    {"top_k", kInteger, plain<&Config::top_k>},
    {"top_p", kNumber, plain<&Config::top_p>},
    {"min_p", kNumber, plain<&Config::min_p>},
    {"typical_p", kNumber, plain<&Config::typical_p>},
    {"epsilon_cutoff", kNumber, plain<&Config::epsilon_cutoff>},
    {"eta_cutoff", kNumber, plain<&Config::eta_cutoff>},
    {"renormalize_logits", kFlag, plain<&Config::renormalize_logits>},
    {"pad_token_id", kInteger, plain<&Config::pad_token_id>},
    {"bos_token_id", kInteger, plain<&Config::bos_token_id>},
    {"decoder_start_token_id", kInteger, plain<&Config::decoder_start_token_id>},
    {"sequence_bias", "a list of [IDS, BIAS]", plain<&Config::sequence_bias>},
    {"prompt_lookup_num_tokens", kInteger, plain<&Config::prompt_lookup_num_tokens>},
    {"max_matching_ngram_size", kInteger, plain<&Config::max_matching_ngram_size>},
    {"num_assistant_tokens", kInteger, plain<&Config::num_assistant_tokens>},
    {"assistant_confidence_threshold", kNumber, plain<&Config::assistant_confidence_threshold>},
    {"eos_token_id", kIds, several<&Config::eos_token_id>},
    {"forced_eos_token_id", kIds, several<&Config::forced_eos_token_id>},
    {"suppress_tokens", kIds, several<&Config::suppress_tokens>},
    {"begin_suppress_tokens", kIds, several<&Config::begin_suppress_tokens>},
    {"stop_strings", "a text or a list of texts", several<&Config::stop_strings>},
    {"early_stopping", "true, false or \"never\"",
     [](const Json& j, Config& c) { return take_early_stopping(j, c.early_stopping); }},
    {"watermarking_config", "an object of greenlist_ratio, bias, hashing_key, seeding_scheme and context_width",
     [](const Json& j, Config& c) { return take_watermark(j, c.watermark); }},
};

Json parsed(const std::string& text, const std::string& file) {
  Json j;
  if (const auto fault = json_fault(text, j)) throw Error(ErrorCode::invalid_model, str(file, " ", *fault));
  if (!j.is_object()) throw Error(ErrorCode::invalid_model, str(file, " does not hold a JSON object"));
  return j;
}

// `known`: fields that were set before and stay; nullptr: all may be.
void update_from(GenerationConfig& config, const Json& j, const std::string& file, std::vector<std::string>* known) {
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
    if (field.read(*it, config)) continue;
    std::string value = it->dump(-1, ' ', false, Json::error_handler_t::replace);
    if (value.size() > 60) value = value.substr(0, 60) + " ...";
    throw Error(ErrorCode::invalid_model, str("\"", field.name, "\" in ", file, " is ", value, ", not ", field.wanted));
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
    const Json j = parsed(*text, genai.string());
    for (const char* part : {"search", "model"}) {
      const auto it = j.find(part);
      if (it == j.end() || !it->is_object()) continue;
      Json fields = *it;
      // As long as the model's places: no answer is meant to be.
      for (const char* field : {"max_length", "min_length"}) fields.erase(field);
      update_from(config, fields, str(genai.string(), " (", part, ")"), nullptr);
    }
    return config;
  }
  const fs::path other = fs::path(folder) / "config.json";
  const auto text = read_text_file(other);
  if (!text) return config;
  const Json j = parsed(*text, other.string());
  std::vector<std::string> known;
  update_from(config, j, other.string(), &known);
  for (const char* part : {"decoder", "generator", "text_config"}) {
    if (const auto it = j.find(part); it != j.end() && it->is_object())
      update_from(config, *it, str(other.string(), " (", part, ")"), &known);
  }
  return config;
}

}  // namespace transmuter
