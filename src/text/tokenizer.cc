#include "transmuter/tokenizer.h"

#include <sys/stat.h>

#include "base/strings.h"
#include "text/rust_text.h"
#include "transmuter/error.h"

namespace transmuter {

struct Tokenizer::Impl {
  Impl(tmtext_tokenizer* handle, std::string file) : handle(handle), file(std::move(file)) {}
  ~Impl() { tmtext_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  tmtext_tokenizer* const handle;
  const std::string file;  // where it came from; empty: from memory
};

namespace {

// What the crate refuses is the file's fault, anything else the caller's.
Error refusal(tmtext_string error, const std::string& file) {
  std::string sentence = take(error);
  if (!sentence.starts_with("the tokenizer failed")) return Error(ErrorCode::invalid_input, std::move(sentence));
  Error fault(ErrorCode::invalid_model, sentence + "; its parts contradict each other: download or save it again");
  if (!file.empty()) fault.in("file " + file);
  return fault;
}

std::vector<tmtext_view> views(std::span<const std::string> texts) {
  std::vector<tmtext_view> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) out.push_back(view(text));
  return out;
}

std::vector<int64_t> widen(const uint32_t* values, size_t n) { return std::vector<int64_t>(values, values + n); }

struct BatchFree {
  void operator()(tmtext_batch* batch) const { tmtext_batch_free(batch); }
};

tmtext_options settings(const EncodeOptions& options) {
  return {
      .add_special_tokens = options.add_special_tokens,
      .special_tokens_as_text = options.special_tokens_as_text,
      .truncate_left = options.truncate_left,
      .truncate_side = static_cast<uint8_t>(options.truncate_side),
      .keep_overflow = options.keep_overflow,
      .pad_to_longest = options.pad_to_longest,
      .pad_left = options.pad_left,
      .max_length = options.max_length,
      .stride = options.stride,
      .pad_to_multiple_of = options.pad_to_multiple_of,
      .pad_id = options.pad_id,
      .pad_type_id = options.pad_type_id,
      .pad_token = view(options.pad_token),
  };
}

Encoding encoding_of(const tmtext_row& row) {
  Encoding out = {
      .ids = widen(row.ids, row.length),
      .type_ids = widen(row.type_ids, row.length),
      .attention_mask = widen(row.attention_mask, row.length),
      .special_tokens_mask = widen(row.special_tokens_mask, row.length),
      .offsets = {},
      .words = std::vector<int32_t>(row.words, row.words + row.length),
      .sequences = std::vector<int32_t>(row.sequences, row.sequences + row.length),
      .text = row.input,
  };
  out.offsets.reserve(row.length);
  for (size_t t = 0; t < row.length; ++t) out.offsets.push_back({row.offsets[t].begin, row.offsets[t].end});
  return out;
}

// `call` fills a batch or an error, as tmtext_encode does.
template <class Call>
std::vector<Encoding> rows_of(const std::string& file, const Call& call) {
  tmtext_batch* raw = nullptr;
  tmtext_string error = {};
  if (!call(&raw, &error)) throw refusal(error, file);
  const std::unique_ptr<tmtext_batch, BatchFree> batch(raw);
  std::vector<Encoding> rows(tmtext_batch_size(batch.get()));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = encoding_of(tmtext_batch_row(batch.get(), i));
  return rows;
}

std::vector<Encoding> encode(const tmtext_tokenizer* tokenizer, const std::string& file,
                             std::span<const std::string> texts, const std::span<const std::string>* pairs,
                             const EncodeOptions& options) {
  const tmtext_options wanted = settings(options);
  const std::vector<tmtext_view> firsts = views(texts);
  const std::vector<tmtext_view> seconds = pairs ? views(*pairs) : std::vector<tmtext_view>();
  return rows_of(file, [&](tmtext_batch** batch, tmtext_string* error) {
    return tmtext_encode(tokenizer, firsts.data(), pairs ? seconds.data() : nullptr, firsts.size(), &wanted, batch,
                         error);
  });
}

uint32_t narrow(int64_t id) {
  if (id < 0 || id > UINT32_MAX) throw Error(ErrorCode::invalid_input, str("there is no token ", id));
  return static_cast<uint32_t>(id);
}

std::optional<std::string> optional_text(tmtext_string text) {
  if (!text.data) return std::nullopt;
  return take(text);
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) throw Error(ErrorCode::not_found, str("there is no file ", path));
  tmtext_tokenizer* handle = nullptr;
  tmtext_string error = {};
  if (!tmtext_load_file(view(path), &handle, &error)) throw Error(ErrorCode::invalid_model, take(error));
  return Tokenizer(std::make_shared<Impl>(handle, path));
}

Tokenizer Tokenizer::parse(std::string_view json) {
  tmtext_tokenizer* handle = nullptr;
  tmtext_string error = {};
  if (!tmtext_load_bytes(view(json), &handle, &error)) throw Error(ErrorCode::invalid_model, take(error));
  return Tokenizer(std::make_shared<Impl>(handle, ""));
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts, const EncodeOptions& options) const {
  return encode(impl_->handle, impl_->file, texts, nullptr, options);
}

std::vector<Encoding> Tokenizer::encode_pairs(std::span<const std::string> texts, std::span<const std::string> pairs,
                                              const EncodeOptions& options) const {
  if (texts.size() != pairs.size())
    throw Error(ErrorCode::invalid_input, str(texts.size(), " texts but ", pairs.size(), " second texts"));
  return encode(impl_->handle, impl_->file, texts, &pairs, options);
}

std::vector<Encoding> Tokenizer::encode_words(std::span<const std::vector<std::string>> texts,
                                              const EncodeOptions& options) const {
  std::vector<tmtext_view> words;
  std::vector<size_t> counts;
  for (const std::vector<std::string>& text : texts) {
    for (const std::string& word : text) words.push_back(view(word));
    counts.push_back(text.size());
  }
  const tmtext_options wanted = settings(options);
  return rows_of(impl_->file, [&](tmtext_batch** batch, tmtext_string* error) {
    return tmtext_encode_words(impl_->handle, words.data(), counts.data(), counts.size(), &wanted, batch, error);
  });
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<uint32_t> narrowed;
  narrowed.reserve(ids.size());
  for (int64_t id : ids) narrowed.push_back(narrow(id));
  tmtext_string text = {}, error = {};
  if (!tmtext_decode(impl_->handle, narrowed.data(), narrowed.size(), skip_special_tokens, &text, &error))
    throw refusal(error, impl_->file);
  return take(text);
}

std::string Tokenizer::join(std::span<const std::string> pieces) const {
  const std::vector<tmtext_view> all = views(pieces);
  tmtext_string text = {}, error = {};
  if (!tmtext_join(impl_->handle, all.data(), all.size(), &text, &error)) throw refusal(error, impl_->file);
  return take(text);
}

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const int64_t id = tmtext_token_to_id(impl_->handle, view(token));
  if (id < 0) return std::nullopt;
  return id;
}

std::optional<std::string> Tokenizer::id_to_token(int64_t id) const {
  if (id < 0 || id > UINT32_MAX) return std::nullopt;
  return optional_text(tmtext_id_to_token(impl_->handle, static_cast<uint32_t>(id)));
}

size_t Tokenizer::vocabulary_size() const { return tmtext_vocabulary_size(impl_->handle); }

std::optional<std::string> Tokenizer::unknown_token() const {
  return optional_text(tmtext_unknown_token(impl_->handle));
}

std::optional<std::string> Tokenizer::continuing_prefix() const {
  return optional_text(tmtext_continuing_prefix(impl_->handle));
}

struct DecodeStream::Impl {
  Impl(std::shared_ptr<const Tokenizer::Impl> tokenizer, bool skip_special_tokens)
      : tokenizer(std::move(tokenizer)), stream(tmtext_stream_new(skip_special_tokens)) {}
  ~Impl() { tmtext_stream_free(stream); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::shared_ptr<const Tokenizer::Impl> tokenizer;
  tmtext_stream* const stream;
};

DecodeStream::DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens)
    : impl_(std::make_unique<Impl>(tokenizer.impl_, skip_special_tokens)) {}
DecodeStream::~DecodeStream() = default;
DecodeStream::DecodeStream(DecodeStream&&) noexcept = default;
DecodeStream& DecodeStream::operator=(DecodeStream&&) noexcept = default;

std::string DecodeStream::push(int64_t id) {
  tmtext_string text = {}, error = {};
  if (!tmtext_stream_push(impl_->stream, impl_->tokenizer->handle, narrow(id), &text, &error))
    throw refusal(error, impl_->tokenizer->file);
  return take(text);
}

std::string DecodeStream::finish() {
  tmtext_string text = {}, error = {};
  if (!tmtext_stream_finish(impl_->stream, impl_->tokenizer->handle, &text, &error))
    throw refusal(error, impl_->tokenizer->file);
  return take(text);
}

}  // namespace transmuter
