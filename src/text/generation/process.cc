#include "text/generation/process.h"

#include <algorithm>
#include <cmath>

#include "transmuter/error.h"

namespace transmuter::generation {

Processors::Processors(const GenerationConfig& config, const GenerationCall& call, int64_t prompt, int64_t max_length)
    : config_(config), call_(call), prompt_(prompt), max_length_(max_length) {
  // A beam search needs one way on that isn't the end.
  keep_ = config.num_beams > 1 ? std::max<int64_t>(2, static_cast<int64_t>(config.eos_token_id.size()) + 1) : 1;
  if (config.watermark) watermark_ = std::make_shared<Watermarker>(*config.watermark);
}

void Processors::apply(Scores x, const Row& row) const {
  if (!row.without.empty()) guide(x, row.without, config_.guidance_scale);
  constrain(x, row);
  for (const auto& processor : call_.processors) processor(row.ids, x);
  // Nothing can be sorted that holds one, and a choice from it means nothing.
  if (std::any_of(x.begin(), x.end(), [](float value) { return std::isnan(value); }))
    throw Error(ErrorCode::invalid_input,
                "the model's scores for the next token are no numbers (NaN): remove_invalid_values takes 0 for them; a "
                "model of half types may need --compute-type f32");
  if (config_.do_sample) filter(x);
  if (watermark_) watermark_->apply(x, row.ids);
  if (config_.renormalize_logits) log_softmax(x);
}

void Processors::constrain(Scores x, const Row& row) const {
  const GenerationConfig& c = config_;
  const std::vector<int64_t>& eos = c.eos_token_id;
  if (!c.sequence_bias.empty()) {
    // All look at the scores' tokens alone, so they add up in any order.
    for (const auto& [sequence, bias] : c.sequence_bias) bias_sequence(x, row.ids, sequence, static_cast<float>(bias));
  }
  if (c.encoder_repetition_penalty != 1) favour_encoder_ids(x, row.encoder_ids, c.encoder_repetition_penalty);
  if (c.repetition_penalty != 1) penalize_repetition(x, row.ids, c.repetition_penalty);
  if (c.no_repeat_ngram_size > 0) ban_repeated_ngrams(x, row.ids, row.ids, c.no_repeat_ngram_size);
  if (c.encoder_no_repeat_ngram_size > 0)
    ban_repeated_ngrams(x, row.ids, row.encoder_ids, c.encoder_no_repeat_ngram_size);
  for (const std::vector<int64_t>& word : c.bad_words_ids) {
    const bool ends = word.size() == 1 && std::find(eos.begin(), eos.end(), word[0]) != eos.end();
    if (!ends) bias_sequence(x, row.ids, word, kNever);
  }
  if (row.length < c.min_length || row.length - prompt_ < c.min_new_tokens) suppress(x, eos);
  if (call_.allowed_tokens) {
    const std::vector<int64_t> allowed = call_.allowed_tokens(row.answer, row.ids);
    if (allowed.empty()) throw Error(ErrorCode::invalid_input, "allowed_tokens left no token that may come next");
    keep_only(x, allowed);
  }
  if (c.forced_bos_token_id && row.length == 1) force(x, Ids(&*c.forced_bos_token_id, 1));
  if (!c.forced_eos_token_id.empty() && row.length == max_length_ - 1) force(x, c.forced_eos_token_id);
  if (c.remove_invalid_values) remove_invalid(x);
  if (c.exponential_decay_length_penalty) {
    const auto& [start, factor] = *c.exponential_decay_length_penalty;
    decay_length(x, eos, row.length, prompt_ + start, factor);
  }
  suppress(x, c.suppress_tokens);
  const int64_t begin = prompt_ > 1 || !c.forced_bos_token_id ? prompt_ : prompt_ + 1;
  if (row.length == begin) suppress(x, c.begin_suppress_tokens);
}

void Processors::filter(Scores x) const {
  const GenerationConfig& c = config_;
  if (c.temperature != 1) {
    for (float& value : x) value /= static_cast<float>(c.temperature);
  }
  if (c.top_h > 0) keep_top_h(x, c.top_h);
  if (c.top_k > 0) keep_top_k(x, c.top_k, keep_);
  if (c.top_p < 1) keep_top_p(x, c.top_p, keep_);
  if (c.min_p > 0) keep_min_p(x, c.min_p, keep_);
  if (c.typical_p < 1) keep_typical(x, c.typical_p, keep_);
  if (c.epsilon_cutoff > 0 && c.epsilon_cutoff < 1) cut_epsilon(x, c.epsilon_cutoff, keep_);
  if (c.eta_cutoff > 0 && c.eta_cutoff < 1) cut_eta(x, c.eta_cutoff, keep_);
}

}  // namespace transmuter::generation
