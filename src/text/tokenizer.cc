#include "transmuter/text.h"

#include <sys/stat.h>

#include "base/strings.h"
#include "transmuter/error.h"
#include "transmuter_text.h"

namespace transmuter {

struct Tokenizer::Impl {
  explicit Impl(tmtext_tokenizer* handle) : handle(handle) {}
  ~Impl() { tmtext_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  tmtext_tokenizer* const handle;
};

namespace {

tmtext_view view(std::string_view text) { return {text.data(), text.size()}; }

std::vector<tmtext_view> views(std::span<const std::string> texts) {
  std::vector<tmtext_view> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) out.push_back(view(text));
  return out;
}

// Takes over the text of the archive.
std::string take(tmtext_string text) {
  std::string out(text.data, text.size);
  tmtext_string_free(text);
  return out;
}

std::vector<int64_t> widen(const uint32_t* values, size_t n) { return std::vector<int64_t>(values, values + n); }

struct BatchFree {
  void operator()(tmtext_batch* batch) const { tmtext_batch_free(batch); }
};

std::vector<Encoding> encode(const tmtext_tokenizer* tokenizer, std::span<const std::string> texts,
                             const std::span<const std::string>* pairs, const EncodeOptions& options) {
  const tmtext_options settings = {
      .add_special_tokens = options.add_special_tokens,
      .truncate_left = options.truncate_left,
      .pad_to_longest = options.pad_to_longest,
      .pad_left = options.pad_left,
      .max_length = options.max_length,
      .pad_to_multiple_of = options.pad_to_multiple_of,
      .pad_id = options.pad_id,
      .pad_type_id = options.pad_type_id,
      .pad_token = view(options.pad_token),
  };
  const std::vector<tmtext_view> firsts = views(texts);
  const std::vector<tmtext_view> seconds = pairs ? views(*pairs) : std::vector<tmtext_view>();
  tmtext_batch* raw = nullptr;
  tmtext_string error = {};
  if (!tmtext_encode(tokenizer, firsts.data(), pairs ? seconds.data() : nullptr, firsts.size(), &settings, &raw,
                     &error))
    throw Error(ErrorCode::invalid_input, take(error));
  const std::unique_ptr<tmtext_batch, BatchFree> batch(raw);

  std::vector<Encoding> rows(tmtext_batch_size(batch.get()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const tmtext_row row = tmtext_batch_row(batch.get(), i);
    rows[i] = {widen(row.ids, row.length),
               widen(row.type_ids, row.length),
               widen(row.attention_mask, row.length),
               widen(row.special_tokens_mask, row.length),
               {}};
    rows[i].offsets.reserve(row.length);
    for (size_t t = 0; t < row.length; ++t) rows[i].offsets.push_back({row.offsets[t].begin, row.offsets[t].end});
  }
  return rows;
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) throw Error(ErrorCode::not_found, str("there is no file ", path));
  tmtext_tokenizer* handle = nullptr;
  tmtext_string error = {};
  if (!tmtext_load_file(view(path), &handle, &error)) throw Error(ErrorCode::invalid_model, take(error));
  return Tokenizer(std::make_shared<Impl>(handle));
}

Tokenizer Tokenizer::parse(std::string_view json) {
  tmtext_tokenizer* handle = nullptr;
  tmtext_string error = {};
  if (!tmtext_load_bytes(view(json), &handle, &error)) throw Error(ErrorCode::invalid_model, take(error));
  return Tokenizer(std::make_shared<Impl>(handle));
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts, const EncodeOptions& options) const {
  return encode(impl_->handle, texts, nullptr, options);
}

std::vector<Encoding> Tokenizer::encode_pairs(std::span<const std::string> texts, std::span<const std::string> pairs,
                                              const EncodeOptions& options) const {
  if (texts.size() != pairs.size())
    throw Error(ErrorCode::invalid_input, str(texts.size(), " texts but ", pairs.size(), " second texts"));
  return encode(impl_->handle, texts, &pairs, options);
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<uint32_t> narrow;
  narrow.reserve(ids.size());
  for (int64_t id : ids) {
    if (id < 0 || id > UINT32_MAX) throw Error(ErrorCode::invalid_input, str("there is no token ", id));
    narrow.push_back(static_cast<uint32_t>(id));
  }
  tmtext_string text = {}, error = {};
  if (!tmtext_decode(impl_->handle, narrow.data(), narrow.size(), skip_special_tokens, &text, &error))
    throw Error(ErrorCode::invalid_input, take(error));
  return take(text);
}

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const int64_t id = tmtext_token_to_id(impl_->handle, view(token));
  if (id < 0) return std::nullopt;
  return id;
}

std::optional<std::string> Tokenizer::id_to_token(int64_t id) const {
  if (id < 0 || id > UINT32_MAX) return std::nullopt;
  const tmtext_string token = tmtext_id_to_token(impl_->handle, static_cast<uint32_t>(id));
  if (!token.data) return std::nullopt;
  return take(token);
}

size_t Tokenizer::vocabulary_size() const { return tmtext_vocabulary_size(impl_->handle); }

}  // namespace transmuter
