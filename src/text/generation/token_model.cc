#include "text/generation/token_model.h"

#include <algorithm>

#include "base/strings.h"
#include "runtime/decoder_names.h"
#include "runtime/decoder_rows.h"
#include "transmuter/error.h"

namespace transmuter::generation {
namespace {

using Kind = Decoder::Cache::Kind;

const ValueSpec* find(const std::vector<ValueSpec>& specs, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const ValueSpec& spec : specs) {
      if (spec.name == name) return &spec;
    }
  }
  return nullptr;
}

const ValueSpec* ids_input(const std::vector<ValueSpec>& inputs) {
  return find(inputs, {"input_ids", "decoder_input_ids", "tokens", "input"});
}

const ValueSpec* embeds_input(const std::vector<ValueSpec>& inputs) {
  return find(inputs, {"inputs_embeds", "decoder_inputs_embeds"});
}

// "logits", else the first output with a score for each place or row.
std::string scores_output(const std::vector<ValueSpec>& outputs) {
  if (const ValueSpec* named = find(outputs, {"logits", "lm_logits", "scores"})) return named->name;
  for (const ValueSpec& spec : outputs) {
    const bool hidden = spec.name.find("hidden") != std::string::npos;
    if (is_float(spec.dtype) && !hidden && spec.shape.size() == 3) return spec.name;
  }
  throw Error(ErrorCode::invalid_model,
              "the model gives no logits: it isn't a language model, or was exported without its head");
}

// What each of the new tokens looks at, all that came before it, as numbers to add: [rows, 1, now, before + now].
Tensor causal_mask(const ValueSpec& spec, int64_t rows, int64_t before, int64_t now) {
  const float never = spec.dtype == DType::f16 ? -65504.0f : -1e9f;
  std::vector<float> mask;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = before; i < before + now; ++i) {
      for (int64_t j = 0; j < before + now; ++j) mask.push_back(j <= i ? 0 : never);
    }
  }
  return Tensor(mask, {rows, 1, now, before + now}).cast(spec.dtype);
}

// The scores at the last place of each row, f32 [rows, vocabulary].
Tensor last_scores(const Tensor& logits) {
  const int64_t vocabulary = logits.dim(logits.rank() - 1);
  if (logits.rank() == 2) return logits.aligned().cast(DType::f32);
  const int64_t places = logits.dim(1);
  const Tensor last = places == 1 ? logits : runtime::rows_of(logits, 1, {places - 1});
  return last.reshaped({logits.dim(0), vocabulary}).aligned().cast(DType::f32);
}

// Only those that the model takes.
TensorMap known_to(const CompiledModel& model, const TensorMap& values) {
  TensorMap known;
  for (const ValueSpec& spec : model.inputs()) {
    if (const auto it = values.find(spec.name); it != values.end()) known[spec.name] = it->second;
  }
  return known;
}

}  // namespace

Tensor Tokens::ids_as(DType dtype) const { return Tensor(ids, {rows, length}).cast(dtype); }

Tensor Tokens::mask_as(DType dtype) const {
  if (!mask.empty()) return Tensor(mask, {rows, length}).cast(dtype);
  return Tensor(std::vector<int64_t>(static_cast<size_t>(rows * length), 1), {rows, length}).cast(dtype);
}

TokenModel::TokenModel(GenerationModels models) {
  if (!models.decoder) throw Error(ErrorCode::invalid_model, "there is no decoder among the models");
  if (models.encoder) encoder_ = models.encoder->compile(models.compile);
  if (models.embed_tokens) embed_ = models.embed_tokens->compile(models.compile);
  const Model& main = models.with_past ? *models.with_past : *models.decoder;
  const CompiledModel compiled = main.compile(models.compile);
  if (!ids_input(compiled.inputs()) && !embeds_input(compiled.inputs()))
    throw Error(ErrorCode::invalid_model, "the decoder takes neither input_ids nor inputs_embeds");
  if (!ids_input(compiled.inputs()) && !embed_) {
    throw Error(ErrorCode::invalid_model,
                "the decoder takes inputs_embeds: it needs the model that makes them of tokens (embed_tokens)");
  }
  scores_ = scores_output(compiled.outputs());
  const bool cached = !runtime::find_caches(compiled.inputs(), compiled.outputs(), false).empty();
  if (models.with_past) {
    if (!cached) throw Error(ErrorCode::invalid_model, "the decoder that goes on (with_past) has no caches");
    begin_ = models.decoder->compile(models.compile);
    begin_scores_ = scores_output(begin_->outputs());
    handed_on_ = runtime::find_caches(compiled.inputs(), begin_->outputs(), false);
  } else if (!cached) {
    begin_ = compiled;
    begin_scores_ = scores_;
    const ValueSpec* ids = ids_input(compiled.inputs());
    if (ids && ids->shape.size() == 2 && ids->shape[1].value > 1)
      throw Error(ErrorCode::invalid_model, str("the decoder takes texts of ", ids->shape[1].value,
                                                " tokens alone: export it with a sequence length that may vary"));
  }
  if (cached) {
    decoder_.emplace(compiled, models.caches);
    model_ = compiled;
  }
  // Recurrent states would take padding in; GroupQueryAttention takes a mask for the length of rows padded on the
  // right.
  const auto is_state = [](const Decoder::Cache& cache) { return cache.kind == Kind::state; };
  const ValueSpec* mask = find(main.inputs(), {"attention_mask"});
  pads_left_ = mask && mask->shape.size() == 2 &&
               !main.summary().operators.contains("com.microsoft.GroupQueryAttention") &&
               !(decoder_ && std::any_of(decoder_->caches().begin(), decoder_->caches().end(), is_state));
  masks_encoder_ = encoder_ && find(encoder_->inputs(), {"attention_mask"});
}

TensorMap TokenModel::encode(const Tokens& tokens, const RunOptions& options) const {
  TensorMap inputs;
  for (const ValueSpec& spec : encoder_->inputs()) {
    if (spec.name == "input_ids") inputs[spec.name] = tokens.ids_as(spec.dtype);
    if (spec.name == "attention_mask") inputs[spec.name] = tokens.mask_as(spec.dtype);
  }
  TensorMap encoded = encode(inputs, options);
  encoded["encoder_attention_mask"] = tokens.mask_as(DType::i64);
  return encoded;
}

TensorMap TokenModel::encode(const TensorMap& inputs, const RunOptions& options) const {
  TensorMap outputs = (*encoder_)(inputs, options);
  TensorMap encoded;
  const auto found = outputs.find("last_hidden_state");
  Value& states = found != outputs.end() ? found->second : outputs.at(encoder_->outputs().front().name);
  // All of what it heard counts, however the encoder shortened it.
  if (states.tensor.rank() >= 2) {
    const Shape shape{states.tensor.dim(0), states.tensor.dim(1)};
    encoded["encoder_attention_mask"] =
        Tensor(std::vector<int64_t>(static_cast<size_t>(element_count(shape)), 1), shape);
  }
  encoded["encoder_hidden_states"] = std::move(states);
  return encoded;
}

// What a model takes besides caches and what the decoder's bookkeeping makes. `before`: tokens in the caches. `wanted`:
// of how many of the last tokens the scores are.
TensorMap TokenModel::token_inputs(const CompiledModel& model, const Tokens& now, int64_t before, int64_t wanted,
                                   const RunOptions& options) const {
  TensorMap inputs;
  if (const ValueSpec* ids = ids_input(model.inputs())) {
    inputs[ids->name] = now.ids_as(ids->dtype);
  } else {
    const ValueSpec* wanted = embeds_input(model.inputs());
    const ValueSpec* taken = ids_input(embed_->inputs());
    if (!taken || embed_->outputs().empty())
      throw Error(ErrorCode::invalid_model, "the model of the embeddings takes no input_ids");
    TensorMap embeds = (*embed_)(TensorMap{{taken->name, now.ids_as(taken->dtype)}}, options);
    inputs[wanted->name] = embeds.at(embed_->outputs().front().name);
  }
  if (const ValueSpec* kept = find(model.inputs(), {"num_logits_to_keep"}); kept && !kept->optional)
    inputs[kept->name] = Tensor(std::vector<int64_t>{wanted}, Shape(kept->shape.size(), 1)).cast(kept->dtype);
  const ValueSpec* mask = find(model.inputs(), {"mask"});
  if (mask && mask->shape.size() == 4 && is_float(mask->dtype))
    inputs[mask->name] = causal_mask(*mask, now.rows, before, now.length);
  return inputs;
}

TokenRun::TokenRun(std::shared_ptr<const TokenModel> model, TensorMap encoded)
    : model_(std::move(model)), encoded_(std::move(encoded)) {
  if (model_->decoder_) decoder_ = model_->decoder_->fork();
}

// The whole text through a model that has no caches.
TensorMap TokenRun::begin(const Tokens& now, const RunOptions& options, int64_t wanted) {
  if (all_.length == 0) {
    all_ = now;
  } else {
    Tokens more{{}, {}, now.rows, all_.length + now.length};
    for (int64_t r = 0; r < now.rows; ++r) {
      const auto add = [r](std::vector<int64_t>& to, const std::vector<int64_t>& from, int64_t length) {
        to.insert(to.end(), from.begin() + r * length, from.begin() + (r + 1) * length);
      };
      add(more.ids, all_.ids, all_.length);
      add(more.ids, now.ids, now.length);
      if (all_.mask.empty()) continue;
      add(more.mask, all_.mask, all_.length);
      more.mask.insert(more.mask.end(), static_cast<size_t>(now.length), 1);
    }
    all_ = std::move(more);
  }
  const CompiledModel& model = *model_->begin_;
  TensorMap inputs = model_->token_inputs(model, all_, 0, wanted, options);
  for (auto& [name, value] : known_to(model, encoded_)) inputs[name] = value;
  for (const ValueSpec& spec : model.inputs()) {
    if (inputs.contains(spec.name) || spec.optional) continue;
    if (spec.name == "attention_mask" || spec.name == "decoder_attention_mask") {
      inputs[spec.name] = all_.mask_as(spec.dtype);
    } else if (spec.name == "position_ids") {
      std::vector<int64_t> places;
      for (int64_t r = 0; r < all_.rows; ++r) {
        int64_t next = 0;
        for (int64_t i = 0; i < all_.length; ++i) {
          const bool padding = !all_.mask.empty() && all_.mask[static_cast<size_t>(r * all_.length + i)] == 0;
          places.push_back(padding ? 1 : next++);
        }
      }
      inputs[spec.name] = Tensor(places, {all_.rows, all_.length}).cast(spec.dtype);
    }
  }
  return model(inputs, options);
}

Tensor TokenRun::step(const Tokens& now, const RunOptions& options) { return last_scores(logits_of(now, options, 1)); }

Tensor TokenRun::step_all(const Tokens& now, const RunOptions& options) {
  const Tensor logits = logits_of(now, options, now.length);
  const int64_t places = logits.rank() == 3 ? logits.dim(1) : 1;
  if (places < now.length) return {};
  // A model without caches gives those of all tokens.
  std::vector<int64_t> last;
  for (int64_t i = places - now.length; i < places; ++i) last.push_back(i);
  return runtime::rows_of(logits, 1, last)
      .reshaped({now.length, logits.dim(logits.rank() - 1)})
      .aligned()
      .cast(DType::f32);
}

// What the model says of the next tokens, as it says it.
Tensor TokenRun::logits_of(const Tokens& now, const RunOptions& options, int64_t wanted) {
  const bool first = length_ == 0;
  if (!decoder_ || (model_->begin_ && first)) {
    const Tokens before = all_;
    TensorMap outputs;
    try {
      outputs = begin(now, options, wanted);
    } catch (...) {
      all_ = before;
      throw;
    }
    length_ += now.length;
    const Tensor scores = outputs.at(model_->begin_scores_).tensor;
    if (!decoder_) return scores;
    // The second model starts from the caches that the first has made: they are its first step's inputs.
    for (const Decoder::Cache& cache : model_->handed_on_) {
      if (const auto made = outputs.find(cache.present); made != outputs.end() && !cache.present.empty())
        encoded_[cache.past] = std::move(made->second);
    }
    return scores;
  }
  TensorMap inputs = model_->token_inputs(model_->model_, now, length_, wanted, options);
  if (decoder_->length() == 0) {
    for (auto& [name, value] : known_to(model_->model_, encoded_)) inputs[name] = value;
  }
  const ValueSpec* mask = find(model_->model_.inputs(), {"attention_mask"});
  if (mask && first && !now.mask.empty()) inputs[mask->name] = now.mask_as(mask->dtype);
  if (mask && model_->begin_ && decoder_->length() == 0 && !all_.mask.empty()) {
    Tokens all{{}, {}, now.rows, length_ + now.length};
    for (int64_t r = 0; r < now.rows; ++r) {
      const auto row = all_.mask.begin() + r * length_;
      all.mask.insert(all.mask.end(), row, row + length_);
      all.mask.insert(all.mask.end(), static_cast<size_t>(now.length), 1);
    }
    inputs[mask->name] = all.mask_as(mask->dtype);
  }
  const bool handed_on = model_->begin_.has_value() && decoder_->length() == 0;
  TensorMap outputs = decoder_->step(std::move(inputs), options);
  if (handed_on) {
    encoded_.clear();
    all_ = {};
  }
  length_ += now.length;
  return outputs.at(model_->scores_).tensor;
}

void TokenRun::select(const std::vector<int64_t>& rows) {
  if (decoder_ && decoder_->length() > 0) {
    decoder_->select(rows);
  } else {
    // A split model's caches wait among what is handed on.
    const std::vector<ValueSpec>& inputs = decoder_ ? model_->model_.inputs() : model_->begin_->inputs();
    for (auto& [name, value] : encoded_) {
      const ValueSpec* spec = find(inputs, {name.c_str()});
      value = runtime::rows_of(value.tensor, spec ? runtime::batch_axis(*spec, inputs) : 0, rows);
    }
  }
  if (all_.length == 0) return;
  Tokens chosen{{}, {}, static_cast<int64_t>(rows.size()), all_.length};
  for (const int64_t r : rows) {
    chosen.ids.insert(chosen.ids.end(), all_.ids.begin() + r * all_.length, all_.ids.begin() + (r + 1) * all_.length);
    if (!all_.mask.empty())
      chosen.mask.insert(chosen.mask.end(), all_.mask.begin() + r * all_.length,
                         all_.mask.begin() + (r + 1) * all_.length);
  }
  all_ = std::move(chosen);
}

bool TokenRun::rewind(int64_t length) {
  if (length == length_) return true;
  if (!can_rewind() || length < 0 || length > length_) return false;
  if (decoder_ && !decoder_->rewind(length)) return false;
  if (!decoder_) {
    Tokens kept{{}, {}, all_.rows, length};
    for (int64_t r = 0; r < all_.rows; ++r) {
      const auto add = [&](std::vector<int64_t>& to, const std::vector<int64_t>& from) {
        if (!from.empty()) to.insert(to.end(), from.begin() + r * length_, from.begin() + r * length_ + length);
      };
      add(kept.ids, all_.ids);
      add(kept.mask, all_.mask);
    }
    all_ = std::move(kept);
  }
  length_ = length;
  return true;
}

void TokenRun::append(const TokenRun& other) {
  if (!decoder_ || !other.decoder_ || !decoder_->append(*other.decoder_))
    throw Error(ErrorCode::internal, "two batches of a model don't join");
  length_ = decoder_->length();
}

bool TokenRun::can_rewind() const {
  if (!decoder_) return true;
  // A split model's first caches come from its other half.
  if (model_->begin_) return false;
  return std::none_of(decoder_->caches().begin(), decoder_->caches().end(),
                      [](const Decoder::Cache& cache) { return cache.kind == Kind::state; });
}

}  // namespace transmuter::generation
