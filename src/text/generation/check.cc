#include "text/generation/check.h"

#include <cmath>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::generation {

namespace {

// Far beyond any text, and far enough below the largest number to be added up.
constexpr int64_t kLongest = int64_t{1} << 40;
// Texts that one call may write side by side for a prompt; each has caches of its own.
constexpr int64_t kMostRows = 4096;

constexpr int64_t kMostGuesses = 1024;  // checked in one step

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_input, sentence); }

void between(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    refuse(most == kLongest ? str(name, " is ", value, ": it lies between ", least, " and 2^40")
                            : str(name, " is ", value, ": it lies between ", least, " and ", most));
}

void between(const char* name, double value, double least, double most) {
  if (!(value >= least && value <= most))
    refuse(str(name, " is ", value, ": it lies between ", static_cast<int64_t>(least), " and ",
               static_cast<int64_t>(most)));
}

void not_negative(const char* name, double value) {
  if (!(value >= 0 && std::isfinite(value))) refuse(str(name, " is ", value, ": it is a number that is not below 0"));
}

void positive(const char* name, double value) {
  if (!(value > 0 && std::isfinite(value))) refuse(str(name, " is ", value, ": it is a number above 0"));
}

void finite(const char* name, double value) {
  if (!std::isfinite(value)) refuse(str(name, " is ", value, ", which is no finite number"));
}

void check_numbers(const GenerationConfig& c) {
  if (c.max_new_tokens) between("max_new_tokens", *c.max_new_tokens, 1, kLongest);
  if (c.max_length) between("max_length", *c.max_length, 1, kLongest);
  between("min_length", c.min_length, 0, kLongest);
  between("min_new_tokens", c.min_new_tokens, 0, kLongest);
  if (c.max_time) positive("max_time", *c.max_time);
  between("num_beams", c.num_beams, 1, kMostRows);
  between("num_return_sequences", c.num_return_sequences, 1, kMostRows);
  finite("length_penalty", c.length_penalty);
  if (!(std::abs(c.guidance_scale) <= 1e20))
    refuse(str("guidance_scale is ", c.guidance_scale, ", which is too large"));
  positive("repetition_penalty", c.repetition_penalty);
  positive("encoder_repetition_penalty", c.encoder_repetition_penalty);
  between("no_repeat_ngram_size", c.no_repeat_ngram_size, 0, kLongest);
  between("encoder_no_repeat_ngram_size", c.encoder_no_repeat_ngram_size, 0, kLongest);
  for (const auto& [sequence, bias] : c.sequence_bias) {
    if (sequence.empty()) refuse("sequence_bias has a sequence without ids");
    finite("a bias of sequence_bias", bias);
  }
  for (const std::vector<int64_t>& word : c.bad_words_ids) {
    if (word.empty()) refuse("bad_words_ids has a word without ids");
  }
  if (c.exponential_decay_length_penalty) {
    const auto& [start, factor] = *c.exponential_decay_length_penalty;
    between("exponential_decay_length_penalty's start", start, 0, kLongest);
    positive("exponential_decay_length_penalty's factor", factor);
  }
  between("prompt_lookup_num_tokens", c.prompt_lookup_num_tokens, 0, kMostGuesses);
  between("max_matching_ngram_size", c.max_matching_ngram_size, 1, kLongest);
  between("num_assistant_tokens", c.num_assistant_tokens, 1, kMostGuesses);
  between("assistant_confidence_threshold", c.assistant_confidence_threshold, 0, 1);
  if (const auto& mark = c.watermark) {
    if (!(mark->greenlist_ratio > 0 && mark->greenlist_ratio < 1))
      refuse("a watermark's greenlist_ratio lies between 0 and 1");
    if (mark->context_width < 1) refuse("a watermark's context_width is at least 1");
    finite("a watermark's bias", mark->bias);
  }
}

void check_sampling(const GenerationConfig& c) {
  // Scores have to stay within a float's range.
  if (!(c.temperature >= 1e-20 && c.temperature <= 1e20))
    refuse(str("temperature is ", c.temperature,
               ": it must be a number above 0; without do_sample the best token is taken each time"));
  if (c.top_k < 0) refuse(str("top_k is ", c.top_k, ": it is how many tokens to draw from, or 0 for all"));
  not_negative("top_h", c.top_h);
  between("top_p", c.top_p, 0, 1);
  between("min_p", c.min_p, 0, 1);
  if (!(c.typical_p > 0 && c.typical_p <= 1)) refuse(str("typical_p is ", c.typical_p, ": it is above 0, at most 1"));
  between("epsilon_cutoff", c.epsilon_cutoff, 0, 1);
  between("eta_cutoff", c.eta_cutoff, 0, 1);
}

}  // namespace

void check_settings(const GenerationConfig& c, const GenerationCall& call, size_t prompts, bool has_encoder) {
  check_numbers(c);
  if (c.do_sample) check_sampling(c);
  if (c.num_beams == 1 && !c.do_sample && c.num_return_sequences > 1)
    refuse("the best token each time gives one answer: num_return_sequences needs do_sample or num_beams");
  if (c.num_beams > 1 && c.num_return_sequences > c.num_beams)
    refuse(str("num_return_sequences (", c.num_return_sequences, ") is more than num_beams (", c.num_beams, ")"));
  if (c.num_beams > 1 && call.on_token) refuse("a beam search has no tokens to tell of before its end (on_token)");
  if (c.num_beams > 1 && c.guidance_scale != 1) refuse("guidance_scale cannot go with num_beams");
  if (call.assistant && (c.num_beams > 1 || c.guidance_scale != 1 || c.num_return_sequences > 1))
    refuse("an assistant guesses for one answer to each prompt, without beams or guidance");
  if (call.assistant && call.assistant->has_encoder()) refuse("the assistant has an encoder: it can't guess");
  if (call.cache &&
      (prompts != 1 || c.num_return_sequences > 1 || c.num_beams > 1 || has_encoder || c.guidance_scale != 1))
    refuse("a PromptCache serves one prompt and one answer, without beams, guidance or an encoder");
}

void check_prompt(const GenerationPrompt& prompt, size_t place, bool has_encoder) {
  if (!prompt.encoder_inputs.empty() && !has_encoder)
    refuse(str("prompt ", place, " has encoder_inputs, but there is no encoder"));
  if (prompt.ids.empty() && prompt.encoder_inputs.empty()) refuse(str("prompt ", place, " has no tokens"));
  for (const auto* ids : {&prompt.ids, &prompt.decoder_ids, &prompt.negative_ids}) {
    for (const int64_t id : *ids) {
      if (id < 0 || id > INT32_MAX)
        refuse(str("prompt ", place, " has the id ", id, ", which is none of a vocabulary"));
    }
  }
}

}  // namespace transmuter::generation
