/* The tokenizers of Transmuter as a C ABI (the Rust crate `transmuter_text`). C++ code takes <transmuter/text.h>.
 *
 * Every function may be called from several threads at once on one tokenizer. None prints, aborts or unwinds: a
 * function that can fail returns 0 and fills *error (when error isn't null) with a message, to be freed by
 * tmtext_string_free; on success it returns 1 and leaves *error alone. Text is UTF-8, given by pointer and size, and
 * need not end in NUL. */
#ifndef TRANSMUTER_TEXT_H_
#define TRANSMUTER_TEXT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tmtext_tokenizer tmtext_tokenizer;
typedef struct tmtext_batch tmtext_batch;

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
  uint8_t add_special_tokens; /* wrap the text as the model's post-processor says ([CLS] … [SEP]) */
  uint8_t truncate_left;      /* drop tokens at the start instead of the end */
  uint8_t pad_to_longest;     /* every row as long as the longest */
  uint8_t pad_left;           /* padding goes before the tokens */
  size_t
      max_length; /* tokens a row may have, special ones included; 0 = no limit. A pair loses its longer side first. */
  size_t pad_to_multiple_of; /* with pad_to_longest: round the length up; 0 = no rounding */
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
} tmtext_row;

int tmtext_load_file(tmtext_view path, tmtext_tokenizer** tokenizer, tmtext_string* error);
int tmtext_load_bytes(tmtext_view json, tmtext_tokenizer** tokenizer, tmtext_string* error);
void tmtext_free(tmtext_tokenizer* tokenizer);

/* `pairs` is null, or `count` second texts of as many text pairs. */
int tmtext_encode(const tmtext_tokenizer* tokenizer, const tmtext_view* texts, const tmtext_view* pairs, size_t count,
                  const tmtext_options* options, tmtext_batch** batch, tmtext_string* error);
size_t tmtext_batch_size(const tmtext_batch* batch);
tmtext_row tmtext_batch_row(const tmtext_batch* batch, size_t index); /* all zeros past the end */
void tmtext_batch_free(tmtext_batch* batch);

int tmtext_decode(const tmtext_tokenizer* tokenizer, const uint32_t* ids, size_t count, int skip_special_tokens,
                  tmtext_string* text, tmtext_string* error);

/* -1 when there is no such token. */
int64_t tmtext_token_to_id(const tmtext_tokenizer* tokenizer, tmtext_view token);
/* data is null when there is no such id. */
tmtext_string tmtext_id_to_token(const tmtext_tokenizer* tokenizer, uint32_t id);
size_t tmtext_vocabulary_size(const tmtext_tokenizer* tokenizer);

void tmtext_string_free(tmtext_string string);

#ifdef __cplusplus
}
#endif

#endif /* TRANSMUTER_TEXT_H_ */
