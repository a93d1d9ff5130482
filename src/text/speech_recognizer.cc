// Speech to text: features, an answer's first tokens by what the folder's files say, and a decoder's text.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "text/folder.h"
#include "transmuter/audio.h"
#include "transmuter/error.h"
#include "transmuter/speech.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestOtherwise = 448;  // tokens, where no file says

// {"<|en|>": 50259} → {"en": 50259}
std::map<std::string, int64_t> ids_of(const JsonReader& reader, const char* key) {
  std::map<std::string, int64_t> ids;
  const Json* object = reader.find(key);
  if (!object) return ids;
  for (const auto& [name, id] : object->items()) {
    if (!id.is_number_integer())
      throw Error(ErrorCode::invalid_model, str("\"", key, "\" has no token for ", name)).in("file " + reader.file());
    const bool marked = name.size() > 4 && name.starts_with("<|") && name.ends_with("|>");
    ids[marked ? name.substr(2, name.size() - 4) : name] = id.get<int64_t>();
  }
  return ids;
}

// [[1, 50259], [2, 50359]]: tokens that older files put behind the start.
std::vector<int64_t> forced_of(const JsonReader& reader) {
  std::map<int64_t, int64_t> by_place;
  if (const Json* list = reader.find("forced_decoder_ids"); list && list->is_array()) {
    for (const Json& pair : *list) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer())
        throw Error(ErrorCode::invalid_model, "\"forced_decoder_ids\" is no list of places and tokens")
            .in("file " + reader.file());
      if (pair[1].is_number_integer()) by_place[pair[0].get<int64_t>()] = pair[1].get<int64_t>();
    }
  }
  std::vector<int64_t> ids;
  for (const auto& [place, id] : by_place) ids.push_back(id);
  return ids;
}

std::string without_blanks_around(const std::string& text) {
  const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

void check_features(const fs::path& folder) {
  const fs::path file = folder / "preprocessor_config.json";
  const Json config = read_json_object(file).value_or(Json::object());
  const std::string kind = JsonReader(config, file.string()).text("feature_extractor_type", "WhisperFeatureExtractor");
  if (kind != "WhisperFeatureExtractor")
    throw Error(ErrorCode::unsupported, str("the model hears what ", kind,
                                            " makes of a sound; log-mel features (WhisperFeatureExtractor) are known"))
        .in("file " + file.string());
}

}  // namespace

struct SpeechRecognizer::Impl {
  LogMelOptions features;
  Tokenizer tokenizer;
  TokenGenerator generator;
  GenerationConfig config;
  std::string hears;  // the encoder's input
  int64_t start;
  std::vector<int64_t> forced;
  std::map<std::string, int64_t> languages, tasks;
  std::optional<int64_t> no_timestamps;

  // The language that the model finds likeliest.
  std::string heard_language(const Tensor& sound) const {
    GenerationConfig one = config;
    one.max_new_tokens = 1;
    one.num_beams = one.num_return_sequences = 1;
    one.do_sample = false;
    GenerationCall call;
    call.allowed_tokens = [this](size_t, std::span<const int64_t>) {
      std::vector<int64_t> ids;
      for (const auto& [name, id] : languages) ids.push_back(id);
      return ids;
    };
    const int64_t id = answer(sound, {start}, one, call).at(0);
    return std::find_if(languages.begin(), languages.end(), [&](const auto& each) { return each.second == id; })->first;
  }

  std::vector<int64_t> first_tokens(const std::string& language, bool translate) const {
    std::vector<int64_t> ids{start};
    if (languages.empty() && tasks.empty() && !no_timestamps) {
      ids.insert(ids.end(), forced.begin(), forced.end());
      return ids;
    }
    if (!language.empty()) ids.push_back(languages.at(language));
    if (const auto task = tasks.find(translate ? "translate" : "transcribe"); !languages.empty() && task != tasks.end())
      ids.push_back(task->second);
    if (no_timestamps) ids.push_back(*no_timestamps);
    return ids;
  }

  std::vector<int64_t> answer(const Tensor& sound, std::vector<int64_t> first, const GenerationConfig& settings,
                              const GenerationCall& call = {}) const {
    GenerationPrompt prompt;
    prompt.decoder_ids = std::move(first);
    prompt.encoder_inputs = {{hears, sound}};
    return generator({&prompt, 1}, settings, call).front().ids;
  }
};

SpeechRecognizer SpeechRecognizer::load(const std::string& folder, const CompileOptions& compile,
                                        const std::string& dtype) {
  const fs::path place(folder);
  const LogMelOptions features = LogMelOptions::load(folder);
  check_features(place);
  GenerationModels models = GenerationModels::load(folder, compile, dtype);
  if (!models.encoder)
    throw Error(ErrorCode::unsupported, "the folder has no encoder (encoder_model.onnx): nothing here hears")
        .in("folder " + folder);
  if (models.encoder->inputs().empty())
    throw Error(ErrorCode::invalid_model, "the encoder takes nothing").in("folder " + folder);
  const std::string hears = models.encoder->inputs().front().name;
  GenerationConfig otherwise;
  otherwise.max_length = models.max_positions > 0 ? models.max_positions : kLongestOtherwise;
  GenerationConfig config = GenerationConfig::load(folder, otherwise);
  if (!config.decoder_start_token_id)
    throw Error(ErrorCode::invalid_model, "no file says what an answer begins with: decoder_start_token_id is missing")
        .in("file " + (place / "generation_config.json").string());
  fs::path file = place / "generation_config.json";
  std::optional<Json> json = read_json_object(file);
  if (!json) json = read_json_object(file = place / "config.json").value_or(Json::object());
  const JsonReader reader(*json, file.string());
  const int64_t no_timestamps = reader.integer("no_timestamps_token_id", -1), start = *config.decoder_start_token_id;
  auto impl = std::make_shared<Impl>(Impl{features,
                                          load_tokenizer(place),
                                          TokenGenerator(std::move(models), config),
                                          config,
                                          hears,
                                          start,
                                          forced_of(reader),
                                          ids_of(reader, "lang_to_id"),
                                          ids_of(reader, "task_to_id"),
                                          {}});
  if (no_timestamps >= 0) impl->no_timestamps = no_timestamps;
  return SpeechRecognizer(std::move(impl));
}

int64_t SpeechRecognizer::rate() const { return impl_->features.rate; }
const GenerationConfig& SpeechRecognizer::config() const { return impl_->config; }

Transcript SpeechRecognizer::operator()(std::span<const float> sound, const TranscribeOptions& options,
                                        const GenerationConfig& config) const {
  const Impl& model = *impl_;
  Transcript transcript;
  transcript.language = options.language;
  if (!options.language.empty() && !model.languages.contains(options.language))
    throw Error(ErrorCode::invalid_input, model.languages.empty()
                                              ? "the model has one language; none can be chosen"
                                              : str("the model does not know the language \"", options.language, "\""));
  if (options.translate && (model.languages.empty() || !model.tasks.contains("translate")))
    throw Error(ErrorCode::invalid_input, "the model cannot translate");
  const auto length = static_cast<size_t>(model.features.samples);
  for (size_t at = 0; at < sound.size(); at += length) {
    const Tensor features = log_mel(sound.subspan(at, std::min(length, sound.size() - at)), model.features);
    if (transcript.language.empty() && !model.languages.empty()) transcript.language = model.heard_language(features);
    const std::vector<int64_t> ids =
        model.answer(features, model.first_tokens(transcript.language, options.translate), config);
    transcript.ids.insert(transcript.ids.end(), ids.begin(), ids.end());
    const std::string text = without_blanks_around(model.tokenizer.decode(ids));
    if (!text.empty()) transcript.text += (transcript.text.empty() ? "" : " ") + text;
  }
  return transcript;
}

}  // namespace transmuter
