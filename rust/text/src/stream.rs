//! Decoding token by token.

use tokenizers::Tokenizer;

use crate::tokenizer::SharedTokenizer;
use crate::{failed, guard, hand_text, take_back, Fallible, Text};

/// A token's text can depend on its neighbours (spaces, bytes of one character), so the last piece's tokens are decoded
/// again with each new one, and what they gave alone is cut off.
pub struct Stream {
    skip_special_tokens: bool,
    /// Those of the last piece, then those that are not text yet.
    ids: Vec<u32>,
    /// How many of them are the last piece's, and their text.
    done: usize,
    prefix: String,
}

/// `text` without the start that it shares with `prefix`.
fn rest<'a>(text: &'a str, prefix: &str) -> &'a str {
    let common: usize = text.chars().zip(prefix.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    &text[common..]
}

impl Stream {
    fn decode(&self, tokenizer: &Tokenizer, ids: &[u32]) -> Fallible<String> {
        tokenizer.decode(ids, self.skip_special_tokens).map_err(failed)
    }

    fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Fallible<String> {
        self.ids.push(id);
        let text = self.decode(tokenizer, &self.ids)?;
        // A character whose bytes are still coming.
        if text.ends_with('\u{fffd}') {
            return Ok(String::new());
        }
        let piece = rest(&text, &self.prefix).to_string();
        if piece.is_empty() {
            return Ok(piece);
        }
        self.ids.drain(..self.done);
        self.done = self.ids.len();
        self.prefix = self.decode(tokenizer, &self.ids)?;
        Ok(piece)
    }

    fn finish(&mut self, tokenizer: &Tokenizer) -> Fallible<String> {
        let text = self.decode(tokenizer, &self.ids)?;
        let piece = rest(&text, &self.prefix).to_string();
        self.ids.clear();
        self.done = 0;
        self.prefix.clear();
        Ok(piece)
    }
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_stream_new(skip_special_tokens: i32) -> *mut Stream {
    let skip_special_tokens = skip_special_tokens != 0;
    Box::into_raw(Box::new(Stream { skip_special_tokens, ids: Vec::new(), done: 0, prefix: String::new() }))
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_stream_push(
    stream: *mut Stream,
    tokenizer: *const SharedTokenizer,
    id: u32,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    hand_text(guard(error, || (*tokenizer).read(|t| (*stream).push(t, id))), text)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_stream_finish(
    stream: *mut Stream,
    tokenizer: *const SharedTokenizer,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    hand_text(guard(error, || (*tokenizer).read(|t| (*stream).finish(t))), text)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_stream_free(stream: *mut Stream) {
    take_back(stream);
}
