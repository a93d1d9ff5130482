/* The tokenizers and chat templates of Transmuter as a C ABI (the Rust crate `transmuter_text`). C++ code takes
 * <transmuter/text.h>.
 *
 * Every function may be called from several threads at once on one tokenizer or template; a stream is one thread's.
 * None prints, aborts or unwinds: a function that can fail returns 0 and fills *error (when error isn't null) with a
 * message, to be freed by tmtext_string_free; on success it returns 1 and leaves *error alone. Text is UTF-8, given by
 * pointer and size, and need not end in NUL. */
#ifndef TRANSMUTER_TEXT_H_
#define TRANSMUTER_TEXT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tmtext_tokenizer tmtext_tokenizer;
typedef struct tmtext_batch tmtext_batch;
typedef struct tmtext_stream tmtext_stream;
typedef struct tmtext_chat tmtext_chat;

/* Borrowed text. */
typedef struct {
  const char* data;
  size_t size;
} tmtext_view;

/* Text that the caller frees by tmtext_string_free; data ends in NUL (not counted) or is null for "no such thing". */
typedef struct {
  char* data;
  size_t size;
} tmtext_string;

/* A token's place in its text: bytes [begin, end). (0, 0) for special tokens and padding. */
typedef struct {
  size_t begin, end;
} tmtext_span;

/* All of it is per call; what a tokenizer.json says about padding and truncation is never used. */
typedef struct {
  uint8_t add_special_tokens;     /* wrap the text as the model's post-processor says ([CLS] ... [SEP]) */
  uint8_t special_tokens_as_text; /* what looks like a special token in the text is text */
  uint8_t truncate_left;          /* drop tokens at the start instead of the end */
  uint8_t truncate_side;          /* of a pair: 0 the longer side, 1 the first only, 2 the second only */
  uint8_t keep_overflow;          /* what is cut off comes as further rows, behind the row it was cut off */
  uint8_t pad_to_longest;         /* every row as long as the longest */
  uint8_t pad_left;               /* padding goes before the tokens */
  size_t max_length;              /* tokens a row may have, special ones included; 0 = no limit */
  size_t stride;                  /* tokens that a further row repeats of the one before it */
  size_t pad_to_multiple_of;      /* with pad_to_longest: round the length up; 0 = no rounding */
  uint32_t pad_id;
  uint32_t pad_type_id;
  tmtext_view pad_token;
} tmtext_options;

/* One row of a batch; borrowed, valid until tmtext_batch_free. Each array has `length` elements. */
typedef struct {
  size_t length;
  const uint32_t* ids;
  const uint32_t* type_ids;
  const uint32_t* attention_mask;
  const uint32_t* special_tokens_mask;
  const tmtext_span* offsets;
  const int32_t* words;     /* which word of its text, as the tokenizer splits it; -1: none (special tokens) */
  const int32_t* sequences; /* 0, of a pair's second text 1; -1: none */
  size_t input;             /* which of the texts */
} tmtext_row;

int tmtext_load_file(tmtext_view path, tmtext_tokenizer** tokenizer, tmtext_string* error);
int tmtext_load_bytes(tmtext_view json, tmtext_tokenizer** tokenizer, tmtext_string* error);
void tmtext_free(tmtext_tokenizer* tokenizer);

/* `pairs` is null, or `count` second texts of as many text pairs. */
int tmtext_encode(const tmtext_tokenizer* tokenizer, const tmtext_view* texts, const tmtext_view* pairs, size_t count,
                  const tmtext_options* options, tmtext_batch** batch, tmtext_string* error);
/* Texts that are split into words already: text i is counts[i] of the words. Offsets are within each word. */
int tmtext_encode_words(const tmtext_tokenizer* tokenizer, const tmtext_view* words, const size_t* counts, size_t count,
                        const tmtext_options* options, tmtext_batch** batch, tmtext_string* error);
size_t tmtext_batch_size(const tmtext_batch* batch);
tmtext_row tmtext_batch_row(const tmtext_batch* batch, size_t index); /* all zeros past the end */
void tmtext_batch_free(tmtext_batch* batch);

int tmtext_decode(const tmtext_tokenizer* tokenizer, const uint32_t* ids, size_t count, int skip_special_tokens,
                  tmtext_string* text, tmtext_string* error);

/* The text of pieces of the vocabulary, as decoding puts them together. */
int tmtext_join(const tmtext_tokenizer* tokenizer, const tmtext_view* pieces, size_t count, tmtext_string* text,
                tmtext_string* error);

/* Decoding token by token: push gives the text that the token completes, perhaps none; finish what is left (bytes that
 * are no character become U+FFFD), after which the stream is as new. */
tmtext_stream* tmtext_stream_new(int skip_special_tokens);
int tmtext_stream_push(tmtext_stream* stream, const tmtext_tokenizer* tokenizer, uint32_t id, tmtext_string* text,
                       tmtext_string* error);
int tmtext_stream_finish(tmtext_stream* stream, const tmtext_tokenizer* tokenizer, tmtext_string* text,
                         tmtext_string* error);
void tmtext_stream_free(tmtext_stream* stream);

/* -1 when there is no such token. */
int64_t tmtext_token_to_id(const tmtext_tokenizer* tokenizer, tmtext_view token);
/* data is null when there is no such id. */
tmtext_string tmtext_id_to_token(const tmtext_tokenizer* tokenizer, uint32_t id);
size_t tmtext_vocabulary_size(const tmtext_tokenizer* tokenizer);
/* As the model's vocabulary says; data is null when it doesn't. */
tmtext_string tmtext_unknown_token(const tmtext_tokenizer* tokenizer);
tmtext_string tmtext_continuing_prefix(const tmtext_tokenizer* tokenizer); /* "##" of a piece within a word */

/* A chat template (Jinja as `transformers` sets it up), compiled. */
int tmtext_chat_new(tmtext_view source, tmtext_chat** chat, tmtext_string* error);
/* `variables` is a JSON object; `now` is what strftime_now tells, in seconds since 1970. Work, depth and memory are
 * bounded, so a template need not be trusted. Gives -1 when the template itself refused: *error is its own message. */
int tmtext_chat_render(const tmtext_chat* chat, tmtext_view variables, int64_t now, tmtext_string* text,
                       tmtext_string* error);
void tmtext_chat_free(tmtext_chat* chat);

void tmtext_string_free(tmtext_string string);

#ifdef __cplusplus
}
#endif

#endif /* TRANSMUTER_TEXT_H_ */
