#include "text/folder.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {

namespace fs = std::filesystem;

namespace {

// Templates, messages and files stay far below; beyond it the parsers that come later give up, or the stack does.
constexpr size_t kDeepest = 100;

bool nests_too_deep(std::string_view json) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> json_fault(std::string_view text, Json& out) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "is not valid JSON: it is empty";
  if (nests_too_deep(text)) return str("nests lists and objects deeper than ", kDeepest, " levels");
  try {
    out = Json::parse(text);
  } catch (const Json::parse_error& error) {
    if (error.byte > text.size()) return "is not valid JSON: it ends too early";
    const std::string_view before = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    const size_t line = before.rfind('\n');
    return str("is not valid JSON at line ", std::count(before.begin(), before.end(), '\n') + 1, ", column ",
               line == std::string_view::npos ? before.size() + 1 : before.size() - line);
  } catch (const Json::exception&) {
    return "is not valid JSON: it holds a number that is too large";
  }
  return std::nullopt;
}

std::optional<std::string> read_text_file(const fs::path& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf() || in.peek() == std::ifstream::traits_type::eof()))
    throw Error(ErrorCode::io, str("cannot read ", path.string()));
  return std::move(text).str();
}

std::optional<Json> read_json_object(const fs::path& path) {
  const std::optional<std::string> text = read_text_file(path);
  if (!text) return std::nullopt;
  Json json;
  if (const auto fault = json_fault(*text, json))
    throw Error(ErrorCode::invalid_model, str(path.string(), " ", *fault, "; download or save it again"));
  if (!json.is_object()) throw Error(ErrorCode::invalid_model, str(path.string(), " does not hold a JSON object"));
  return json;
}

const Json* JsonReader::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonReader::wrong(const std::string& key, const char* wanted) const {
  throw Error(ErrorCode::invalid_model, str("\"", key, "\" in ", file_, " is not ", wanted));
}

std::string JsonReader::text(const std::string& key, const std::string& fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) wrong(key, "a text");
  return value->get<std::string>();
}

bool JsonReader::flag(const std::string& key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) wrong(key, "true or false");
  return value->get<bool>();
}

double JsonReader::number(const std::string& key, double fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_number()) wrong(key, "a number");
  return value->get<double>();
}

int64_t JsonReader::integer(const std::string& key, int64_t fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(std::abs(number) < 9e15) || number != std::floor(number)) wrong(key, "an integer");
  return static_cast<int64_t>(number);
}

std::string class_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

const std::string* TokenizerConfig::special(const std::string& name) const {
  const auto found = special_tokens.find(name);
  return found == special_tokens.end() ? nullptr : &found->second;
}

std::optional<int64_t> TokenizerConfig::special_id(const std::string& name, const Tokenizer& tokenizer) const {
  const std::string* token = special(name);
  return token ? tokenizer.token_to_id(*token) : std::nullopt;
}

Tokenizer load_tokenizer(const fs::path& folder) {
  const fs::path path = folder / "tokenizer.json";
  std::error_code none;
  if (fs::exists(path, none)) return Tokenizer::load(path.string());
  if (!fs::is_directory(folder, none)) throw Error(ErrorCode::not_found, str("there is no folder ", folder.string()));
  throw Error(ErrorCode::not_found,
              str("there is no tokenizer.json in ", folder.string(),
                  "; save one with transformers' AutoTokenizer.from_pretrained(…).save_pretrained(…)"));
}

namespace {

// A token is a text, or an object that holds it with how it is matched.
void add_special_tokens(const Json& json, std::map<std::string, std::string>& tokens) {
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = json.find(name);
    if (found == json.end()) continue;
    const Json& value = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    if (value.is_string()) tokens.emplace(name, value.get<std::string>());
  }
}

bool is_left(const JsonReader& config, const char* key) {
  const std::string side = config.text(key, "right");
  if (side != "left" && side != "right")
    throw Error(ErrorCode::invalid_model,
                str("\"", key, "\" in ", config.file(), " is \"", side, "\", neither left nor right"));
  return side == "left";
}

}  // namespace

TokenizerConfig read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig out;
  const fs::path path = folder / "tokenizer_config.json";
  if (std::optional<Json> json = read_json_object(path)) {
    const JsonReader config(*json, path.string());
    add_special_tokens(*json, out.special_tokens);
    // Tokenizers without a limit say 1e30.
    const double limit = config.number("model_max_length", 0);
    if (limit < 1e9 && limit != std::floor(limit))
      throw Error(ErrorCode::invalid_model, str("\"model_max_length\" in ", config.file(), " is no whole number"));
    if (limit > 0 && limit < 1e9) out.model_max_length = static_cast<size_t>(limit);
    out.pad_left = is_left(config, "padding_side");
    out.truncate_left = is_left(config, "truncation_side");
    out.json = std::move(*json);
  }
  if (const std::optional<Json> map = read_json_object(folder / "special_tokens_map.json"))
    add_special_tokens(*map, out.special_tokens);
  return out;
}

}  // namespace transmuter
