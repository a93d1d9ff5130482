// Which files of a folder make a language model, by the names that exporters give them.
#include <filesystem>

#include "base/strings.h"
#include "text/folder.h"
#include "transmuter/error.h"
#include "transmuter/generation.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;

// What variants of a graph end in; "" is the full precision, or else what there is.
std::vector<std::string> suffixes_of(const std::string& dtype) {
  if (dtype.empty()) return {"", "_fp16", "_q4f16", "_q4", "_int8", "_uint8", "_quantized", "_bnb4"};
  if (dtype == "fp32") return {""};
  if (dtype == "q8" || dtype == "int8") return {"_int8", "_q8", "_quantized"};
  if (dtype == "uint8") return {"_uint8", "_quantized"};
  return {"_" + dtype};
}

// The first of `names` that is in the folder or in its onnx/; "" if none is.
std::string find_file(const fs::path& folder, std::initializer_list<const char*> names, const std::string& dtype) {
  for (const std::string& suffix : suffixes_of(dtype)) {
    for (const char* name : names) {
      for (const fs::path& place : {folder, folder / "onnx"}) {
        const fs::path path = place / str(name, suffix, ".onnx");
        if (fs::exists(path)) return path.string();
      }
    }
  }
  return {};
}

// An integer of config.json or of a part of it; 0 if it isn't there.
int64_t config_integer(const Json& config, const std::string& file, std::initializer_list<const char*> fields) {
  for (const char* part : {"", "text_config", "decoder"}) {
    const auto found = config.find(part);
    const Json& from = *part && found != config.end() ? *found : config;
    if (!from.is_object()) continue;
    for (const char* field : fields) {
      if (const int64_t value = JsonReader(from, file).integer(field, 0)) return value;
    }
  }
  return 0;
}

// A part of a configuration, which may be missing.
Json part_of(const Json& config, const std::string& file, const char* name) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return Json::object();
  if (!found->is_object())
    throw Error(ErrorCode::invalid_model, str("\"", name, "\" in ", file, " is not a JSON object"));
  return *found;
}

}  // namespace

GenerationModels GenerationModels::load(const std::string& folder, const CompileOptions& compile,
                                        const std::string& dtype) {
  if (!fs::is_directory(folder)) throw Error(ErrorCode::not_found, str("there is no folder ", folder));
  GenerationModels models;
  models.compile = compile;
  const auto take = [&](std::optional<Model>& to, const std::string& path) {
    if (!path.empty()) to = Model::load(path);
  };
  take(models.encoder, find_file(folder, {"encoder_model", "encoder"}, dtype));
  take(models.embed_tokens, find_file(folder, {"embed_tokens"}, dtype));
  const std::string merged = find_file(folder, {"decoder_model_merged", "model_merged"}, dtype);
  if (!merged.empty()) {
    take(models.decoder, merged);
  } else if (const std::string first = find_file(folder, {"decoder_model"}, dtype); !first.empty()) {
    take(models.decoder, first);
    take(models.with_past, find_file(folder, {"decoder_with_past_model"}, dtype));
  } else {
    take(models.decoder, find_file(folder, {"model", "decoder_with_past_model", "decoder"}, dtype));
  }
  const std::string genai = (fs::path(folder) / "genai_config.json").string();
  const Json genai_model = part_of(read_json_object(genai).value_or(Json::object()), genai, "model");
  const Json genai_decoder = part_of(genai_model, genai, "decoder");
  const JsonReader genai_reader(genai_decoder, genai);
  if (!models.decoder) {
    const std::string named = genai_reader.text("filename");
    if (!named.empty() && fs::exists(fs::path(folder) / named))
      models.decoder = Model::load((fs::path(folder) / named).string());
  }
  if (!models.decoder) {
    throw Error(ErrorCode::not_found,
                str("there is no language model in ", folder, dtype.empty() ? "" : " for dtype " + dtype,
                    ": looked for model.onnx, decoder_model_merged.onnx and decoder_model.onnx, there and in onnx/"));
  }
  const std::string file = (fs::path(folder) / "config.json").string();
  const Json config = read_json_object(file).value_or(Json::object());
  models.max_positions = config_integer(config, file, {"max_position_embeddings", "n_positions", "n_ctx"});
  if (models.max_positions == 0) models.max_positions = JsonReader(genai_model, genai).integer("context_length", 0);
  // The genai builder's caches name their width by a symbol that no other input tells.
  int64_t width = genai_reader.integer("head_size", 0);
  if (width == 0) width = config_integer(config, file, {"head_dim", "head_size"});
  if (width == 0) {
    const int64_t hidden = config_integer(config, file, {"hidden_size", "n_embd", "d_model"});
    const int64_t heads = config_integer(config, file, {"num_attention_heads", "n_head"});
    if (hidden > 0 && heads > 0) width = hidden / heads;
  }
  if (width > 0) models.caches.sizes["kv_cache_dim"] = width;
  return models;
}

}  // namespace transmuter
