// Tokenizers: text to token ids and back, at once or token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transmuter {

// Which text of a pair is cut when the row is too long.
enum class TruncateSide { longest, first, second };

struct EncodeOptions {
  bool add_special_tokens = true;       // wrap each text as the tokenizer says ([CLS] … [SEP])
  bool special_tokens_as_text = false;  // what looks like a special token in a text is text
  size_t max_length = 0;                // tokens a row may have, special ones included; 0 = no limit
  bool truncate_left = false;           // drop tokens at the start instead of the end
  TruncateSide truncate_side = TruncateSide::longest;
  bool keep_overflow = false;  // what is cut off comes as further rows, each behind the row that it was cut off
  size_t stride = 0;           // tokens that such a row repeats of the one before it; needs max_length

  bool pad_to_longest = true;  // every row as long as the longest of the batch
  bool pad_left = false;       // padding before the tokens
  size_t pad_to_multiple_of = 0;
  uint32_t pad_id = 0;
  uint32_t pad_type_id = 0;
  std::string pad_token = "[PAD]";
};

// Bytes [begin, end) of the text that a token stands for; (0, 0) for special tokens and padding.
struct ByteSpan {
  size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

struct Encoding {
  std::vector<int64_t> ids, type_ids, attention_mask, special_tokens_mask;  // of one length
  std::vector<ByteSpan> offsets;
  std::vector<int32_t> words;      // which word of its text a token belongs to; -1: none
  std::vector<int32_t> sequences;  // 0; of a pair's second text 1; special tokens and padding -1
  size_t text = 0;                 // which of the texts this row is (a piece of)
};

// A tokenizer.json of Hugging Face `tokenizers`. What the file says about padding and truncation is ignored: both are
// per call. Cheap to copy (copies share the tokenizer), safe to use from several threads. Loading is slow (up to
// seconds for large vocabularies): load once. Everything throws Error: not_found, io or invalid_model when loading,
// invalid_input after.
class Tokenizer {
 public:
  static Tokenizer load(const std::string& path);
  static Tokenizer parse(std::string_view json);

  // Text must be UTF-8.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts, const EncodeOptions& options = {}) const;
  // Row i encodes texts[i] with pairs[i]; both of one length.
  std::vector<Encoding> encode_pairs(std::span<const std::string> texts, std::span<const std::string> pairs,
                                     const EncodeOptions& options = {}) const;
  // Texts that are split into words already; offsets are within each word, `words` says which.
  std::vector<Encoding> encode_words(std::span<const std::vector<std::string>> texts,
                                     const EncodeOptions& options = {}) const;
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = true) const;
  // The text of pieces of the vocabulary ("##ing"), as decoding puts them together.
  std::string join(std::span<const std::string> pieces) const;

  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  size_t vocabulary_size() const;  // added tokens included
  // What the vocabulary itself says; nothing where it doesn't.
  std::optional<std::string> unknown_token() const;
  std::optional<std::string> continuing_prefix() const;  // "##" of a piece within a word

  struct Impl;

 private:
  friend class DecodeStream;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// Decoding token by token, for showing a text while it is generated. A token's text can depend on the tokens around it
// (spaces, the bytes of one character), so what push() gives is complete and may be nothing. All that push() and
// finish() gave is what decode() gives of all ids. One thread's; copies of the tokenizer stay free.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  ~DecodeStream();
  DecodeStream(DecodeStream&&) noexcept;
  DecodeStream& operator=(DecodeStream&&) noexcept;

  // The text that this token completes. Throws Error(invalid_input) for an id that is none.
  std::string push(int64_t id);
  // What is left: bytes that never became a character give U+FFFD. The stream is then as new.
  std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace transmuter
