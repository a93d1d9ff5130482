//! What templates use of Python beyond what `minijinja-contrib` knows.

use minijinja::value::{from_args, Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use crate::json::{dumps, Style};

/// `value | tojson(ensure_ascii, indent, separators, sort_keys)`: json.dumps, without escaping for HTML.
pub fn tojson(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let (positional, named): (&[Value], Kwargs) = from_args(args)?;
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let given: Option<Value> = named.get(name)?;
        Ok(positional.get(index).cloned().or(given).filter(|v| !v.is_none() && !v.is_undefined()))
    };
    let ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = match argument(1, "indent")? {
        None => None,
        Some(text) if text.kind() == ValueKind::String => text.as_str().map(str::to_string),
        Some(number) => Some(" ".repeat(usize::try_from(number)?.min(64))),
    };
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    named.assert_all_used()?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
    };
    let text = dumps(value, &Style { indent, item_separator, key_separator, ascii, sort_keys })?;
    state.consume_fuel((text.len() / 64) as u64)?;
    Ok(Value::from(text))
}

fn not_found(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what} not found"))
}

fn rsplit(text: &str, separator: Option<&str>, limit: Option<i64>) -> Value {
    let limit = limit.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut rest = match separator {
        Some(_) => text,
        None => text.trim_end(),
    };
    while parts.len() < limit {
        let cut = match separator {
            Some(separator) => rest.rfind(separator).map(|at| (at, at + separator.len())),
            None => {
                let blank = |c: char| c.is_whitespace();
                rest.rfind(blank).map(|at| (at, at + rest[at..].chars().next().map_or(1, char::len_utf8)))
            }
        };
        let Some((left, right)) = cut else { break };
        parts.push(Value::from(&rest[right..]));
        rest = if separator.is_some() { &rest[..left] } else { rest[..left].trim_end() };
    }
    if separator.is_some() || !rest.is_empty() {
        parts.push(Value::from(rest));
    }
    parts.reverse();
    Value::from(parts)
}

fn padded(state: &State, text: &str, width: usize, fill: &str, left: bool, right: bool) -> Result<String, Error> {
    let missing = width.saturating_sub(text.chars().count());
    state.consume_fuel((missing.saturating_mul(fill.len()) / 64) as u64)?;
    let before = match (left, right) {
        (true, true) => missing / 2 + (missing & width & 1),
        (true, false) => missing,
        _ => 0,
    };
    Ok(format!("{}{text}{}", fill.repeat(before), fill.repeat(missing - before)))
}

fn swap_case(c: char) -> String {
    if c.is_uppercase() {
        c.to_lowercase().collect()
    } else {
        c.to_uppercase().collect()
    }
}

/// None: not a method that is known here.
fn string_method(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let parts = |a: &str, b: &str, c: &str| Value::from(Tuple::from([Value::from(a), Value::from(b), Value::from(c)]));
    Ok(Some(match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            text.split_once(separator).map_or_else(|| parts(text, "", ""), |(a, b)| parts(a, separator, b))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            text.rsplit_once(separator).map_or_else(|| parts("", "", text), |(a, b)| parts(a, separator, b))
        }
        "split" | "rsplit" => {
            let (separator, limit, named): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
            let separator = separator.map_or_else(|| named.get("sep"), |s| Ok(Some(s)))?;
            let limit = limit.map_or_else(|| named.get("maxsplit"), |n| Ok(Some(n)))?;
            named.assert_all_used()?;
            if separator == Some("") {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            if method == "rsplit" {
                return Ok(Some(rsplit(text, separator, limit)));
            }
            minijinja::filters::split(&Value::from(text), separator.map(Into::into), limit)?
        }
        "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let at = if method == "index" { text.find(what) } else { text.rfind(what) };
            Value::from(text[..at.ok_or_else(|| not_found("substring"))?].chars().count())
        }
        "casefold" => Value::from(text.to_lowercase()),
        "swapcase" => Value::from(text.chars().map(swap_case).collect::<String>()),
        "ljust" | "rjust" | "center" | "zfill" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            let fill = if method == "zfill" { "0" } else { fill.unwrap_or(" ") };
            Value::from(padded(state, text, width, fill, method != "ljust", method == "ljust" || method == "center")?)
        }
        _ => return Ok(None),
    }))
}

/// Methods that change their object (append, update, …) are refused like any unknown one: templates run in a sandbox.
pub fn method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => {
            if let Some(result) = string_method(state, value.as_str().unwrap_or_default(), method, args)? {
                return Ok(result);
            }
        }
        ValueKind::Seq if method == "index" => {
            let (what,): (&Value,) = from_args(args)?;
            for (i, item) in value.try_iter()?.checked().enumerate() {
                if item? == *what {
                    return Ok(Value::from(i));
                }
            }
            return Err(not_found("item"));
        }
        _ => {}
    }
    pycompat::unknown_method_callback(state, value, method, args)
}
