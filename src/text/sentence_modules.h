// What sentence-transformers does after the encoder, by the files that it saves.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter {

enum class PoolingMode { cls, max, mean, mean_sqrt_length, weighted_mean, last_token };

struct SentenceModules {
  // One step on a text's vector.
  struct Step {
    enum class Kind { dense, normalize, layer_norm } kind = Kind::normalize;
    Tensor weight, bias;     // dense: f32 [out, in] and [out] or none; layer_norm: [width] both
    std::string activation;  // dense: "tanh", "identity", "relu", "gelu", "sigmoid"
    bool residual = false;   // dense: the input is added
  };

  // Of a language model that ranks: the score of one id after a conversation of query and document, less that of
  // another.
  struct LogitScore {
    int64_t yes = 0;
    std::optional<int64_t> no;
    std::string variables;  // of the chat template, a JSON object; may be empty
  };

  bool listed = false;                                      // there is a modules.json
  size_t max_length = 0;                                    // tokens; 0 = not said
  bool lower_case = false;                                  // of the text, besides what the tokenizer does
  std::vector<PoolingMode> poolings = {PoolingMode::mean};  // several: one behind the other
  bool include_prompt = true;                               // tokens of the prompt count
  std::vector<Step> steps;
  std::optional<LogitScore> logit_score;
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt;  // its name
};

// Without modules.json: the mean over tokens, then unit length. Throws Error(invalid_model or unsupported) that names
// the file.
SentenceModules read_sentence_modules(const std::filesystem::path& folder);

// tokens: f32 [tokens, width]; counted[t]: token t counts. Weights are places in the row, whether or not those before
// count. Gives [width × modes]; zeros where nothing counts. Sums in
// f64.
std::vector<float> pool(const Tensor& tokens, const std::vector<bool>& counted, std::span<const PoolingMode> modes);

std::vector<float> apply(const SentenceModules::Step& step, std::vector<float> vector);

// Divided by its Euclidean length; zeros stay.
void normalize(std::vector<float>& vector);

}  // namespace transmuter
