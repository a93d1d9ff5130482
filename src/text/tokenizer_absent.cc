// Stands in for tokenizer.cc in a build without Rust (TRANSMUTER_TEXT=OFF): no Tokenizer can be made.
#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {

struct Tokenizer::Impl {};
struct DecodeStream::Impl {};

namespace {
[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported, "this build has no tokenizers (TRANSMUTER_TEXT=OFF)");
}
}  // namespace

Tokenizer Tokenizer::load(const std::string&) { refuse(); }
Tokenizer Tokenizer::parse(std::string_view) { refuse(); }
std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string>, const EncodeOptions&) const { refuse(); }
std::vector<Encoding> Tokenizer::encode_pairs(std::span<const std::string>, std::span<const std::string>,
                                              const EncodeOptions&) const {
  refuse();
}
std::vector<Encoding> Tokenizer::encode_words(std::span<const std::vector<std::string>>, const EncodeOptions&) const {
  refuse();
}
std::string Tokenizer::decode(std::span<const int64_t>, bool) const { refuse(); }
std::string Tokenizer::join(std::span<const std::string>) const { refuse(); }
std::optional<int64_t> Tokenizer::token_to_id(std::string_view) const { refuse(); }
std::optional<std::string> Tokenizer::id_to_token(int64_t) const { refuse(); }
size_t Tokenizer::vocabulary_size() const { refuse(); }
std::optional<std::string> Tokenizer::unknown_token() const { refuse(); }
std::optional<std::string> Tokenizer::continuing_prefix() const { refuse(); }

DecodeStream::DecodeStream(const Tokenizer&, bool) { refuse(); }
DecodeStream::~DecodeStream() = default;
DecodeStream::DecodeStream(DecodeStream&&) noexcept = default;
DecodeStream& DecodeStream::operator=(DecodeStream&&) noexcept = default;
std::string DecodeStream::push(int64_t) { refuse(); }
std::string DecodeStream::finish() { refuse(); }

}  // namespace transmuter
