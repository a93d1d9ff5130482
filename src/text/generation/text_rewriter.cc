// Summaries and translations: an encoder-decoder, and what its folder says about them.
#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "text/folder.h"
#include "text/generation/write_texts.h"
#include "transmuter/error.h"
#include "transmuter/text_generator.h"

namespace transmuter {

namespace fs = std::filesystem;

struct TextRewriter::Impl {
  TextGenerator generator;
  GenerationConfig config;
  std::string prefix;
  size_t max_length = 0;             // tokens of a text; 0: no limit
  std::optional<int64_t> from = {};  // the token of the language that texts are in
};

namespace {

// The id of a language by its token or code.
std::optional<int64_t> language_id(const Tokenizer& tokenizer, const std::string& code) {
  for (const std::string& token : {code, str("__", code, "__"), str("<2", code, ">"), str("<", code, ">")}) {
    if (const auto id = tokenizer.token_to_id(token)) return id;
  }
  return std::nullopt;
}

[[noreturn]] void unknown(const std::string& code) {
  throw Error(ErrorCode::invalid_input, str("the tokenizer has no token for the language \"", code,
                                            "\": name it as the model's tokenizer does (de, deu_Latn, de_DE)"));
}

// What stands in front of each text.
std::string prefix_for(const Json& config, const std::string& task, GenerationConfig& settings,
                       const std::string& file) {
  const std::string general = JsonReader(config, file).text("prefix");
  const auto params = config.find("task_specific_params");
  if (params == config.end() || !params->is_object()) return general;
  const auto ours = params->find(task);
  if (ours == params->end() || !ours->is_object()) return general;
  settings.update(ours->dump(), str(file, " (task_specific_params.", task, ")"));
  return JsonReader(*ours, file).text("prefix", general);
}

// The row with the source's language in it: where the tokenizer puts one, else in front.
void set_language(Encoding& row, int64_t language, const GenerationConfig& config) {
  const auto is_language = [&](size_t i) {
    const int64_t id = row.ids[i];
    const bool end = std::find(config.eos_token_id.begin(), config.eos_token_id.end(), id) != config.eos_token_id.end();
    return row.special_tokens_mask[i] == 1 && !end && id != config.pad_token_id && id != config.bos_token_id;
  };
  for (size_t i = 0; i < row.ids.size(); ++i) {
    if (!is_language(i)) continue;
    row.ids[i] = language;
    return;
  }
  row.ids.insert(row.ids.begin(), language);
}

}  // namespace

TextRewriter TextRewriter::load(const std::string& folder, const std::string& task, const CompileOptions& compile,
                                const std::string& dtype, const std::string& from, const std::string& to) {
  const TextGenerator generator = TextGenerator::load(folder, compile, dtype);
  if (!generator.has_encoder()) {
    throw Error(ErrorCode::invalid_input, str("the model in ", folder, " has no encoder_model.onnx, which ", task,
                                              " needs; ask a decoder alone by a prompt (generate)"));
  }
  Impl impl{generator, generator.config(), "", read_tokenizer_config(folder).model_max_length};
  GenerationConfig otherwise;
  otherwise.num_beams = 4;  // as the pipelines of transformers
  impl.config.num_beams = GenerationConfig::load(folder, otherwise).num_beams;
  const fs::path path = fs::path(folder) / "config.json";
  if (const auto config = read_json_object(path)) {
    if (impl.max_length == 0)
      impl.max_length = static_cast<size_t>(JsonReader(*config, path.string()).integer("max_position_embeddings", 0));
    const bool named = task == "translation" && !from.empty() && !to.empty();
    impl.prefix = prefix_for(*config, named ? str("translation_", from, "_to_", to) : task, impl.config, path.string());
  }
  const Tokenizer& tokenizer = generator.tokenizer();
  // A model of several languages begins the answer with its language, or reads it in front of the text; where the
  // folder has a prefix for the pair, that is how.
  if (!to.empty() && impl.prefix.empty()) {
    if (tokenizer.token_to_id(str(">>", to, "<<"))) {
      impl.prefix = str(">>", to, "<< ");
    } else {
      impl.config.forced_bos_token_id = language_id(tokenizer, to);
      if (!impl.config.forced_bos_token_id) unknown(to);
      if (!from.empty()) impl.from = language_id(tokenizer, from);
      if (!from.empty() && !impl.from) unknown(from);
    }
  }
  return TextRewriter(std::make_shared<Impl>(std::move(impl)));
}

const GenerationConfig& TextRewriter::config() const { return impl_->config; }

std::vector<GeneratedText> TextRewriter::operator()(std::span<const std::string> texts, const GenerationConfig& config,
                                                    const TextCall& call) const {
  const TextGenerator::Impl& generator = *impl_->generator.impl_;
  std::vector<std::string> whole;
  for (const std::string& text : texts) whole.push_back(impl_->prefix + text);
  EncodeOptions options;
  options.pad_to_longest = false;
  options.max_length = impl_->max_length;
  std::vector<GenerationPrompt> prompts;
  for (Encoding& row : generator.tokenizer.encode_batch(whole, options)) {
    if (impl_->from) set_language(row, *impl_->from, config);
    prompts.push_back({std::move(row.ids), {}, {}, {}});
  }
  return generator.write(prompts, config, call);
}

}  // namespace transmuter
