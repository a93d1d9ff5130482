//! The `tokenizers` crate behind the C ABI of `include/transmuter_text.h`, which is the contract of every function here.

use std::any::Any;
use std::ffi::c_char;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::sync::{Once, PoisonError, RwLock};

use tokenizers::utils::padding::{pad_encodings, PaddingDirection, PaddingParams, PaddingStrategy};
use tokenizers::utils::truncation::{TruncationDirection, TruncationParams};
use tokenizers::{EncodeInput, Encoding, PostProcessor, Tokenizer};

/// Batches below this many bytes are encoded in the caller's thread: starting the thread pool costs more.
const PARALLEL_BYTES: usize = 32 << 10;

/// `max_length` of "never truncate".
const NO_LIMIT: usize = usize::MAX;

type Fallible<T> = Result<T, String>;

/// The crate keeps the truncation inside the tokenizer. Calls that want the one in force share a read lock; a call that
/// wants another one sets it and encodes under the write lock.
pub struct SharedTokenizer(RwLock<Tokenizer>);

pub struct Batch(Vec<Row>);

struct Row {
    encoding: Encoding,
    offsets: Vec<Span>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const c_char,
    size: usize,
}

#[repr(C)]
pub struct Text {
    data: *mut c_char,
    size: usize,
}

#[repr(C)]
pub struct Span {
    begin: usize,
    end: usize,
}

#[repr(C)]
pub struct Options {
    add_special_tokens: u8,
    truncate_left: u8,
    pad_to_longest: u8,
    pad_left: u8,
    max_length: usize,
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
}

impl Text {
    const NONE: Text = Text { data: std::ptr::null_mut(), size: 0 };

    /// A boxed slice of the bytes and a final NUL; `tmtext_string_free` takes it back.
    fn new(text: &str) -> Text {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        Text { data: Box::into_raw(bytes.into_boxed_slice()).cast(), size: text.len() }
    }
}

impl View {
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data.cast(), self.size)
    }

    unsafe fn text<'a>(self, what: impl Fn() -> String) -> Fallible<&'a str> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| format!("{} is not valid UTF-8 at byte {}", what(), e.valid_up_to()))
    }
}

impl SharedTokenizer {
    fn new(mut tokenizer: Tokenizer) -> Fallible<SharedTokenizer> {
        tokenizer.with_padding(None);
        let never = TruncationParams { max_length: NO_LIMIT, ..Default::default() };
        tokenizer.with_truncation(Some(never)).map_err(|e| e.to_string())?;
        Ok(SharedTokenizer(RwLock::new(tokenizer)))
    }

    fn read<T>(&self, f: impl FnOnce(&Tokenizer) -> T) -> T {
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `f` on the tokenizer with this truncation in force.
    fn truncating<T>(&self, max_length: usize, direction: TruncationDirection, f: impl FnOnce(&Tokenizer) -> T) -> T {
        let wanted =
            |t: &Tokenizer| t.get_truncation().is_some_and(|p| p.max_length == max_length && p.direction == direction);
        {
            let tokenizer = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if wanted(&tokenizer) {
                return f(&tokenizer);
            }
        }
        let mut tokenizer = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(params) = tokenizer.get_truncation_mut() {
            params.max_length = max_length;
            params.direction = direction;
        }
        f(&tokenizer)
    }
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let text =
        payload.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| payload.downcast_ref::<String>().cloned());
    format!("the tokenizer failed: {}", text.unwrap_or_else(|| "unknown fault".into()))
}

/// Runs `f`; on an error or a panic fills `*error` and gives None.
unsafe fn guard<T>(error: *mut Text, f: impl FnOnce() -> Fallible<T>) -> Option<T> {
    // A library prints nothing: the default hook would write each caught panic to stderr. Only this archive's copy of
    // the standard library is affected.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| set_hook(Box::new(|_| {})));
    match catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| Err(panic_message(payload))) {
        Ok(value) => Some(value),
        Err(message) => {
            if !error.is_null() {
                *error = Text::new(&message);
            }
            None
        }
    }
}

unsafe fn hand_over<T>(value: Option<T>, out: *mut *mut T) -> i32 {
    match value {
        Some(value) => {
            *out = Box::into_raw(Box::new(value));
            1
        }
        None => 0,
    }
}

unsafe fn encode(
    shared: &SharedTokenizer,
    texts: &[View],
    pairs: Option<&[View]>,
    options: &Options,
) -> Fallible<Batch> {
    let special = options.add_special_tokens != 0;
    let mut inputs = Vec::with_capacity(texts.len());
    let mut bytes = 0;
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
    let limit = if options.max_length == 0 { NO_LIMIT } else { options.max_length };
    let direction = if options.truncate_left != 0 { TruncationDirection::Left } else { TruncationDirection::Right };
    let mut encodings = shared.truncating(limit, direction, |tokenizer| {
        let added =
            if special { tokenizer.get_post_processor().map_or(0, |p| p.added_tokens(pairs.is_some())) } else { 0 };
        if limit < added {
            return Err(format!("max_length {limit} leaves no room for the {added} special tokens"));
        }
        if bytes < PARALLEL_BYTES {
            inputs.into_iter().map(|input| tokenizer.encode(input, special)).collect::<Result<Vec<_>, _>>()
        } else {
            tokenizer.encode_batch(inputs, special)
        }
        .map_err(|e| e.to_string())
    })?;
    if options.pad_to_longest != 0 {
        let params = PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            direction: if options.pad_left != 0 { PaddingDirection::Left } else { PaddingDirection::Right },
            pad_to_multiple_of: Some(options.pad_to_multiple_of).filter(|&n| n > 0),
            pad_id: options.pad_id,
            pad_type_id: options.pad_type_id,
            pad_token: options.pad_token.text(|| "the padding token".into())?.into(),
        };
        pad_encodings(&mut encodings, &params).map_err(|e| e.to_string())?;
    }
    let row = |encoding: Encoding| {
        let offsets = encoding.get_offsets().iter().map(|&(begin, end)| Span { begin, end }).collect();
        Row { encoding, offsets }
    };
    Ok(Batch(encodings.into_iter().map(row).collect()))
}

unsafe fn views<'a>(data: *const View, count: usize) -> &'a [View] {
    if count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, count)
}

/// # Safety
/// As the header says; so for every function below.
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
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_load_bytes(json: View, tokenizer: *mut *mut SharedTokenizer, error: *mut Text) -> i32 {
    let loaded = guard(error, || {
        SharedTokenizer::new(Tokenizer::from_bytes(json.bytes()).map_err(|e| format!("not a tokenizer: {e}"))?)
    });
    hand_over(loaded, tokenizer)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_free(tokenizer: *mut SharedTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See above.
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
        let pairs = if pairs.is_null() { None } else { Some(views(pairs, count)) };
        encode(&*tokenizer, views(texts, count), pairs, &*options)
    });
    hand_over(encoded, batch)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_batch_size(batch: *const Batch) -> usize {
    (*batch).0.len()
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_batch_row(batch: *const Batch, index: usize) -> RowView {
    use std::ptr::null;
    let rows = &(*batch).0;
    match rows.get(index) {
        Some(Row { encoding, offsets }) => RowView {
            length: encoding.len(),
            ids: encoding.get_ids().as_ptr(),
            type_ids: encoding.get_type_ids().as_ptr(),
            attention_mask: encoding.get_attention_mask().as_ptr(),
            special_tokens_mask: encoding.get_special_tokens_mask().as_ptr(),
            offsets: offsets.as_ptr(),
        },
        None => RowView {
            length: 0,
            ids: null(),
            type_ids: null(),
            attention_mask: null(),
            special_tokens_mask: null(),
            offsets: null(),
        },
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_batch_free(batch: *mut Batch) {
    if !batch.is_null() {
        drop(Box::from_raw(batch));
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_decode(
    tokenizer: *const SharedTokenizer,
    ids: *const u32,
    count: usize,
    skip_special_tokens: i32,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    let decoded = guard(error, || {
        let ids = if count == 0 { &[] } else { std::slice::from_raw_parts(ids, count) };
        (*tokenizer).read(|t| t.decode(ids, skip_special_tokens != 0)).map_err(|e| e.to_string())
    });
    match decoded {
        Some(decoded) => {
            *text = Text::new(&decoded);
            1
        }
        None => 0,
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_token_to_id(tokenizer: *const SharedTokenizer, token: View) -> i64 {
    let id = guard(std::ptr::null_mut(), || {
        let token = token.text(|| "the token".into())?;
        Ok((*tokenizer).read(|t| t.token_to_id(token)))
    });
    id.flatten().map_or(-1, i64::from)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_id_to_token(tokenizer: *const SharedTokenizer, id: u32) -> Text {
    let token = guard(std::ptr::null_mut(), || Ok((*tokenizer).read(|t| t.id_to_token(id))));
    token.flatten().map_or(Text::NONE, |token| Text::new(&token))
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_vocabulary_size(tokenizer: *const SharedTokenizer) -> usize {
    guard(std::ptr::null_mut(), || Ok((*tokenizer).read(|t| t.get_vocab_size(true)))).unwrap_or(0)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn tmtext_string_free(string: Text) {
    if !string.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(string.data.cast::<u8>(), string.size + 1)));
    }
}
