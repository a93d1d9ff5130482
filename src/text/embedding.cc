#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "base/unicode.h"
#include "text/encoder_model.h"
#include "text/sentence_modules.h"
#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {

namespace {

TextTaskOptions with_limit(TextTaskOptions options, const SentenceModules& modules) {
  if (!options.max_length) options.max_length = modules.max_length;
  return options;
}

}  // namespace

struct TextEmbedder::Impl {
  Impl(const std::string& folder, const TextTaskOptions& options)
      : modules(read_sentence_modules(folder_of(folder))),
        model(folder, with_limit(options, modules), "sentence embeddings",
              {{.names = {"sentence_embedding", "last_hidden_state", "token_embeddings"}}}) {
    if (modules.logit_score)
      throw Error(ErrorCode::unsupported, str((model.folder() / "modules.json").string(),
                                              " is that of a model that ranks (LogitScore): it gives no vectors"));
  }

  std::string prompt(const EmbedOptions& options) const {
    const auto named = [&](const std::string& name) -> const std::string* {
      const auto found = modules.prompts.find(name);
      return found == modules.prompts.end() ? nullptr : &found->second;
    };
    if (!options.prompt.empty()) return options.prompt;
    if (!options.prompt_name.empty()) {
      if (const std::string* found = named(options.prompt_name)) return *found;
      std::string names;
      for (const auto& [name, text] : modules.prompts) names += (names.empty() ? "" : ", ") + name;
      throw Error(ErrorCode::invalid_input,
                  str("the model has no prompt \"", options.prompt_name, "\"; ",
                      names.empty() ? "it has none (config_sentence_transformers.json)" : "it has " + names));
    }
    if (options.role == EmbedRole::query)
      if (const std::string* found = named("query")) return *found;
    if (options.role == EmbedRole::document)
      for (const char* name : {"document", "passage", "corpus"})
        if (const std::string* found = named(name)) return *found;
    if (modules.default_prompt)
      if (const std::string* found = named(*modules.default_prompt)) return *found;
    return "";
  }

  // How many tokens of a row the prompt is, if they are not to count.
  size_t prompt_tokens(const std::string& prompt) const {
    if (prompt.empty() || modules.include_prompt) return 0;
    const Encoding row = model.tokenizer().encode_batch({&prompt, 1}, model.encode_options())[0];
    return row.ids.size() - (!row.ids.empty() && row.special_tokens_mask.back() ? 1 : 0);
  }

  std::vector<float> vector_of(const Tensor& output, size_t skipped) const {
    if (!model.output(0).per_token)
      return std::vector<float>(output.data<float>(), output.data<float>() + output.size());
    std::vector<bool> counted(static_cast<size_t>(output.dim(0)), true);
    std::fill_n(counted.begin(), std::min(skipped, counted.size()), false);
    std::vector<float> vector = pool(output, counted, modules.poolings);
    for (const SentenceModules::Step& step : modules.steps) vector = apply(step, std::move(vector));
    return vector;
  }

  SentenceModules modules;
  EncoderModel model;
};

TextEmbedder TextEmbedder::load(const std::string& folder, const TextTaskOptions& options) {
  return TextEmbedder(std::make_shared<Impl>(folder, options));
}

Tensor TextEmbedder::operator()(std::span<const std::string> texts, const EmbedOptions& options) const {
  const std::string prompt = impl_->prompt(options);
  std::vector<std::string> whole;
  for (const std::string& text : texts)
    whole.push_back(impl_->modules.lower_case ? with_case(prompt + text, to_lower) : prompt + text);
  const std::vector<Encoding> rows = impl_->model.tokenizer().encode_batch(whole, impl_->model.encode_options());
  const size_t skipped = impl_->prompt_tokens(prompt);
  const auto outputs = impl_->model.run(rows);
  Tensor result = Tensor::zeros(DType::f32, {0, 0});
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<float> vector = impl_->vector_of(outputs[i][0], skipped);
    if (options.truncate_dim && vector.size() > options.truncate_dim) vector.resize(options.truncate_dim);
    if (options.normalize) normalize(vector);
    const auto width = static_cast<int64_t>(vector.size());
    if (i == 0) result = Tensor::zeros(DType::f32, {static_cast<int64_t>(texts.size()), width});
    std::copy(vector.begin(), vector.end(), result.mutable_data<float>() + static_cast<int64_t>(i) * width);
  }
  return result;
}

std::vector<Tensor> TextEmbedder::token_vectors(std::span<const std::string> texts) const {
  if (!impl_->model.output(0).per_token)
    throw Error(ErrorCode::unsupported, "the model gives one vector a text, none for each token");
  std::vector<Tensor> out;
  for (std::vector<Tensor>& outputs :
       impl_->model.run(impl_->model.tokenizer().encode_batch(texts, impl_->model.encode_options())))
    out.push_back(std::move(outputs[0]));
  return out;
}

namespace {

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

Tensor cosine_similarities(const Tensor& rows) {
  const int64_t count = rows.dim(0), width = rows.dim(1);
  const float* in = rows.data<float>();
  std::vector<double> lengths;
  for (int64_t r = 0; r < count; ++r) lengths.push_back(std::sqrt(dot(in + r * width, in + r * width, width)));
  Tensor cosines = Tensor::zeros(DType::f32, {count, count});
  float* out = cosines.mutable_data<float>();
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < count; ++b) {
      const double scale = lengths[static_cast<size_t>(a)] * lengths[static_cast<size_t>(b)];
      if (scale > 0) out[a * count + b] = static_cast<float>(dot(in + a * width, in + b * width, width) / scale);
    }
  }
  return cosines;
}

}  // namespace transmuter
