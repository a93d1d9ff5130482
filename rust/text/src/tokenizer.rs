//! Loading, encoding, decoding.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{PoisonError, RwLock};

use tokenizers::models::ModelWrapper;
use tokenizers::utils::padding::{pad_encodings, PaddingDirection, PaddingParams, PaddingStrategy};
use tokenizers::utils::truncation::{TruncationDirection, TruncationParams, TruncationStrategy};
use tokenizers::{Decoder, EncodeInput, Encoding, InputSequence, PostProcessor, PostProcessorWrapper, Tokenizer};

use crate::{failed, guard, hand_over, hand_text, slice, take_back, Fallible, Text, View};

/// Batches below this many bytes are encoded in the caller's thread: starting the thread pool costs more.
const PARALLEL_BYTES: usize = 32 << 10;

/// `max_length` of "never truncate".
const NO_LIMIT: usize = usize::MAX;

/// The crate keeps truncation and the treatment of special tokens inside the tokenizer. Calls that want what is in force
/// share a read lock; a call that wants something else sets it and encodes under the write lock.
pub struct SharedTokenizer(RwLock<Tokenizer>);

pub struct Batch(Vec<Row>);

struct Row {
    encoding: Encoding,
    offsets: Vec<Span>,
    words: Vec<i32>,
    sequences: Vec<i32>,
    input: usize,
}

#[repr(C)]
pub struct Span {
    begin: usize,
    end: usize,
}

#[repr(C)]
pub struct Options {
    add_special_tokens: u8,
    special_tokens_as_text: u8,
    truncate_left: u8,
    truncate_side: u8,
    keep_overflow: u8,
    pad_to_longest: u8,
    pad_left: u8,
    max_length: usize,
    stride: usize,
    pad_to_multiple_of: usize,
    pad_id: u32,
    pad_type_id: u32,
    pad_token: View,
}

#[repr(C)]
pub struct RowView {
    length: usize,
    ids: *const u32,
    type_ids: *const u32,
    attention_mask: *const u32,
    special_tokens_mask: *const u32,
    offsets: *const Span,
    words: *const i32,
    sequences: *const i32,
    input: usize,
}

/// What a call wants of the tokenizer's own state.
#[derive(Clone, Copy, PartialEq)]
struct Mode {
    max_length: usize,
    stride: usize,
    strategy: TruncationStrategy,
    direction: TruncationDirection,
    special_as_text: bool,
}

impl Mode {
    fn of(tokenizer: &Tokenizer) -> Option<Mode> {
        tokenizer.get_truncation().map(|p| Mode {
            max_length: p.max_length,
            stride: p.stride,
            strategy: p.strategy,
            direction: p.direction,
            special_as_text: tokenizer.get_encode_special_tokens(),
        })
    }

    fn set(self, tokenizer: &mut Tokenizer) {
        if let Some(params) = tokenizer.get_truncation_mut() {
            params.max_length = self.max_length;
            params.stride = self.stride;
            params.strategy = self.strategy;
            params.direction = self.direction;
        }
        tokenizer.set_encode_special_tokens(self.special_as_text);
    }
}

impl SharedTokenizer {
    fn new(mut tokenizer: Tokenizer) -> Fallible<SharedTokenizer> {
        tokenizer.with_padding(None);
        let never = TruncationParams { max_length: NO_LIMIT, ..Default::default() };
        tokenizer.with_truncation(Some(never)).map_err(failed)?;
        Ok(SharedTokenizer(RwLock::new(tokenizer)))
    }

    pub fn read<T>(&self, f: impl FnOnce(&Tokenizer) -> T) -> T {
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `f` on the tokenizer with this mode in force.
    fn in_mode<T>(&self, mode: Mode, f: impl FnOnce(&Tokenizer) -> T) -> T {
        {
            let tokenizer = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if Mode::of(&tokenizer) == Some(mode) {
                return f(&tokenizer);
            }
        }
        let mut tokenizer = self.0.write().unwrap_or_else(PoisonError::into_inner);
        mode.set(&mut tokenizer);
        f(&tokenizer)
    }

    /// Encodings with all that truncation cuts off. The crate's own way loses most of it, since it stops tokenizing a
    /// text where the first row is full; so the texts are tokenized whole, then cut and wrapped.
    fn encode_with_overflow(
        &self,
        inputs: Vec<EncodeInput>,
        special: bool,
        mode: Mode,
        check: impl FnOnce(&Tokenizer) -> Fallible<()>,
    ) -> Fallible<Vec<Encoding>> {
        let mut tokenizer = self.0.write().unwrap_or_else(PoisonError::into_inner);
        mode.set(&mut tokenizer);
        check(&tokenizer)?;
        let mut texts = Vec::new();
        let mut is_pair = Vec::with_capacity(inputs.len());
        for input in inputs {
            match input {
                EncodeInput::Single(text) => {
                    texts.push(EncodeInput::Single(text));
                    is_pair.push(false);
                }
                EncodeInput::Dual(first, second) => {
                    texts.push(EncodeInput::Single(first));
                    texts.push(EncodeInput::Single(second));
                    is_pair.push(true);
                }
            }
        }
        Mode { max_length: NO_LIMIT, stride: 0, ..mode }.set(&mut tokenizer);
        let processor = tokenizer.get_post_processor().cloned();
        tokenizer.with_post_processor(None::<PostProcessorWrapper>);
        let whole = catch_unwind(AssertUnwindSafe(|| tokenizer.encode_batch(texts, false)));
        tokenizer.with_post_processor(processor);
        mode.set(&mut tokenizer);
        let mut whole = whole.unwrap_or_else(|panic| resume_unwind(panic)).map_err(failed)?.into_iter();
        let mut rows = Vec::with_capacity(is_pair.len());
        for pair in is_pair {
            let first = whole.next().unwrap_or_default();
            let second = if pair { whole.next() } else { None }.map(|mut second| {
                second.set_type_ids(vec![1; second.len()]);
                second
            });
            rows.push(tokenizer.post_process(first, second, special).map_err(failed)?);
        }
        Ok(rows)
    }
}

impl Row {
    fn new(encoding: Encoding, input: usize) -> Row {
        let offsets = encoding.get_offsets().iter().map(|&(begin, end)| Span { begin, end }).collect();
        let words = encoding.get_word_ids().iter().map(|word| word.map_or(-1, |w| w as i32)).collect();
        let mut sequences: Vec<i32> =
            encoding.get_sequence_ids().iter().map(|sequence| sequence.map_or(-1, |s| s as i32)).collect();
        // The crate says sequence 0 of everything when nothing was added; padding belongs to none all the same.
        for (sequence, &mask) in sequences.iter_mut().zip(encoding.get_attention_mask()) {
            if mask == 0 {
                *sequence = -1;
            }
        }
        Row { encoding, offsets, words, sequences, input }
    }
}

/// The inputs, and how many bytes of text they are.
unsafe fn inputs<'a>(
    texts: &'a [View],
    pairs: Option<&[View]>,
    words: Option<&[usize]>,
) -> Fallible<(Vec<EncodeInput<'a>>, usize)> {
    let mut bytes = 0;
    let mut inputs = Vec::new();
    if let Some(counts) = words {
        let mut rest = texts;
        for (i, &count) in counts.iter().enumerate() {
            let (mine, others) = rest.split_at(count);
            rest = others;
            let mut split = Vec::with_capacity(count);
            for word in mine {
                split.push(word.text(|| format!("a word of text {i}"))?);
                bytes += word.size;
            }
            inputs.push(EncodeInput::Single(InputSequence::from(split)));
        }
        return Ok((inputs, bytes));
    }
    for (i, view) in texts.iter().enumerate() {
        let text = view.text(|| format!("text {i}"))?;
        bytes += text.len();
        inputs.push(match pairs {
            None => EncodeInput::Single(text.into()),
            Some(pairs) => {
                let second = pairs[i].text(|| format!("the second text of pair {i}"))?;
                bytes += second.len();
                EncodeInput::Dual(text.into(), second.into())
            }
        });
    }
    Ok((inputs, bytes))
}

/// A sentence for what the crate would panic about.
fn check_limit(tokenizer: &Tokenizer, mode: Mode, special: bool, pairs: bool) -> Fallible<()> {
    let limit = mode.max_length;
    let added = if special { tokenizer.get_post_processor().map_or(0, |p| p.added_tokens(pairs)) } else { 0 };
    if limit < added {
        return Err(format!("max_length {limit} leaves no room for the {added} special tokens"));
    }
    if mode.stride > 0 && mode.stride >= limit - added {
        let stride = mode.stride;
        return Err(format!("stride {stride} must be below max_length {limit} less the {added} special tokens"));
    }
    Ok(())
}

unsafe fn encode(
    shared: &SharedTokenizer,
    texts: &[View],
    pairs: Option<&[View]>,
    words: Option<&[usize]>,
    options: &Options,
) -> Fallible<Batch> {
    let special = options.add_special_tokens != 0;
    let (inputs, bytes) = inputs(texts, pairs, words)?;
    let mode = Mode {
        max_length: if options.max_length == 0 { NO_LIMIT } else { options.max_length },
        stride: options.stride,
        strategy: match options.truncate_side {
            0 => TruncationStrategy::LongestFirst,
            1 => TruncationStrategy::OnlyFirst,
            _ => TruncationStrategy::OnlySecond,
        },
        direction: if options.truncate_left != 0 { TruncationDirection::Left } else { TruncationDirection::Right },
        special_as_text: options.special_tokens_as_text != 0,
    };
    let check = |tokenizer: &Tokenizer| check_limit(tokenizer, mode, special, pairs.is_some());
    let encodings = if options.keep_overflow != 0 && mode.max_length != NO_LIMIT {
        shared.encode_with_overflow(inputs, special, mode, check)
    } else {
        shared.in_mode(mode, |tokenizer| {
            check(tokenizer)?;
            if bytes < PARALLEL_BYTES {
                inputs.into_iter().map(|input| tokenizer.encode(input, special)).collect::<Result<Vec<_>, _>>()
            } else {
                tokenizer.encode_batch(inputs, special)
            }
            .map_err(failed)
        })
    }?;
    let mut rows = Vec::with_capacity(encodings.len());
    let mut origins = Vec::with_capacity(encodings.len());
    for (i, mut encoding) in encodings.into_iter().enumerate() {
        let overflow = encoding.take_overflowing();
        rows.push(encoding);
        origins.push(i);
        if options.keep_overflow != 0 {
            origins.extend(overflow.iter().map(|_| i));
            rows.extend(overflow);
        }
    }
    if options.pad_to_longest != 0 {
        let params = PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            direction: if options.pad_left != 0 { PaddingDirection::Left } else { PaddingDirection::Right },
            pad_to_multiple_of: Some(options.pad_to_multiple_of).filter(|&n| n > 0),
            pad_id: options.pad_id,
            pad_type_id: options.pad_type_id,
            pad_token: options.pad_token.text(|| "the padding token".into())?.into(),
        };
        pad_encodings(&mut rows, &params).map_err(failed)?;
    }
    Ok(Batch(rows.into_iter().zip(origins).map(|(encoding, input)| Row::new(encoding, input)).collect()))
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_load_file(path: View, tokenizer: *mut *mut SharedTokenizer, error: *mut Text) -> i32 {
    let loaded = guard(error, || {
        let path = path.text(|| "the path".into())?;
        let json = std::fs::read(path).map_err(|e| format!("cannot read {path}: {e}"))?;
        SharedTokenizer::new(Tokenizer::from_bytes(json).map_err(|e| format!("{path} is not a tokenizer: {e}"))?)
    });
    hand_over(loaded, tokenizer)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_load_bytes(json: View, tokenizer: *mut *mut SharedTokenizer, error: *mut Text) -> i32 {
    let loaded = guard(error, || {
        SharedTokenizer::new(Tokenizer::from_bytes(json.bytes()).map_err(|e| format!("not a tokenizer: {e}"))?)
    });
    hand_over(loaded, tokenizer)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_free(tokenizer: *mut SharedTokenizer) {
    take_back(tokenizer);
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_encode(
    tokenizer: *const SharedTokenizer,
    texts: *const View,
    pairs: *const View,
    count: usize,
    options: *const Options,
    batch: *mut *mut Batch,
    error: *mut Text,
) -> i32 {
    let encoded = guard(error, || {
        let pairs = if pairs.is_null() { None } else { Some(slice(pairs, count)) };
        encode(&*tokenizer, slice(texts, count), pairs, None, &*options)
    });
    hand_over(encoded, batch)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_encode_words(
    tokenizer: *const SharedTokenizer,
    words: *const View,
    counts: *const usize,
    count: usize,
    options: *const Options,
    batch: *mut *mut Batch,
    error: *mut Text,
) -> i32 {
    let encoded = guard(error, || {
        let counts = slice(counts, count);
        encode(&*tokenizer, slice(words, counts.iter().sum()), None, Some(counts), &*options)
    });
    hand_over(encoded, batch)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_batch_size(batch: *const Batch) -> usize {
    (*batch).0.len()
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_batch_row(batch: *const Batch, index: usize) -> RowView {
    use std::ptr::null;
    let rows = &(*batch).0;
    match rows.get(index) {
        Some(row) => RowView {
            length: row.encoding.len(),
            ids: row.encoding.get_ids().as_ptr(),
            type_ids: row.encoding.get_type_ids().as_ptr(),
            attention_mask: row.encoding.get_attention_mask().as_ptr(),
            special_tokens_mask: row.encoding.get_special_tokens_mask().as_ptr(),
            offsets: row.offsets.as_ptr(),
            words: row.words.as_ptr(),
            sequences: row.sequences.as_ptr(),
            input: row.input,
        },
        None => RowView {
            length: 0,
            ids: null(),
            type_ids: null(),
            attention_mask: null(),
            special_tokens_mask: null(),
            offsets: null(),
            words: null(),
            sequences: null(),
            input: 0,
        },
    }
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_batch_free(batch: *mut Batch) {
    take_back(batch);
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_decode(
    tokenizer: *const SharedTokenizer,
    ids: *const u32,
    count: usize,
    skip_special_tokens: i32,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    let decoded =
        guard(error, || (*tokenizer).read(|t| t.decode(slice(ids, count), skip_special_tokens != 0)).map_err(failed));
    hand_text(decoded, text)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_join(
    tokenizer: *const SharedTokenizer,
    pieces: *const View,
    count: usize,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    let joined = guard(error, || {
        let mut owned = Vec::with_capacity(count);
        for (i, piece) in slice(pieces, count).iter().enumerate() {
            owned.push(piece.text(|| format!("piece {i}"))?.to_string());
        }
        (*tokenizer).read(|t| match t.get_decoder() {
            Some(decoder) => decoder.decode(owned).map_err(failed),
            None => Ok(owned.join(" ")),
        })
    });
    hand_text(joined, text)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_token_to_id(tokenizer: *const SharedTokenizer, token: View) -> i64 {
    let id = guard(std::ptr::null_mut(), || {
        let token = token.text(|| "the token".into())?;
        Ok((*tokenizer).read(|t| t.token_to_id(token)))
    });
    id.flatten().map_or(-1, i64::from)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_id_to_token(tokenizer: *const SharedTokenizer, id: u32) -> Text {
    let token = guard(std::ptr::null_mut(), || Ok((*tokenizer).read(|t| t.id_to_token(id))));
    token.flatten().map_or(Text::NONE, |token| Text::new(&token))
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_vocabulary_size(tokenizer: *const SharedTokenizer) -> usize {
    guard(std::ptr::null_mut(), || Ok((*tokenizer).read(|t| t.get_vocab_size(true)))).unwrap_or(0)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_unknown_token(tokenizer: *const SharedTokenizer) -> Text {
    let token = guard(std::ptr::null_mut(), || {
        Ok((*tokenizer).read(|t| match t.get_model() {
            ModelWrapper::BPE(model) => model.unk_token.clone(),
            ModelWrapper::WordPiece(model) => Some(model.unk_token.clone()),
            ModelWrapper::WordLevel(model) => Some(model.unk_token.clone()),
            ModelWrapper::Unigram(_) => None,
        }))
    });
    token.flatten().map_or(Text::NONE, |token| Text::new(&token))
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_continuing_prefix(tokenizer: *const SharedTokenizer) -> Text {
    let prefix = guard(std::ptr::null_mut(), || {
        Ok((*tokenizer).read(|t| match t.get_model() {
            ModelWrapper::BPE(model) => model.continuing_subword_prefix.clone(),
            ModelWrapper::WordPiece(model) => Some(model.continuing_subword_prefix.clone()),
            _ => None,
        }))
    });
    prefix.flatten().filter(|p| !p.is_empty()).map_or(Text::NONE, |prefix| Text::new(&prefix))
}
