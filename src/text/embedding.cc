#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/strings.h"
#include "text/pooling.h"
#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {

namespace {

namespace fs = std::filesystem;

constexpr size_t kDefaultMaxLength = 512;

// The file of sentence-transformers that says how many tokens the model was trained for.
size_t max_length_of(const fs::path& folder) {
  const fs::path path = folder / "sentence_bert_config.json";
  std::ifstream file(path);
  if (!file) return kDefaultMaxLength;
  try {
    return nlohmann::json::parse(file).value("max_seq_length", kDefaultMaxLength);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::invalid_model, str("cannot read ", path.string(), ": ", error.what()));
  }
}

std::string model_path(const fs::path& folder) {
  for (const char* name : {"model.onnx", "onnx/model.onnx"})
    if (fs::exists(folder / name)) return (folder / name).string();
  throw Error(ErrorCode::not_found, str("there is no model.onnx or onnx/model.onnx in ", folder.string()));
}

int64_t padding_id(const Tokenizer& tokenizer) {
  for (const char* token : {"[PAD]", "<pad>"})
    if (const auto id = tokenizer.token_to_id(token)) return *id;
  return 0;  // any id will do: the mask leaves it out
}

// Some of the encoded texts, as the model takes them.
struct Batch {
  Batch(std::span<const Encoding> encodings, std::span<const size_t> rows, int64_t pad_id) {
    size_t longest = 0;
    for (size_t row : rows) longest = std::max(longest, encodings[row].ids.size());
    const Shape shape = {static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)};
    std::vector<int64_t> id(rows.size() * longest, pad_id), counted(id.size()), type(id.size()), position(id.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      const Encoding& encoding = encodings[rows[r]];
      const auto start = static_cast<int64_t>(r * longest);
      std::copy(encoding.ids.begin(), encoding.ids.end(), id.begin() + start);
      std::copy(encoding.attention_mask.begin(), encoding.attention_mask.end(), counted.begin() + start);
      std::copy(encoding.type_ids.begin(), encoding.type_ids.end(), type.begin() + start);
      std::iota(position.begin() + start, position.begin() + start + static_cast<int64_t>(encoding.ids.size()), 0);
    }
    ids = Tensor(id, shape);
    mask = Tensor(counted, shape);
    types = Tensor(type, shape);
    positions = Tensor(position, shape);
  }

  const Tensor* input(const std::string& name) const {
    if (name == "input_ids") return &ids;
    if (name == "attention_mask") return &mask;
    if (name == "token_type_ids") return &types;
    if (name == "position_ids") return &positions;
    return nullptr;
  }

  Tensor ids, mask, types, positions;  // i64 [rows, longest]
};

// The output that holds the tokens' vectors.
std::string hidden_output(const std::vector<ValueSpec>& outputs) {
  for (const ValueSpec& output : outputs)
    if (output.name == "last_hidden_state") return output.name;
  if (outputs.empty()) throw Error(ErrorCode::invalid_model, "the model has no output");
  return outputs.front().name;
}

}  // namespace

struct TextEmbedder::Impl {
  Tokenizer tokenizer;
  std::vector<ValueSpec> inputs;
  std::string output;
  CompiledModel run;
  EncodeOptions encode;
  size_t batch_size;
  int64_t pad_id;

  Tensor embed(const Batch& batch) const {
    TensorMap feed;
    for (const ValueSpec& spec : inputs) {
      const Tensor* tensor = batch.input(spec.name);
      if (tensor) {
        feed[spec.name] = tensor->cast(spec.dtype);
      } else if (!spec.optional) {
        throw Error(ErrorCode::unsupported,
                    str("the model wants an input ", spec.name, ", which embedding texts doesn't know"));
      }
    }
    const TensorMap results = run(feed);
    return normalize_rows(mean_pool(results.at(output), batch.mask));
  }
};

TextEmbedder TextEmbedder::load(const std::string& folder, const EmbedOptions& options) {
  const Tokenizer tokenizer = Tokenizer::load((fs::path(folder) / "tokenizer.json").string());
  const Model model = Model::load(model_path(folder));
  EncodeOptions encode;
  encode.pad_to_longest = false;  // rows are padded batch by batch
  encode.max_length = options.max_length ? options.max_length : max_length_of(folder);
  return TextEmbedder(std::make_shared<Impl>(Impl{
      .tokenizer = tokenizer,
      .inputs = model.inputs(),
      .output = hidden_output(model.outputs()),
      .run = model.compile(options.compile),
      .encode = encode,
      .batch_size = std::max<size_t>(options.batch_size, 1),
      .pad_id = padding_id(tokenizer),
  }));
}

Tensor TextEmbedder::operator()(std::span<const std::string> texts) const {
  const std::vector<Encoding> encodings = impl_->tokenizer.encode_batch(texts, impl_->encode);
  // Texts of similar length run together, so that little is padding.
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return encodings[a].ids.size() > encodings[b].ids.size(); });
  Tensor result = Tensor::zeros(DType::f32, {0, 0});
  for (size_t begin = 0; begin < order.size(); begin += impl_->batch_size) {
    const std::span<const size_t> rows =
        std::span(order).subspan(begin, std::min(impl_->batch_size, order.size() - begin));
    const Tensor vectors = impl_->embed(Batch(encodings, rows, impl_->pad_id));
    const int64_t width = vectors.dim(1);
    if (begin == 0) result = Tensor::zeros(DType::f32, {static_cast<int64_t>(texts.size()), width});
    for (size_t r = 0; r < rows.size(); ++r)
      std::copy_n(vectors.data<float>() + static_cast<int64_t>(r) * width, width,
                  result.mutable_data<float>() + static_cast<int64_t>(rows[r]) * width);
  }
  return result;
}

}  // namespace transmuter
