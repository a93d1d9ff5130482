#include "text/encoder_model.h"

#include <algorithm>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {

namespace fs = std::filesystem;

namespace {

// What limits a text where no file says anything.
constexpr size_t kDefaultMaxLength = 512;

std::vector<fs::path> graphs_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".onnx") out.push_back(entry.path());
  return out;
}

std::string shape_text(const ValueSpec& spec) {
  std::string out = spec.name;
  if (!spec.has_shape) return out;
  out += " [";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    if (i) out += ", ";
    const ValueSpec::Dim& dim = spec.shape[i];
    out += dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return out + "]";
}

}  // namespace

fs::path folder_of(const fs::path& place) {
  if (place.extension() != ".onnx") return place;
  const fs::path folder = place.has_parent_path() ? place.parent_path() : fs::path(".");
  std::error_code none;
  // Repositories keep graphs in onnx/, and the rest above.
  if (!fs::exists(folder / "tokenizer.json", none) && fs::exists(folder / ".." / "tokenizer.json", none))
    return folder / "..";
  return folder;
}

std::string graph_of(const fs::path& place) {
  std::error_code none;
  if (place.extension() == ".onnx") return place.string();
  if (!fs::is_directory(place, none)) throw Error(ErrorCode::not_found, str("there is no folder ", place.string()));
  for (const char* name : {"model.onnx", "onnx/model.onnx"})
    if (fs::exists(place / name, none)) return (place / name).string();
  std::vector<fs::path> found = graphs_in(place);
  for (fs::path& path : graphs_in(place / "onnx")) found.push_back(std::move(path));
  if (found.size() == 1) return found.front().string();
  if (found.empty())
    throw Error(ErrorCode::not_found, str("there is no model.onnx or onnx/model.onnx in ", place.string()));
  std::sort(found.begin(), found.end());
  std::string names;
  for (const fs::path& path : found) names += (names.empty() ? "" : ", ") + path.lexically_relative(place).string();
  throw Error(ErrorCode::not_found,
              str("there is no model.onnx in ", place.string(), " but ", names, ": give the path of the one to use"));
}

EncoderModel::EncoderModel(const std::string& place, const TextTaskOptions& options, const std::string& task,
                           const std::vector<Output>& outputs)
    : folder_(folder_of(place)),
      graph_(graph_of(place)),
      task_(task),
      tokenizer_(load_tokenizer(folder_)),
      tokenizer_config_(read_tokenizer_config(folder_)),
      config_(read_json_object(folder_ / "config.json").value_or(Json::object())) {
  const Model model = Model::load(graph_);
  check_inputs(model);
  choose_outputs(model, outputs);
  max_length_ = limit(options.max_length);
  if (const auto names = tokenizer_config_.json.find("model_input_names"); names != tokenizer_config_.json.end())
    has_types_ = std::find(names->begin(), names->end(), "token_type_ids") != names->end();
  pad_id_ = special_id("pad_token");
  if (!pad_id_ && config_reader().find("pad_token_id")) pad_id_ = config_reader().integer("pad_token_id", 0);
  for (const char* usual : {"[PAD]", "<pad>"})
    if (!pad_id_) pad_id_ = tokenizer_.token_to_id(usual);
  compiled_.emplace(model.compile(options.compile));
  const size_t rows = fixed_rows_ > 0 ? static_cast<size_t>(fixed_rows_) : 0;
  batcher_ = std::make_unique<Batcher>([this](std::span<Batcher::Row* const> batch) { run_batch(batch); },
                                       BatchLimits{std::max<size_t>(options.batch_tokens, 1), rows,
                                                   std::chrono::duration<double>(options.batch_delay_ms / 1e3)});
}

void EncoderModel::wrong_graph(const std::string& why) const {
  std::string has;
  for (const std::string& output : all_outputs_) has += (has.empty() ? "" : ", ") + output;
  throw Error(ErrorCode::unsupported, str(graph_, " is not a model for ", task_, ": ", why, " (it gives ", has,
                                          "); export the model for that task"));
}

void EncoderModel::check_inputs(const Model& model) {
  inputs_ = model.inputs();
  for (const ValueSpec& output : model.outputs()) all_outputs_.push_back(shape_text(output));
  bool ids = false;
  for (const ValueSpec& spec : inputs_) {
    const bool known = spec.name == "input_ids" || spec.name == "attention_mask" || spec.name == "token_type_ids" ||
                       spec.name == "position_ids";
    if (!known && !spec.optional)
      wrong_graph(str("it wants an input ", spec.name, ", which a text alone doesn't give"));
    if (spec.name != "input_ids") continue;
    ids = true;
    if (spec.shape.size() == 2) {
      fixed_rows_ = spec.shape[0].value;
      fixed_tokens_ = spec.shape[1].value;
    }
  }
  if (!ids) wrong_graph("it takes no input_ids");
}

void EncoderModel::choose_outputs(const Model& model, const std::vector<Output>& wanted) {
  for (const Output& want : wanted) {
    const ValueSpec* chosen = nullptr;
    for (const std::string& name : want.names)
      for (const ValueSpec& output : model.outputs())
        if (!chosen && output.name == name) chosen = &output;
    if (!chosen && want.or_first && !model.outputs().empty()) chosen = &model.outputs().front();
    if (!chosen) wrong_graph(str("it has no output ", want.names.front()));
    if (want.rank > 0 && chosen->has_shape && static_cast<int64_t>(chosen->shape.size()) != want.rank)
      wrong_graph(str("that needs an output of rank ", want.rank));
    Output output = want;
    output.names = {chosen->name};
    if (!want.rank) output.per_token = !chosen->has_shape || chosen->shape.size() == 3;
    outputs_.push_back(std::move(output));
  }
}

size_t EncoderModel::limit(size_t asked) const {
  size_t limit = asked ? asked : tokenizer_config_.model_max_length;
  if (!limit)
    limit = config_.empty()
                ? kDefaultMaxLength
                : static_cast<size_t>(std::max<int64_t>(config_reader().integer("max_position_embeddings", 0), 0));
  if (fixed_tokens_ > 0)
    limit = limit ? std::min(limit, static_cast<size_t>(fixed_tokens_)) : static_cast<size_t>(fixed_tokens_);
  return limit;
}

EncodeOptions EncoderModel::encode_options() const {
  EncodeOptions options;
  options.pad_to_longest = false;
  options.max_length = max_length_;
  options.truncate_left = tokenizer_config_.truncate_left;
  return options;
}

std::optional<int64_t> EncoderModel::special_id(const std::string& name) const {
  return tokenizer_config_.special_id(name, tokenizer_);
}

const std::string& EncoderModel::need_special(const std::string& name) const {
  if (const std::string* token = tokenizer_config_.special(name)) return *token;
  throw Error(ErrorCode::invalid_model, str("no \"", name, "\" in tokenizer_config.json or special_tokens_map.json of ",
                                            folder_.string(), ": ", task_, " needs it"));
}

std::vector<std::vector<Tensor>> EncoderModel::run(std::span<const Encoding> rows) const {
  std::vector<Batcher::Row> waiting(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) waiting[i].encoding = &rows[i];
  (*batcher_)(waiting);
  std::vector<std::vector<Tensor>> out;
  for (Batcher::Row& row : waiting) out.push_back(std::move(row.outputs));
  return out;
}

namespace {

// Part of one row of a batch, as f32.
Tensor part(const Tensor& all, int64_t row, bool per_token, int64_t first, int64_t count) {
  Shape shape(all.shape().begin() + 1, all.shape().end());
  const int64_t width = per_token && !shape.empty() ? all.size() / std::max<int64_t>(all.dim(0) * all.dim(1), 1) : 0;
  const int64_t row_size = all.dim(0) ? all.size() / all.dim(0) : 0;
  int64_t begin = row * row_size, size = row_size;
  if (per_token) {
    shape[0] = count;
    begin += first * width;
    size = count * width;
  }
  const float* from = all.data<float>() + begin;
  Tensor out(DType::f32, shape);
  std::copy(from, from + size, out.mutable_data<float>());
  return out;
}

}  // namespace

void EncoderModel::run_batch(std::span<Batcher::Row* const> rows) const {
  size_t longest = 1, shortest = SIZE_MAX;
  for (const Batcher::Row* row : rows) {
    longest = std::max(longest, row->encoding->ids.size());
    shortest = std::min(shortest, row->encoding->ids.size());
  }
  if (fixed_tokens_ > 0) longest = static_cast<size_t>(fixed_tokens_);
  const size_t count = fixed_rows_ > 0 ? static_cast<size_t>(fixed_rows_) : rows.size();
  if (!pad_id_ && shortest < longest && (rows.size() > 1 || fixed_tokens_ > 0)) {
    if (fixed_tokens_ > 0)
      throw Error(ErrorCode::invalid_model,
                  str(graph_, " takes exactly ", longest, " tokens, and there is no \"pad_token\" in ",
                      (folder_ / "tokenizer_config.json").string(), " to fill up with: add it there"));
    // Without a token to fill up with, each row runs by itself.
    for (Batcher::Row* const& row : rows) run_batch({&row, 1});
    return;
  }
  const bool left = tokenizer_config_.pad_left;
  const Shape shape = {static_cast<int64_t>(count), static_cast<int64_t>(longest)};
  const size_t size = count * longest;
  std::vector<int64_t> ids(size, pad_id_.value_or(0)), mask(size, 0), types(size, 0), positions(size, 0);
  for (size_t r = 0; r < count; ++r) {
    const Encoding& row = *rows[std::min(r, rows.size() - 1)]->encoding;
    const size_t start = r * longest + (left ? longest - row.ids.size() : 0);
    std::copy(row.ids.begin(), row.ids.end(), ids.begin() + static_cast<int64_t>(start));
    if (has_types_) std::copy(row.type_ids.begin(), row.type_ids.end(), types.begin() + static_cast<int64_t>(start));
    for (size_t t = 0; t < row.ids.size(); ++t) {
      mask[start + t] = 1;
      positions[start + t] = static_cast<int64_t>(t);
    }
  }
  TensorMap feed;
  for (const ValueSpec& spec : inputs_) {
    const std::vector<int64_t>* values = spec.name == "input_ids"        ? &ids
                                         : spec.name == "attention_mask" ? &mask
                                         : spec.name == "token_type_ids" ? &types
                                         : spec.name == "position_ids"   ? &positions
                                                                         : nullptr;
    if (values) feed[spec.name] = Tensor(*values, shape).cast(spec.dtype);
  }
  const TensorMap results = (*compiled_)(feed);
  for (Batcher::Row* row : rows) row->outputs.clear();
  for (const Output& output : outputs_) {
    const Tensor& result = results.at(output.names.front());
    const Tensor all = result.cast(DType::f32).aligned();
    const bool fits = all.rank() >= 1 && all.dim(0) == shape[0] && (output.rank == 0 || all.rank() == output.rank) &&
                      (!output.per_token || (all.rank() >= 2 && all.dim(1) == shape[1]));
    if (!fits) wrong_graph(str("its output ", output.names.front(), " has the shape ", str(all.shape())));
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t tokens = rows[r]->encoding->ids.size();
      rows[r]->outputs.push_back(part(all, static_cast<int64_t>(r), output.per_token,
                                      static_cast<int64_t>(left ? longest - tokens : 0), static_cast<int64_t>(tokens)));
    }
  }
}

size_t label_count(const EncoderModel& model) {
  const JsonReader config = model.config_reader();
  if (const Json* names = config.find("id2label"); names && names->is_object()) return names->size();
  return static_cast<size_t>(std::max<int64_t>(config.integer("num_labels", 0), 0));
}

std::vector<std::string> labels_of(const EncoderModel& model, size_t count) {
  const Json* names = model.config_reader().find("id2label");
  if (!count) count = label_count(model);
  std::vector<std::string> labels;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = std::to_string(i);
    const bool named = names && names->is_object() && names->contains(key) && (*names)[key].is_string();
    labels.push_back(named ? (*names)[key].get<std::string>() : "LABEL_" + key);
  }
  return labels;
}

void check_labels(const EncoderModel& model, size_t labels, int64_t width, const char* what) {
  if (labels == static_cast<size_t>(width)) return;
  throw Error(ErrorCode::invalid_model, str("the graph gives ", width, " scores a ", what, ", but ",
                                            (model.folder() / "config.json").string(), " has ", labels, " labels"));
}

CodePoints::CodePoints(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts_.push_back(i);
}

size_t CodePoints::at(size_t byte) const {
  return static_cast<size_t>(std::lower_bound(starts_.begin(), starts_.end(), byte) - starts_.begin());
}

}  // namespace transmuter
