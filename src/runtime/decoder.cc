#include "transmuter/decoder.h"

#include <algorithm>

#include "base/strings.h"
#include "runtime/decoder_names.h"
#include "runtime/decoder_rows.h"

namespace transmuter {

struct Decoder::Plan {
  CompiledModel model;
  DecoderOptions options;
  std::vector<Cache> caches;
  int64_t max_length = 0;  // 0: no limit
  const ValueSpec* mask = nullptr;
  const ValueSpec* positions = nullptr;

  const ValueSpec* input(const std::string& name) const {
    for (const ValueSpec& spec : model.inputs()) {
      if (spec.name == name) return &spec;
    }
    return nullptr;
  }
};

namespace {

using Kind = Decoder::Cache::Kind;

Tensor integers(const ValueSpec& spec, const std::vector<int64_t>& values, Shape shape) {
  return Tensor(values, std::move(shape)).cast(spec.dtype);
}

bool from_encoder(const std::string& name) { return name.starts_with("encoder_"); }

std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<int64_t>(i);
  return values;
}

// What the inputs that are there say of the symbols that the model declares; `told` comes first.
std::map<std::string, int64_t> told_sizes(const std::vector<ValueSpec>& specs, const TensorMap& inputs,
                                          std::map<std::string, int64_t> told) {
  for (const ValueSpec& spec : specs) {
    const auto given = inputs.find(spec.name);
    if (given == inputs.end() || !given->second.is_tensor()) continue;
    const Tensor& tensor = given->second.tensor;
    for (size_t i = 0; i < spec.shape.size() && spec.shape.size() == tensor.shape().size(); ++i) {
      if (!spec.shape[i].symbol.empty()) told.emplace(spec.shape[i].symbol, tensor.shape()[i]);
    }
  }
  return told;
}

// The inputs of the next step, as far as a trace of it needs them: what the caller gives along all `length` tokens is
// one longer then, whatever it holds. Empty: that can't be told.
TensorMap next_inputs(const std::vector<ValueSpec>& specs, const TensorMap& inputs, int64_t length) {
  TensorMap next = inputs;
  for (const ValueSpec& spec : specs) {
    const auto given = next.find(spec.name);
    if (given == next.end() || spec.name == "attention_mask" || !given->second.is_tensor()) continue;
    const Tensor& tensor = given->second.tensor;
    if (tensor.rank() == 0 || tensor.shape().back() != length) continue;
    if (!spec.has_shape || spec.shape.size() != tensor.shape().size()) return {};
    if (spec.shape.back().value >= 0) continue;
    Shape shape = tensor.shape();
    ++shape.back();
    given->second = Tensor::zeros(tensor.dtype(), std::move(shape));
  }
  return next;
}

}  // namespace

Decoder::Decoder(CompiledModel model, DecoderOptions options) {
  auto plan = std::make_shared<Plan>();
  plan->caches = runtime::find_caches(model.inputs(), model.outputs(), options.shared_buffers);
  if (plan->caches.empty())
    throw Error(ErrorCode::invalid_model, "no output of the model feeds an input: there is nothing to decode with");
  plan->model = std::move(model);
  plan->options = std::move(options);
  plan->max_length = plan->options.max_length;
  for (const Cache& cache : plan->caches) {
    if (cache.kind != Kind::shared) continue;
    const int64_t fixed = plan->input(cache.past)->shape[static_cast<size_t>(cache.axis)].value;
    if (fixed > 0 && (plan->max_length == 0 || fixed < plan->max_length)) plan->max_length = fixed;
    if (plan->max_length == 0)
      throw Error(ErrorCode::invalid_input,
                  str("shared buffers need a max_length: the model doesn't say how long ", cache.past, " is"));
  }
  plan->mask = plan->input("attention_mask");
  plan->positions = plan->input("position_ids");
  plan_ = std::move(plan);
}

const std::vector<Decoder::Cache>& Decoder::caches() const { return plan_->caches; }
RunStats Decoder::stats() const { return plan_->model.stats(); }

void Decoder::reset() {
  held_.clear();
  encoder_.clear();
  mask_ = {};
  length_ = steps_ = 0;
}

void Decoder::select(const std::vector<int64_t>& rows) {
  TensorMap held, encoder;
  for (const auto& [name, value] : held_)
    held[name] = runtime::rows_of(value.tensor, runtime::batch_axis(*plan_->input(name), plan_->model.inputs()), rows);
  for (const auto& [name, value] : encoder_) {
    const bool has_rows = value.is_tensor() && value.tensor.rank() > 0;
    encoder[name] = has_rows ? Value(runtime::rows_of(value.tensor, 0, rows)) : value;
  }
  if (mask_) mask_ = runtime::rows_of(mask_, 0, rows);
  held_ = std::move(held);
  encoder_ = std::move(encoder);
}

bool Decoder::can_append() const {
  const auto two_axes = [](const ValueSpec* spec) { return spec && (!spec->has_shape || spec->shape.size() == 2); };
  return two_axes(plan_->mask) && two_axes(plan_->positions) &&
         std::all_of(plan_->caches.begin(), plan_->caches.end(),
                     [](const Cache& cache) { return cache.kind == Kind::grows; });
}

// Of the batch, as its caches have them.
int64_t Decoder::rows() const {
  const auto& [name, value] = *held_.begin();
  return value.tensor.dim(runtime::batch_axis(*plan_->input(name), plan_->model.inputs()));
}

// How many tokens in front are padding in every row.
int64_t Decoder::padding() const {
  if (!mask_) return 0;
  int64_t least = length_;
  for (int64_t r = 0; r < mask_.dim(0); ++r) {
    const int64_t* row = mask_.data<int64_t>() + r * length_;
    least = std::min<int64_t>(least, std::find_if(row, row + length_, [](int64_t m) { return m != 0; }) - row);
  }
  return least;
}

bool Decoder::append(const Decoder& other) {
  const bool both =
      plan_ == other.plan_ && length_ > 0 && other.length_ > 0 && encoder_.empty() && other.encoder_.empty();
  if (!both || !can_append() || held_.size() != plan_->caches.size() || other.held_.size() != held_.size())
    return false;
  const int64_t skip = padding(), other_skip = other.padding();
  const int64_t length = std::max(length_ - skip, other.length_ - other_skip);
  const runtime::Shift shift = {skip, length - (length_ - skip)},
                       other_shift = {other_skip, length - (other.length_ - other_skip)};
  TensorMap held;
  for (const Cache& cache : plan_->caches) {
    const int64_t rows = runtime::batch_axis(*plan_->input(cache.past), plan_->model.inputs());
    held[cache.past] = runtime::joined(held_.at(cache.past).tensor, shift, other.held_.at(cache.past).tensor,
                                       other_shift, rows, cache.axis);
  }
  const auto mask_of = [](const Decoder& decoder) {
    const Shape shape = {decoder.rows(), decoder.length_};
    return decoder.mask_ ? decoder.mask_
                         : Tensor(std::vector<int64_t>(static_cast<size_t>(shape[0] * shape[1]), 1), shape);
  };
  mask_ = runtime::joined(mask_of(*this), shift, mask_of(other), other_shift, 0, 1);
  held_ = std::move(held);
  length_ = length;
  return true;
}

bool Decoder::rewind(int64_t length) {
  if (length < 0 || length > length_) return false;
  if (length == length_) return true;
  const auto is_state = [](const Cache& cache) { return cache.kind == Kind::state; };
  if (std::any_of(plan_->caches.begin(), plan_->caches.end(), is_state)) return false;
  if (length == 0) {
    reset();
    return true;
  }
  const std::vector<int64_t> kept = counted(0, length);
  for (const Cache& cache : plan_->caches) {
    const auto held = held_.find(cache.past);
    if (cache.kind == Kind::grows && held != held_.end())
      held->second = runtime::rows_of(held->second.tensor, cache.axis, kept);
  }
  if (mask_) mask_ = runtime::rows_of(mask_, 1, kept);
  length_ = length;
  return true;
}

Tensor Decoder::cache(const std::string& past) const {
  const auto found = held_.find(past);
  return found == held_.end() ? Tensor() : found->second.tensor;
}

// Batch and tokens: the first two extents of what holds this step's tokens.
Decoder::Extent Decoder::extent_of(const TensorMap& inputs) const {
  for (const char* name : {"input_ids", "decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds", "tokens"}) {
    const auto found = inputs.find(name);
    if (found != inputs.end() && found->second.is_tensor() && found->second.tensor.rank() >= 2)
      return {found->second.tensor.dim(0), found->second.tensor.dim(1)};
  }
  for (const auto& [name, value] : inputs) {
    const bool cache = std::any_of(plan_->caches.begin(), plan_->caches.end(),
                                   [&name = name](const Cache& c) { return c.past == name; });
    if (!cache && !from_encoder(name) && value.is_tensor() && value.tensor.rank() >= 2) return {value.tensor.dim(0), 1};
  }
  return {};
}

// All tokens take part, or those that the mask of earlier steps and of this one say.
void Decoder::add_mask(TensorMap& inputs, int64_t batch, int64_t tokens) const {
  if (!plan_->mask) return;
  const ValueSpec& spec = *plan_->mask;
  Tensor now;
  if (const auto given = inputs.find(spec.name); given != inputs.end()) {
    if (!given->second.is_tensor() || given->second.tensor.rank() != 2) return;
    now = given->second.tensor.aligned().cast(DType::i64);
    if (now.dim(1) != tokens || length_ == 0) return;  // of all tokens already
  } else if (spec.has_shape && spec.shape.size() != 2) {
    return;  // the caller's
  }
  if (now && now.dim(0) != batch) return;
  const int64_t total = length_ + tokens;
  std::vector<int64_t> mask(static_cast<size_t>(batch * total), 1);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t* row = mask.data() + b * total;
    if (mask_ && mask_.dim(0) == batch && mask_.dim(1) == length_)
      std::copy_n(mask_.data<int64_t>() + b * length_, length_, row);
    if (now) std::copy_n(now.data<int64_t>() + b * tokens, tokens, row + length_);
  }
  inputs[spec.name] = integers(spec, mask, {batch, total});
}

// Counted over the tokens that take part, or from the length on.
void Decoder::add_positions(TensorMap& inputs, int64_t batch, int64_t tokens) const {
  if (const ValueSpec* spec = plan_->input("cache_position"); spec && !inputs.contains(spec->name))
    inputs[spec->name] = integers(*spec, counted(length_, tokens), {tokens});
  const ValueSpec* spec = plan_->positions;
  if (!spec || inputs.contains(spec->name)) return;
  std::vector<int64_t> positions;
  const auto mask = inputs.find("attention_mask");
  const bool counts = mask != inputs.end() && mask->second.is_tensor() && mask->second.tensor.rank() == 2 &&
                      mask->second.tensor.dim(0) == batch && mask->second.tensor.dim(1) == length_ + tokens;
  const Tensor taking = counts ? mask->second.tensor.aligned().cast(DType::i64) : Tensor();
  for (int64_t b = 0; b < batch; ++b) {
    int64_t before = 0;
    for (int64_t i = 0; i < length_ + tokens; ++i) {
      const bool takes = !counts || taking.data<int64_t>()[b * (length_ + tokens) + i] != 0;
      if (i >= length_) positions.push_back(takes ? before : 1);
      before += takes ? 1 : 0;
    }
  }
  const size_t rank = spec->has_shape ? spec->shape.size() : 2;
  if (rank == 1) {
    positions.resize(static_cast<size_t>(tokens));
    inputs[spec->name] = integers(*spec, positions, {tokens});
  } else if (rank == 2) {
    inputs[spec->name] = integers(*spec, positions, {batch, tokens});
  } else if (rank == 3 && spec->shape[0].value > 0) {  // of text all components are the same
    const int64_t copies = spec->shape[0].value;
    std::vector<int64_t> all;
    for (int64_t i = 0; i < copies; ++i) all.insert(all.end(), positions.begin(), positions.end());
    inputs[spec->name] = integers(*spec, all, {copies, batch, tokens});
  }
}

// Numbers that follow from the lengths, by the names that exporters give them.
void Decoder::add_lengths(TensorMap& inputs, int64_t batch, int64_t tokens) const {
  const int64_t total = length_ + tokens;
  const auto add = [&](const char* name, int64_t value) {
    const ValueSpec* spec = plan_->input(name);
    if (!spec || spec->optional || inputs.contains(name)) return;
    const int64_t count = spec->shape.empty() ? 1 : spec->shape[0].value > 0 ? spec->shape[0].value : batch;
    const std::vector<int64_t> values(static_cast<size_t>(count), value);
    inputs[name] = integers(*spec, values, spec->shape.empty() ? Shape{} : Shape{count});
  };
  add("use_cache_branch", length_ > 0 ? 1 : 0);
  add("total_sequence_length", total);
  add("past_sequence_length", length_);
  add("past_seq_len", length_);
  add("seqlens_k", total - 1);
  add("nonpad_kv_seqlen", total);
  add("write_indices", length_);
  add("num_logits_to_keep", 0);
}

// `take`: those that change from step to step leave the decoder, so that the run owns them.
void Decoder::add_caches(TensorMap& inputs, int64_t batch, bool take) {
  std::map<std::string, int64_t> sizes;  // by symbol; once an empty cache is made
  for (const Cache& cache : plan_->caches) {
    if (inputs.contains(cache.past)) continue;
    if (auto held = held_.find(cache.past); held != held_.end()) {
      if (take && cache.kind != Kind::cross) {
        inputs[cache.past] = std::move(held->second);
        held_.erase(held);
      } else {
        inputs[cache.past] = held->second;
      }
      continue;
    }
    const ValueSpec& spec = *plan_->input(cache.past);
    if (!spec.has_shape)
      throw Error(ErrorCode::invalid_input,
                  str("the model doesn't say how large ", cache.past, " is at first: give it to the first step"));
    if (sizes.empty()) sizes = told_sizes(plan_->model.inputs(), inputs, plan_->options.sizes);
    Shape shape;
    for (size_t i = 0; i < spec.shape.size(); ++i) {
      const ValueSpec::Dim& dim = spec.shape[i];
      const auto known = sizes.find(dim.symbol);
      if (static_cast<int64_t>(i) == cache.axis) {
        shape.push_back(cache.kind == Kind::shared ? plan_->max_length : 0);
      } else if (dim.value >= 0) {
        shape.push_back(dim.value);
      } else if (known != sizes.end()) {
        shape.push_back(known->second);
      } else if (i == 0 || (cache.kind == Kind::state && dim.symbol.find("batch") != std::string::npos)) {
        shape.push_back(batch);
      } else if (cache.kind == Kind::cross) {
        shape.push_back(0);
      } else {
        throw Error(ErrorCode::invalid_input, str("nothing says how large axis ", i, " (", dim.symbol, ") of ",
                                                  cache.past, " is: name it in DecoderOptions::sizes"));
      }
    }
    inputs[cache.past] = Tensor::zeros(spec.dtype, std::move(shape));
  }
}

void Decoder::complete(TensorMap& inputs, bool take) {
  for (const auto& [name, value] : encoder_) inputs.emplace(name, value);
  const auto [batch, tokens] = extent_of(inputs);
  add_lengths(inputs, batch, tokens);
  add_mask(inputs, batch, tokens);
  add_positions(inputs, batch, tokens);
  add_caches(inputs, batch, take);
}

// A cache of one row is a kind of its own: what follows, which is the same for all longer ones, is traced with it.
void Decoder::trace_ahead(TensorMap inputs) {
  try {
    complete(inputs, false);
    plan_->model.trace(inputs);
  } catch (const Error&) {
    // The next step will say so, if it comes to that.
  }
}

TensorMap Decoder::step(TensorMap inputs, const RunOptions& options) {
  // Caches to start from say how long they are.
  if (steps_ == 0) {
    for (const Cache& cache : plan_->caches) {
      const auto given = inputs.find(cache.past);
      if (cache.kind == Kind::grows && given != inputs.end() && given->second.is_tensor())
        length_ = given->second.tensor.dim(cache.axis);
    }
  }
  const int64_t before = length_, tokens = extent_of(inputs).tokens;
  if (plan_->max_length > 0 && length_ + tokens > plan_->max_length) {
    const int64_t held = length_;
    if (steps_ == 0) length_ = 0;
    throw Error(ErrorCode::invalid_input,
                str("the caches hold ", held, " tokens: ", tokens, " more are over the limit of ", plan_->max_length));
  }
  TensorMap encoder, cross, next;
  for (const auto& [name, value] : inputs) {
    if (from_encoder(name)) encoder[name] = value;
  }
  for (const Cache& cache : plan_->caches) {
    const auto given = inputs.find(cache.past);
    if (cache.kind == Kind::cross && given != inputs.end()) cross[cache.past] = given->second;
  }
  if (length_ == 1 && tokens == 1) next = next_inputs(plan_->model.inputs(), inputs, length_ + tokens);
  complete(inputs, true);
  Tensor mask;
  if (const auto given = inputs.find("attention_mask"); given != inputs.end() && given->second.is_tensor()) {
    mask = given->second.tensor;
    mask = mask.rank() == 2 && mask.dim(1) == length_ + tokens ? mask.aligned().cast(DType::i64) : Tensor();
  }
  TensorMap outputs;
  try {
    outputs = plan_->model(std::move(inputs), options);
  } catch (...) {
    // What the run was given is still in the map.
    for (const Cache& cache : plan_->caches) {
      auto given = inputs.find(cache.past);
      if (given != inputs.end() && steps_ > 0) held_.emplace(cache.past, std::move(given->second));
    }
    if (steps_ == 0) length_ = 0;
    throw;
  }
  for (auto& [name, value] : cross) held_[name] = std::move(value);
  for (const Cache& cache : plan_->caches) {
    const auto present = outputs.find(cache.present);
    if (present == outputs.end()) continue;
    // Merged decoders give cross caches in the first step alone, afterwards something empty.
    if (cache.kind != Kind::cross || !held_.contains(cache.past)) held_[cache.past] = std::move(present->second);
    outputs.erase(present);
  }
  for (auto& [name, value] : encoder) encoder_[name] = std::move(value);
  mask_ = std::move(mask);
  length_ = before + tokens;
  ++steps_;
  if (!next.empty()) trace_ahead(std::move(next));
  return outputs;
}

}  // namespace transmuter
