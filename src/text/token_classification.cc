#include <algorithm>

#include "text/encoder_model.h"
#include "text/entities.h"
#include "text/probabilities.h"
#include "transmuter/error.h"
#include "transmuter/text_tasks.h"

namespace transmuter {

namespace {

size_t points_in(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// The token goes on with a word, as far as text and vocabulary tell.
bool goes_on(const std::string& text, ByteSpan span, const std::string& piece, bool marked) {
  if (marked) return points_in(piece) != points_in(std::string_view(text).substr(span.begin, span.end - span.begin));
  return span.begin > 0 && text[span.begin - 1] != ' ' && (span.begin >= text.size() || text[span.begin] != ' ');
}

std::string joined(const std::vector<std::string>& words, const std::string& delimiter, std::vector<size_t>& starts) {
  std::string out;
  for (const std::string& word : words) {
    if (!starts.empty()) out += delimiter;
    starts.push_back(out.size());
    out += word;
  }
  return out;
}

}  // namespace

struct EntityRecognizer::Impl {
  Impl(const std::string& folder, const TextTaskOptions& options)
      : model(folder, options, "token classification", {{.names = {"logits"}, .per_token = true, .rank = 3}}),
        labels(labels_of(model)),
        unknown(model.special_id("unk_token")),
        marked(model.tokenizer().continuing_prefix().has_value()) {
    if (const auto token = model.tokenizer().unknown_token(); token && !unknown)
      unknown = model.tokenizer().token_to_id(*token);
  }

  EncodeOptions encode_options(const EntityOptions& options) const {
    EncodeOptions encode = model.encode_options();
    if (options.stride && options.aggregation == Aggregation::none)
      throw Error(ErrorCode::invalid_input,
                  "a stride needs an aggregation: windows overlap, and so would their tokens");
    if (options.stride && encode.max_length) {
      encode.keep_overflow = true;
      encode.stride = *options.stride;
    }
    return encode;
  }

  std::vector<TokenScores> tokens_of(const Encoding& row, const Tensor& logits, const std::string& text,
                                     const std::vector<size_t>* word_starts) const {
    std::vector<TokenScores> out;
    const auto width = static_cast<size_t>(logits.dim(1));
    for (size_t t = 0; t < row.ids.size(); ++t) {
      if (row.special_tokens_mask[t]) continue;
      TokenScores token;
      token.scores = softmax({logits.data<float>() + t * width, width});
      token.index = static_cast<int64_t>(t);
      token.span = row.offsets[t];
      if (word_starts && row.words[t] >= 0) {
        token.span.begin += (*word_starts)[static_cast<size_t>(row.words[t])];
        token.span.end += (*word_starts)[static_cast<size_t>(row.words[t])];
      }
      token.word = model.tokenizer().id_to_token(row.ids[t]).value_or("");
      token.is_subword = goes_on(text, token.span, token.word, marked);
      if (unknown && row.ids[t] == *unknown) {
        token.word = text.substr(token.span.begin, token.span.end - token.span.begin);
        token.is_subword = false;
      }
      out.push_back(std::move(token));
    }
    return out;
  }

  // `rows` of text i follow each other; word_starts[i] says where the words of a text that came split begin in it.
  std::vector<std::vector<Entity>> recognize(std::span<const std::string> texts, std::span<const Encoding> rows,
                                             const std::vector<std::vector<size_t>>& word_starts,
                                             const EntityOptions& options) const {
    const auto outputs = model.run(rows);
    std::vector<std::vector<Entity>> out(texts.size());
    std::vector<size_t> windows(texts.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t i = rows[r].text;
      const Tensor& logits = outputs[r][0];
      const std::vector<std::string> names =
          labels.empty() ? labels_of(model, static_cast<size_t>(logits.dim(1))) : labels;
      check_labels(model, names.size(), logits.dim(1), "token");
      std::vector<TokenScores> tokens =
          tokens_of(rows[r], logits, texts[i], word_starts.empty() ? nullptr : &word_starts[i]);
      for (Entity& entity : aggregate(std::move(tokens), options.aggregation, names, model.tokenizer()))
        if (std::find(options.ignore.begin(), options.ignore.end(), entity.entity) == options.ignore.end())
          out[i].push_back(std::move(entity));
      ++windows[i];
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      if (windows[i] > 1) out[i] = without_overlaps(std::move(out[i]));
      const CodePoints points(texts[i]);
      for (Entity& entity : out[i]) {
        entity.start = points.at(entity.byte_start);
        entity.end = points.at(entity.byte_end);
      }
    }
    return out;
  }

  EncoderModel model;
  std::vector<std::string> labels;
  std::optional<int64_t> unknown;
  bool marked;
};

EntityRecognizer EntityRecognizer::load(const std::string& folder, const TextTaskOptions& options) {
  return EntityRecognizer(std::make_shared<Impl>(folder, options));
}

std::vector<std::vector<Entity>> EntityRecognizer::operator()(std::span<const std::string> texts,
                                                              const EntityOptions& options) const {
  const std::vector<Encoding> rows = impl_->model.tokenizer().encode_batch(texts, impl_->encode_options(options));
  return impl_->recognize(texts, rows, {}, options);
}

std::vector<std::vector<Entity>> EntityRecognizer::words(std::span<const std::vector<std::string>> texts,
                                                         const EntityOptions& options) const {
  std::vector<std::vector<size_t>> starts(texts.size());
  std::vector<std::string> whole;
  for (size_t i = 0; i < texts.size(); ++i) whole.push_back(joined(texts[i], options.delimiter, starts[i]));
  const std::vector<Encoding> rows = impl_->model.tokenizer().encode_words(texts, impl_->encode_options(options));
  return impl_->recognize(whole, rows, starts, options);
}

}  // namespace transmuter
