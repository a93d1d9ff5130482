#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "text/encoder_model.h"
#include "text/probabilities.h"
#include "transmuter/error.h"
#include "transmuter/text_tasks.h"

namespace transmuter {

struct MaskFiller::Impl {
  Impl(const std::string& folder, const TextTaskOptions& options)
      : model(folder, options, "fill-mask", {{.names = {"logits"}, .per_token = true, .rank = 3}}),
        mask(model.need_special("mask_token")) {
    const std::optional<int64_t> id = model.special_id("mask_token");
    if (!id)
      throw Error(ErrorCode::invalid_model,
                  str("the mask token \"", mask, "\" of tokenizer_config.json is not in the vocabulary of ",
                      (model.folder() / "tokenizer.json").string()));
    mask_id = *id;
  }

  // Each once, in the caller's order.
  std::vector<int64_t> target_ids(const std::vector<std::string>& targets) const {
    std::vector<int64_t> ids;
    for (const std::string& target : targets) {
      std::optional<int64_t> id = model.tokenizer().token_to_id(target);
      if (!id) {
        const EncodeOptions plain = {.add_special_tokens = false, .pad_to_longest = false};
        const std::vector<Encoding> row = model.tokenizer().encode_batch({&target, 1}, plain);
        if (!row[0].ids.empty()) id = row[0].ids.front();
      }
      if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
    }
    if (ids.empty()) throw Error(ErrorCode::invalid_input, "none of the targets is a token of the vocabulary");
    return ids;
  }

  std::vector<FilledMask> fill(const Encoding& row, size_t position, bool only_mask, std::span<const float> logits,
                               const FillMaskOptions& options) const {
    const std::vector<double> scores = softmax(logits);
    std::vector<int64_t> candidates;
    if (options.targets.empty()) {
      candidates.resize(scores.size());
      std::iota(candidates.begin(), candidates.end(), 0);
    } else {
      candidates = target_ids(options.targets);
      std::erase_if(candidates, [&](int64_t id) { return static_cast<size_t>(id) >= scores.size(); });
    }
    const size_t count = std::min(options.top_k, candidates.size());
    // Equal scores: the first of the candidates.
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end(), [&](size_t a, size_t b) {
      const double x = scores[static_cast<size_t>(candidates[a])], y = scores[static_cast<size_t>(candidates[b])];
      return x != y ? x > y : a < b;
    });
    std::vector<FilledMask> out;
    for (size_t i = 0; i < count; ++i) {
      const int64_t id = candidates[order[i]];
      std::vector<int64_t> ids = row.ids;
      ids[position] = id;
      out.push_back({.score = scores[static_cast<size_t>(id)],
                     .token = id,
                     .token_str = model.tokenizer().decode({&id, 1}, false),
                     .piece = model.tokenizer().id_to_token(id).value_or(""),
                     .sequence = model.tokenizer().decode(ids, only_mask)});
    }
    return out;
  }

  EncoderModel model;
  std::string mask;
  int64_t mask_id = 0;
};

MaskFiller MaskFiller::load(const std::string& folder, const TextTaskOptions& options) {
  return MaskFiller(std::make_shared<Impl>(folder, options));
}

std::vector<std::vector<std::vector<FilledMask>>> MaskFiller::operator()(std::span<const std::string> texts,
                                                                         const FillMaskOptions& options) const {
  const std::vector<Encoding> rows = impl_->model.tokenizer().encode_batch(texts, impl_->model.encode_options());
  std::vector<std::vector<size_t>> masks(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t t = 0; t < rows[i].ids.size(); ++t)
      if (rows[i].ids[t] == impl_->mask_id) masks[i].push_back(t);
    if (masks[i].empty())
      throw Error(
          ErrorCode::invalid_input,
          str("text ", i, " has no ", impl_->mask, " to fill",
              texts[i].find(impl_->mask) == std::string::npos
                  ? ""
                  : " among the tokens that the model takes: it was cut off, or tokenizer.json doesn't know it"));
  }
  const auto outputs = impl_->model.run(rows);
  std::vector<std::vector<std::vector<FilledMask>>> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Tensor& logits = outputs[i][0];
    const auto width = static_cast<size_t>(logits.dim(1));
    for (size_t position : masks[i])
      out[i].push_back(impl_->fill(rows[i], position, masks[i].size() == 1,
                                   {logits.data<float>() + position * width, width}, options));
  }
  return out;
}

const std::string& MaskFiller::mask_token() const { return impl_->mask; }

}  // namespace transmuter
