#include "runtime/search_decoder.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "tensor/pieces.h"
#include "transmuter/error.h"

namespace transmuter::runtime {
namespace {

template <class... Pieces>
void check(bool ok, const Pieces&... pieces) {
  if (!ok) throw Error(ErrorCode::invalid_model, str(pieces...));
}

Tensor integers(const std::vector<int32_t>& values, int64_t rows) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  return Tensor(values, {rows, columns});
}

// Each row `count` times, one after the other.
Tensor repeated(const Tensor& x, int64_t count) {
  check(x.rank() > 0, "the encoder gives a scalar");
  if (count == 1) return x;
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < x.dim(0) * count; ++i) rows.push_back(piece_of(x, 0, i / count, 1));
  return joined(rows, 0);
}

Tensor gathered(const Tensor& x, int64_t axis, const std::vector<int64_t>& rows) {
  check(x.rank() > axis && x.dim(axis) == static_cast<int64_t>(rows.size()), "the decoder gives a cache ", describe(x),
        " for ", rows.size(), " texts");
  bool same = true;
  for (size_t i = 0; i < rows.size(); ++i) same = same && rows[i] == static_cast<int64_t>(i);
  if (same) return x;
  std::vector<Tensor> pieces;
  for (const int64_t row : rows) pieces.push_back(piece_of(x, axis, row, 1));
  return joined(pieces, axis);
}

Texts rows_of(const Tensor& ids, int64_t repeats) {
  Texts texts;
  for (int64_t i = 0; i < ids.dim(0) * repeats; ++i) {
    const int32_t* row = ids.data<int32_t>() + i / repeats * ids.dim(1);
    texts.emplace_back(row, row + ids.dim(1));
  }
  return texts;
}

DType declared_dtype(const onnx::ValueInfo& info, DType otherwise) {
  return info.dtype == DType::invalid ? otherwise : info.dtype;
}

}  // namespace

SearchDecoder::SearchDecoder(const onnx::Node& node, const Search& search, const Bodies& bodies, const Tensor& prompts)
    : search_(search), bodies_(bodies), ids_(prompts.aligned().cast(DType::i32)) {
  decoder_ = opening_ = {&graph_attribute(node, "decoder"), "decoder"};
  const size_t inputs = decoder_.graph->inputs.size(), outputs = decoder_.graph->outputs.size();
  if (search.has_encoder) {
    opening_ = {&graph_attribute(node, "encoder"), "encoder"};
    before_past_ = inputs > 2 && decoder_.graph->inputs[2].name == "encoder_hidden_states" ? 3 : 2;
    check(outputs >= 3 && outputs % 2 == 1, node.op_type, ": the decoder must give logits, then keys and values");
    check(inputs == before_past_ + 2 * (outputs - 1), node.op_type, ": the decoder has ", inputs, " inputs for ",
          outputs, " outputs; a T5 decoder takes tokens, a mask, perhaps hidden states, and the keys and values of ",
          "itself and of the encoder");
  } else {
    if (const onnx::Attribute* a = node.find("init_decoder"); a && a->graph)
      opening_ = {a->graph.get(), "init_decoder"};
    before_past_ = 3;
    if (inputs > outputs + 2)
      throw Error(ErrorCode::unsupported,
                  str(node.op_type, ": a decoder whose past and present share their memory (input ",
                      decoder_.graph->inputs.back().name, ")"));
    check(outputs >= 2 && inputs == outputs + 2, node.op_type, ": the decoder has ", inputs, " inputs for ", outputs,
          " outputs; a GPT-2 decoder takes tokens, positions, a mask and a past for each present that it gives");
    check(opening_.graph->inputs.size() == inputs && opening_.graph->outputs.size() == outputs, node.op_type,
          ": init_decoder and decoder differ in what they take or give");
    prompts_ = rows_of(ids_, search.beams);
  }
  if (const Tensor& mask = search.attention_mask) {
    if (mask.shape() != ids_.shape())
      throw Error(ErrorCode::invalid_input,
                  str(node.op_type, ": attention_mask is ", describe(mask), ", input_ids ", describe(ids_)));
    mask_ = mask;
    return;
  }
  std::vector<int32_t> words;
  for (const std::vector<int32_t>& text : rows_of(ids_, 1)) {
    // An encoder's text may end with a token that pads as well: what stands behind the first word counts.
    bool begun = false;
    for (const int32_t token : text) {
      begun = begun || token != search.pad;
      words.push_back(token != search.pad || (search.has_encoder && begun));
    }
  }
  mask_ = Tensor(words, ids_.shape());
}

std::vector<Value> SearchDecoder::call(const Place& place, std::vector<Value> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = place.graph->inputs[i].dtype;
    if (is_integer(dtype) && inputs[i].tensor.dtype() != dtype) inputs[i] = inputs[i].tensor.cast(dtype);
  }
  std::vector<Value> outputs = bodies_.of(place.attribute).run(std::move(inputs), true);
  check(outputs.size() == place.graph->outputs.size(), "the graph ", place.attribute, " gives ", outputs.size(),
        " outputs");
  for (const Value& output : outputs) check(output.is_tensor(), "the graph ", place.attribute, " must give tensors");
  return outputs;
}

std::vector<Value> SearchDecoder::empty_past(size_t first, size_t count) const {
  std::vector<Value> past;
  for (size_t i = first; i < first + count; ++i) {
    const onnx::ValueInfo& info = decoder_.graph->inputs[i];
    // [2, texts, heads, past, size], or a T5's [texts, heads, past, size].
    const size_t texts = search_.has_encoder ? 0 : 1;
    check(info.has_shape && info.shape.size() == texts + 4, "the decoder's input ", info.name, " must have rank ",
          texts + 4);
    Shape shape;
    for (const onnx::DeclaredDim& dim : info.shape) shape.push_back(dim.value);
    shape[texts] = search_.texts * search_.beams;
    shape[texts + 2] = 0;
    if (texts == 1) shape[0] = 2;
    check(shape[texts + 1] > 0 && shape[texts + 3] > 0, "the decoder's input ", info.name,
          " must declare its heads and their size");
    past.emplace_back(Tensor(declared_dtype(info, DType::f32), shape));
  }
  return past;
}

Tensor SearchDecoder::keep(std::vector<Value> outputs, size_t first) {
  past_.clear();
  for (size_t i = first; i < outputs.size(); ++i) past_.push_back(std::move(outputs[i]));
  return outputs[0].tensor;
}

Tensor SearchDecoder::first() { return search_.has_encoder ? first_of_encoder() : first_of_decoder(); }

Tensor SearchDecoder::first_of_decoder() {
  const Tensor mask = repeated(mask_, search_.beams);
  // By what pads, whatever mask was given.
  std::vector<int32_t> positions;
  for (const std::vector<int32_t>& text : prompts_) {
    int32_t next = 0;
    for (const int32_t token : text) positions.push_back(token == search_.pad ? 0 : next++);
    positions_.push_back(next);
  }
  std::vector<Value> inputs{repeated(ids_, search_.beams), integers(positions, mask.dim(0)), mask};
  for (Value& past : empty_past(before_past_, decoder_.graph->inputs.size() - before_past_))
    inputs.push_back(std::move(past));
  mask_ = mask;
  return keep(call(opening_, std::move(inputs)), 1);
}

Tensor SearchDecoder::first_of_encoder() {
  const size_t given = opening_.graph->inputs.size(), layers = (decoder_.graph->outputs.size() - 1) / 2;
  const bool decodes = given == 3;  // the encoder's graph decodes the first token, too
  check(given == 2 || decodes, "the encoder takes tokens, a mask and perhaps the decoder's first tokens, not ", given,
        " inputs");
  check(opening_.graph->outputs.size() == (decodes ? 2 + 4 * layers : 2 * layers), "the encoder gives ",
        opening_.graph->outputs.size(), " outputs for a decoder of ", layers, " layers");
  check(decodes || before_past_ == 2, "the encoder does not give the hidden states that the decoder takes");
  check(search_.start >= 0, "attribute decoder_start_token_id is required");
  const Tensor start(std::vector<int32_t>(static_cast<size_t>(search_.texts), search_.start), {search_.texts, 1});
  prompts_ = rows_of(start, search_.beams);
  std::vector<Value> inputs{ids_, mask_};
  if (decodes) inputs.emplace_back(start);
  std::vector<Value> outputs = call(opening_, std::move(inputs));
  const auto take = [&](size_t from, size_t count, std::vector<Value>& to) {
    for (size_t i = from; i < from + count; ++i) to.emplace_back(repeated(outputs[i].tensor, search_.beams));
  };
  fixed_.emplace_back(repeated(mask_, search_.beams));
  if (before_past_ == 3) take(1, 1, fixed_);
  take(decodes ? 2 + 2 * layers : 0, 2 * layers, fixed_);
  if (decodes) {
    take(2, 2 * layers, past_);
    return outputs[0].tensor;
  }
  past_ = empty_past(before_past_, 2 * layers);
  std::vector<int64_t> origins(prompts_.size());
  std::iota(origins.begin(), origins.end(), int64_t{0});
  return next(prompts_, origins);
}

Tensor SearchDecoder::next(const Texts& texts, const std::vector<int64_t>& origins) {
  const int64_t rows = static_cast<int64_t>(texts.size());
  // A T5 decoder that declares more than one token gets the whole text.
  const onnx::ValueInfo& ids = decoder_.graph->inputs[0];
  const bool whole = search_.has_encoder && !(ids.has_shape && ids.shape.size() == 2 && ids.shape[1].value == 1);
  std::vector<int32_t> tokens;
  for (const std::vector<int32_t>& text : texts)
    tokens.insert(tokens.end(), whole ? text.begin() : text.end() - 1, text.end());
  std::vector<Value> inputs{integers(tokens, rows)};
  std::vector<Value> past = std::move(past_);
  for (Value& value : past) {
    Tensor from = std::move(value.tensor);
    value = gathered(from, search_.has_encoder ? 0 : 1, origins);
  }
  if (search_.has_encoder) {
    const auto behind = fixed_.begin() + static_cast<ptrdiff_t>(before_past_ - 1);
    inputs.insert(inputs.end(), fixed_.begin(), behind);
    inputs.insert(inputs.end(), std::make_move_iterator(past.begin()), std::make_move_iterator(past.end()));
    inputs.insert(inputs.end(), behind, fixed_.end());
  } else {
    const std::vector<int32_t> ones(static_cast<size_t>(rows), 1);
    mask_ = joined({mask_, Tensor(ones, {rows, 1})}, 1);
    inputs.emplace_back(Tensor(positions_, {rows, 1}));
    for (int32_t& position : positions_) ++position;
    inputs.emplace_back(mask_);
    inputs.insert(inputs.end(), std::make_move_iterator(past.begin()), std::make_move_iterator(past.end()));
  }
  past.clear();
  return keep(call(decoder_, std::move(inputs)), 1);
}

}  // namespace transmuter::runtime
