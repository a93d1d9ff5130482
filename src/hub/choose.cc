// Which files of a repository are a model: its graphs in one variant, its configuration, its tokenizer.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "transmuter/hub.h"

namespace transmuter {
namespace {

struct Variant {
  std::string_view suffix;  // of the file's stem
  std::string_view dtype;
};
// Longer suffixes first where one ends with another.
constexpr Variant kVariants[] = {
    {"_q4f16", "q4f16"}, {"_fp16", "fp16"},    {"_float16", "fp16"}, {"_q4", "q4"},        {"_int4", "q4"},
    {"_uint8", "uint8"}, {"_quint8", "uint8"}, {"_qint8", "int8"},   {"_int8", "int8"},    {"_quantized", "q8"},
    {"_q8", "q8"},       {"_bnb4", "bnb4"},    {"_fp32", "fp32"},    {"_float32", "fp32"}, {"_bf16", "bf16"},
};
constexpr std::string_view kKinds[] = {"fp32", "fp16", "bf16", "q4", "q4f16", "int8", "uint8", "q8", "bnb4"};

constexpr std::string_view kSettings[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "genai_config.json",
    "modules.json",
    "image_processor.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
};

std::string folder_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash);
}

// "decoder_model_q4.onnx" is the graph decoder_model as q4; "model_O3.onnx" and "model_qint8_avx512.onnx" are made for
// something of their own: their dtype is the rest.
std::pair<std::string, std::string> split_name(const std::string& file) {
  std::string stem = file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1);
  stem.erase(stem.size() - 5);
  for (const Variant& variant : kVariants)
    if (stem.ends_with(variant.suffix))
      return {stem.substr(0, stem.size() - variant.suffix.size()), std::string(variant.dtype)};
  for (const std::string_view mark : {"_O", "_qint8_", "_quint8_"}) {
    const size_t at = stem.rfind(mark);
    if (at != std::string::npos && at > 0 && (mark.size() > 2 || stem.size() == at + 3))
      return {stem.substr(0, at), stem.substr(at + 1)};
  }
  return {stem, "fp32"};
}

// 0 first: where the graphs of a repository are looked for.
int preference(const std::string& folder) { return folder == "onnx" ? 0 : folder.empty() ? 1 : 2; }

}  // namespace

std::vector<std::string> hf_choose(const std::vector<std::string>& files, const std::string& wanted) {
  if (!wanted.empty() && std::find(std::begin(kKinds), std::end(kKinds), wanted) == std::end(kKinds))
    throw Error(ErrorCode::invalid_input,
                str("there is no dtype \"", wanted, "\": fp32, fp16, bf16, q4, q4f16, int8, uint8, q8 or bnb4"));
  // folder -> dtype -> graph -> file
  std::map<std::string, std::map<std::string, std::map<std::string, std::string>>> graphs;
  for (const std::string& file : files) {
    if (!file.ends_with(".onnx") || file.size() <= 5 || file.ends_with("/.onnx")) continue;
    const auto [graph, dtype] = split_name(file);
    graphs[folder_of(file)][dtype][graph] = file;
  }
  if (graphs.empty()) throw Error(ErrorCode::not_found, "the repository has no .onnx file");
  int best = 3;
  for (const auto& [folder, unused] : graphs) best = std::min(best, preference(folder));
  std::vector<std::string> folders;
  for (const auto& [folder, unused] : graphs)
    if (preference(folder) == best) folders.push_back(folder);
  if (folders.size() > 1) {
    std::string all;
    for (const std::string& folder : folders) all += str(all.empty() ? "" : ", ", folder, "/");
    throw Error(ErrorCode::invalid_input, str("the repository has models in several folders: name a file in ", all));
  }
  const auto& variants = graphs[folders[0]];
  std::string dtype = wanted;
  if (dtype.empty()) dtype = variants.contains("fp32") || variants.size() > 1 ? "fp32" : variants.begin()->first;
  // 8-bit weights go by several names.
  if (dtype == "q8" && !variants.contains("q8")) dtype = variants.contains("int8") ? "int8" : "uint8";
  if (dtype == "int8" && !variants.contains("int8") && variants.contains("q8")) dtype = "q8";
  const auto chosen = variants.find(dtype);
  if (chosen == variants.end()) {
    std::string all;
    for (const auto& [variant, unused] : variants) all += str(all.empty() ? "" : ", ", variant);
    throw Error(ErrorCode::invalid_input,
                str("the repository has no graph as ", wanted.empty() ? "fp32" : wanted, "; it has ", all));
  }
  std::vector<std::string> result;
  for (const auto& [graph, file] : chosen->second) {
    // A merged decoder does what its two halves do.
    if (chosen->second.contains("decoder_model_merged") &&
        (graph == "decoder_model" || graph == "decoder_with_past_model"))
      continue;
    result.push_back(file);
  }
  const std::set<std::string> taken(result.begin(), result.end());
  for (const std::string& file : files) {
    const std::string folder = folder_of(file);
    const std::string name = file.substr(folder.empty() ? 0 : folder.size() + 1);
    const bool known = std::find(std::begin(kSettings), std::end(kSettings), name) != std::end(kSettings);
    // sentence-transformers' modules: 1_Pooling/config.json
    const bool module = name == "config.json" && folder.size() > 2 && folder[0] >= '0' && folder[0] <= '9' &&
                        folder[1] == '_' && folder.find('/') == std::string::npos;
    if ((known && (folder.empty() || folder == folders[0])) || module) result.push_back(file);
  }
  return result;
}

}  // namespace transmuter
