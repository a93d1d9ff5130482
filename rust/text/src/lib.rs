//! Hugging Face `tokenizers` and chat templates behind the C ABI of `include/transmuter_text.h`, which is the contract of
//! every exported function here.

mod chat;
mod generation_blocks;
mod json;
mod python;
mod stream;
mod tokenizer;

use std::any::Any;
use std::ffi::c_char;
use std::fmt::Display;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::sync::Once;

type Fallible<T> = Result<T, String>;

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

unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, count)
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let text =
        payload.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| payload.downcast_ref::<String>().cloned());
    failed(text.unwrap_or_else(|| "unknown fault".into()))
}

/// What the crate says of its own: the fault of the tokenizer's file, not of a text. Callers tell it by its beginning.
fn failed(fault: impl Display) -> String {
    format!("the tokenizer failed: {fault}")
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

unsafe fn hand_text(value: Option<String>, out: *mut Text) -> i32 {
    match value {
        Some(value) => {
            *out = Text::new(&value);
            1
        }
        None => 0,
    }
}

unsafe fn take_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        drop(Box::from_raw(pointer));
    }
}

/// # Safety
/// As the header says; so for every exported function of this crate.
#[no_mangle]
pub unsafe extern "C" fn tmtext_string_free(string: Text) {
    if !string.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(string.data.cast::<u8>(), string.size + 1)));
    }
}
