#include "text/sentence_modules.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "base/unicode.h"
#include "text/folder.h"
#include "text/probabilities.h"
#include "text/safetensors.h"
#include "transmuter/error.h"

namespace transmuter {

namespace fs = std::filesystem;

namespace {

PoolingMode pooling_named(const std::string& name, const std::string& file) {
  if (name == "cls") return PoolingMode::cls;
  if (name == "max") return PoolingMode::max;
  if (name == "mean") return PoolingMode::mean;
  if (name == "mean_sqrt_len_tokens") return PoolingMode::mean_sqrt_length;
  if (name == "weightedmean") return PoolingMode::weighted_mean;
  if (name == "lasttoken") return PoolingMode::last_token;
  throw Error(ErrorCode::unsupported, str("the pooling \"", name, "\" in ", file, " is not known"));
}

// Flags of the older form of the file, in the order in which their vectors follow each other.
constexpr std::pair<const char*, PoolingMode> kFlags[] = {
    {"pooling_mode_cls_token", PoolingMode::cls},
    {"pooling_mode_max_tokens", PoolingMode::max},
    {"pooling_mode_mean_tokens", PoolingMode::mean},
    {"pooling_mode_mean_sqrt_len_tokens", PoolingMode::mean_sqrt_length},
    {"pooling_mode_weightedmean_tokens", PoolingMode::weighted_mean},
    {"pooling_mode_lasttoken", PoolingMode::last_token},
};

Json need_json(const fs::path& path) {
  std::optional<Json> json = read_json_object(path);
  if (!json)
    throw Error(ErrorCode::not_found, str("modules.json names a module whose file ", path.string(), " is not there"));
  return std::move(*json);
}

void read_pooling(const fs::path& path, SentenceModules& out) {
  const Json json = need_json(path);
  const JsonReader config(json, path.string());
  out.include_prompt = config.flag("include_prompt", true);
  out.poolings.clear();
  if (const Json* mode = config.find("pooling_mode")) {
    for (const Json& name : mode->is_array() ? *mode : Json::array({*mode}))
      out.poolings.push_back(pooling_named(name.is_string() ? name.get<std::string>() : name.dump(), path.string()));
  } else {
    for (const auto& [flag, pooling] : kFlags)
      if (config.flag(flag, false)) out.poolings.push_back(pooling);
  }
  if (out.poolings.empty()) out.poolings = {PoolingMode::mean};
}

Tensor need_tensor(const std::map<std::string, Tensor>& tensors, const std::string& name, const fs::path& path) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Error(ErrorCode::invalid_model, str("there is no ", name, " in ", path.string()));
  return found->second;
}

SentenceModules::Step read_dense(const fs::path& folder) {
  const fs::path path = folder / "config.json", weights = folder / "model.safetensors";
  const Json json = need_json(path);
  const JsonReader config(json, path.string());
  SentenceModules::Step step;
  step.kind = SentenceModules::Step::Kind::dense;
  step.activation =
      with_case(class_name(config.text("activation_function", "torch.nn.modules.activation.Tanh")), to_lower);
  step.residual = config.flag("use_residual", false);
  if (step.activation != "tanh" && step.activation != "identity" && step.activation != "relu" &&
      step.activation != "gelu" && step.activation != "sigmoid")
    throw Error(ErrorCode::unsupported,
                str("the activation ", step.activation, " in ", path.string(), " is not known"));
  const std::map<std::string, Tensor> tensors = read_safetensors(weights);
  step.weight = need_tensor(tensors, "linear.weight", weights);
  if (config.flag("bias", true)) step.bias = need_tensor(tensors, "linear.bias", weights);
  const bool fits = step.weight.rank() == 2 && (!step.bias || step.bias.size() == step.weight.dim(0));
  if (!fits) throw Error(ErrorCode::invalid_model, str("the weights of a layer in ", weights.string(), " don't fit"));
  return step;
}

SentenceModules::Step read_layer_norm(const fs::path& folder) {
  const fs::path weights = folder / "model.safetensors";
  const std::map<std::string, Tensor> tensors = read_safetensors(weights);
  SentenceModules::Step step;
  step.kind = SentenceModules::Step::Kind::layer_norm;
  step.weight = need_tensor(tensors, "norm.weight", weights);
  step.bias = need_tensor(tensors, "norm.bias", weights);
  return step;
}

SentenceModules::LogitScore read_logit_score(const fs::path& path) {
  const Json json = need_json(path);
  const JsonReader config(json, path.string());
  const auto id = [&](const char* name) -> std::optional<int64_t> {
    if (!config.find(name)) return std::nullopt;
    const int64_t value = config.integer(name, 0);
    if (value < 0) throw Error(ErrorCode::invalid_model, str("\"", name, "\" in ", path.string(), " is no token's id"));
    return value;
  };
  const std::optional<int64_t> yes = id("true_token_id");
  if (!yes) throw Error(ErrorCode::invalid_model, str("there is no \"true_token_id\" in ", path.string()));
  return {*yes, id("false_token_id"), ""};
}

void read_transformer(const fs::path& folder, SentenceModules& out, std::string& variables) {
  // sentence_bert_config.json; older models have another name in the middle.
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("sentence_") && name.ends_with("_config.json")) files.push_back(entry.path());
  }
  if (files.empty()) return;
  const fs::path path = *std::min_element(files.begin(), files.end());
  const Json json = need_json(path);
  const JsonReader config(json, path.string());
  out.max_length = static_cast<size_t>(std::max<int64_t>(config.integer("max_seq_length", 0), 0));
  out.lower_case = config.flag("do_lower_case", false);
  const Json* processing = config.find("processing_kwargs");
  if (!processing || !processing->is_object()) return;
  const auto chat = processing->find("chat_template");
  if (chat != processing->end() && chat->is_object()) variables = chat->dump();
}

void read_prompts(const fs::path& path, SentenceModules& out) {
  const std::optional<Json> json = read_json_object(path);
  if (!json) return;
  const JsonReader config(*json, path.string());
  if (const Json* prompts = config.find("prompts"); prompts && prompts->is_object())
    for (const auto& [name, prompt] : prompts->items())
      if (prompt.is_string()) out.prompts[name] = prompt.get<std::string>();
  if (config.find("default_prompt_name")) out.default_prompt = config.text("default_prompt_name");
}

}  // namespace

SentenceModules read_sentence_modules(const fs::path& folder) {
  SentenceModules out;
  read_prompts(folder / "config_sentence_transformers.json", out);
  const fs::path path = folder / "modules.json";
  const std::optional<std::string> text = read_text_file(path);
  std::string variables;
  if (!text) {
    read_transformer(folder, out, variables);
    out.steps.push_back({});
    return out;
  }
  Json modules;
  if (const auto fault = json_fault(*text, modules))
    throw Error(ErrorCode::invalid_model, str(path.string(), " ", *fault));
  if (!modules.is_array()) throw Error(ErrorCode::invalid_model, str(path.string(), " does not hold a JSON list"));
  out.listed = true;
  for (const Json& module : modules) {
    if (!module.is_object())
      throw Error(ErrorCode::invalid_model, str("a module in ", path.string(), " is not a JSON object"));
  }
  const auto place_of = [&](const Json& module) { return JsonReader(module, path.string()).integer("idx", 0); };
  std::stable_sort(modules.begin(), modules.end(),
                   [&](const Json& a, const Json& b) { return place_of(a) < place_of(b); });
  for (const Json& module : modules) {
    const JsonReader reader(module, path.string());
    const std::string kind = class_name(reader.text("type"));
    const fs::path place = folder / reader.text("path");
    if (kind == "Transformer") {
      read_transformer(place, out, variables);
    } else if (kind == "Pooling") {
      read_pooling(place / "config.json", out);
    } else if (kind == "LogitScore") {
      out.logit_score = read_logit_score(place / "config.json");
    } else if (kind == "Dense") {
      out.steps.push_back(read_dense(place));
    } else if (kind == "LayerNorm") {
      out.steps.push_back(read_layer_norm(place));
    } else if (kind == "Normalize") {
      out.steps.push_back({});
    } else if (kind != "Dropout") {
      throw Error(ErrorCode::unsupported,
                  str("the module ", reader.text("type"), " in ", path.string(), " is not known"));
    }
  }
  if (out.logit_score) out.logit_score->variables = variables;
  return out;
}

namespace {

void pool_one(const Tensor& tokens, const std::vector<bool>& counted, PoolingMode mode, std::vector<float>& out) {
  const auto width = static_cast<size_t>(tokens.dim(1));
  const float* in = tokens.data<float>();
  const size_t first = static_cast<size_t>(std::find(counted.begin(), counted.end(), true) - counted.begin());
  const size_t start = out.size();
  out.resize(start + width, 0);
  if (first == counted.size()) return;
  if (mode == PoolingMode::cls || mode == PoolingMode::last_token) {
    size_t token = first;
    if (mode == PoolingMode::last_token)
      for (size_t t = first; t < counted.size(); ++t)
        if (counted[t]) token = t;
    std::copy_n(in + token * width, width, out.begin() + static_cast<int64_t>(start));
    return;
  }
  std::vector<double> sums(width, mode == PoolingMode::max ? -INFINITY : 0);
  double total = 0;
  for (size_t t = first; t < counted.size(); ++t) {
    if (!counted[t]) continue;
    const float* row = in + t * width;
    const double weight = mode == PoolingMode::weighted_mean ? static_cast<double>(t + 1) : 1;
    total += weight;
    for (size_t i = 0; i < width; ++i)
      sums[i] = mode == PoolingMode::max ? std::max(sums[i], static_cast<double>(row[i])) : sums[i] + weight * row[i];
  }
  const double scale = mode == PoolingMode::max ? 1 : mode == PoolingMode::mean_sqrt_length ? std::sqrt(total) : total;
  for (size_t i = 0; i < width; ++i) out[start + i] = static_cast<float>(sums[i] / scale);
}

constexpr const char* kSee = ": see modules.json and the config.json of each module";

double activated(const std::string& activation, double x) {
  if (activation == "tanh") return std::tanh(x);
  if (activation == "relu") return std::max(x, 0.0);
  if (activation == "sigmoid") return sigmoid(x);
  if (activation == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  return x;
}

std::vector<float> dense(const SentenceModules::Step& step, const std::vector<float>& in) {
  const auto rows = static_cast<size_t>(step.weight.dim(0)), width = static_cast<size_t>(step.weight.dim(1));
  if (in.size() != width || (step.residual && rows != width))
    throw Error(ErrorCode::invalid_model, str("a dense module takes vectors of ", width,
                                              " numbers, the one before it "
                                              "gives ",
                                              in.size(), kSee));
  std::vector<float> out(rows);
  for (size_t r = 0; r < rows; ++r) {
    const float* weights = step.weight.data<float>() + r * width;
    double sum = step.bias ? step.bias.data<float>()[r] : 0;
    for (size_t i = 0; i < width; ++i) sum += static_cast<double>(weights[i]) * in[i];
    out[r] = static_cast<float>(activated(step.activation, sum) + (step.residual ? in[r] : 0));
  }
  return out;
}

std::vector<float> layer_norm(const SentenceModules::Step& step, std::vector<float> vector) {
  if (step.weight.size() != static_cast<int64_t>(vector.size()) || step.bias.size() != step.weight.size())
    throw Error(ErrorCode::invalid_model, str("a LayerNorm module takes vectors of ", step.weight.size(),
                                              " numbers, the one before it gives ", vector.size(), kSee));
  double mean = 0, variance = 0;
  for (const float x : vector) mean += x / static_cast<double>(vector.size());
  for (const float x : vector) variance += (x - mean) * (x - mean) / static_cast<double>(vector.size());
  const double scale = 1 / std::sqrt(variance + 1e-5);
  for (size_t i = 0; i < vector.size(); ++i)
    vector[i] =
        static_cast<float>((vector[i] - mean) * scale * step.weight.data<float>()[i] + step.bias.data<float>()[i]);
  return vector;
}

}  // namespace

std::vector<float> pool(const Tensor& tokens, const std::vector<bool>& counted, std::span<const PoolingMode> modes) {
  std::vector<float> out;
  for (const PoolingMode mode : modes) pool_one(tokens, counted, mode, out);
  return out;
}

std::vector<float> apply(const SentenceModules::Step& step, std::vector<float> vector) {
  switch (step.kind) {
    case SentenceModules::Step::Kind::dense:
      return dense(step, vector);
    case SentenceModules::Step::Kind::layer_norm:
      return layer_norm(step, std::move(vector));
    case SentenceModules::Step::Kind::normalize:
      break;
  }
  normalize(vector);
  return vector;
}

void normalize(std::vector<float>& vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& x : vector) x = static_cast<float>(x / length);
}

}  // namespace transmuter
