//! Chat templates.

use std::cell::Cell;
use std::ffi::CString;
use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

use crate::generation_blocks::make_transparent;
use crate::{guard, hand_over, python, take_back, Fallible, Text, View};

/// A budget of work that ordinary templates use a thousandth of; it also bounds what a template can allocate, to 64
/// bytes for each.
const FUEL: u64 = 10_000_000;
const RECURSION: usize = 200;

const NAME: &str = "chat template";

pub struct ChatTemplate(Environment<'static>);

/// What raise_exception was called with.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

thread_local! {
    /// Seconds since 1970, for the rendering that this thread is in.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The C library's strftime, as Python's is.
fn strftime_now(format: &str) -> Result<String, Error> {
    let wrong = |what: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {what}"));
    if format.is_empty() {
        return Ok(String::new());
    }
    // The blank tells an empty result from a buffer that is too small.
    let pattern = CString::new(format!("{format} ")).map_err(|_| wrong("the format holds a NUL"))?;
    let now = NOW.get();
    // SAFETY: the broken-down time and the buffer are ours and as large as said.
    unsafe {
        let mut time: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut time).is_null() {
            return Err(wrong("the time is out of range"));
        }
        let mut buffer = vec![0u8; 4096];
        let size = libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), pattern.as_ptr(), &time);
        if size == 0 {
            return Err(wrong("the result is too long"));
        }
        Ok(String::from_utf8_lossy(&buffer[..size - 1]).into_owned())
    }
}

/// The message that a template gave to raise_exception, however deep in macros.
fn raised(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Raised(message)) = error.downcast_ref::<Raised>() {
            return Some(message.clone());
        }
        cause = error.source();
    }
    None
}

/// One line: what, and in which line of the template.
fn describe(error: &Error) -> String {
    let place = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    if error.kind() == ErrorKind::OutOfFuel {
        return format!("does more work than a chat template may{place}");
    }
    let detail = error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{}{detail}{place}", error.kind())
}

fn compile(source: &str) -> Fallible<ChatTemplate> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| describe(&e))?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_unknown_method_callback(python::method);
    environment.add_filter("tojson", |state: &State, value: &Value, args: Rest<ValueOrKwargs>| {
        python::tojson(state, value, &args.into_values())
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(NAME, make_transparent(source)).map_err(|e| describe(&e))?;
    Ok(ChatTemplate(environment))
}

enum Rendered {
    Text(String),
    Raised(String),
}

fn render(template: &ChatTemplate, variables: &str, now: i64) -> Fallible<Rendered> {
    let variables: Value =
        serde_json::from_str(variables).map_err(|e| format!("the variables are not valid JSON: {e}"))?;
    NOW.set(now);
    let template = template.0.get_template(NAME).map_err(|e| describe(&e))?;
    match template.render(variables) {
        Ok(text) => Ok(Rendered::Text(text)),
        Err(error) => match raised(&error) {
            Some(message) => Ok(Rendered::Raised(message)),
            None => Err(describe(&error)),
        },
    }
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_chat_new(source: View, template: *mut *mut ChatTemplate, error: *mut Text) -> i32 {
    hand_over(guard(error, || compile(source.text(|| "the template".into())?)), template)
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_chat_render(
    template: *const ChatTemplate,
    variables: View,
    now: i64,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    match guard(error, || render(&*template, variables.text(|| "the text of the variables".into())?, now)) {
        Some(Rendered::Text(rendered)) => {
            *text = Text::new(&rendered);
            1
        }
        Some(Rendered::Raised(message)) => {
            if !error.is_null() {
                *error = Text::new(&message);
            }
            -1
        }
        None => 0,
    }
}

/// # Safety
/// See lib.rs.
#[no_mangle]
pub unsafe extern "C" fn tmtext_chat_free(template: *mut ChatTemplate) {
    take_back(template);
}
