//! Values as Python's `json.dumps` writes them.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

pub struct Style {
    /// None: all in one line; else what each level is indented by.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub ascii: bool,
    pub sort_keys: bool,
}

/// A float as Python's `repr` gives it.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let mut plain = x.to_string();
        if !plain.contains('.') {
            plain.push_str(".0");
        }
        return plain;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn string(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && c as u32 > 0x7e) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Writer<'a> {
    style: &'a Style,
    out: String,
}

impl Writer<'_> {
    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()?.checked() {
            let item = item?;
            if !empty {
                self.out.push_str(&self.style.item_separator);
            }
            empty = false;
            self.line(depth + 1);
            self.value(&item, depth + 1)?;
        }
        if !empty {
            self.line(depth);
        }
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut pairs = Vec::new();
        for key in value.try_iter()?.checked() {
            let key = key?;
            let item = value.get_item(&key)?;
            let name = match key.kind() {
                ValueKind::None => "null".to_string(),
                ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_string(),
                _ => key.to_string(),
            };
            pairs.push((name, item));
        }
        if self.style.sort_keys {
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.out.push('{');
        for (i, (name, item)) in pairs.iter().enumerate() {
            if i > 0 {
                self.out.push_str(&self.style.item_separator);
            }
            self.line(depth + 1);
            string(name, self.style.ascii, &mut self.out);
            self.out.push_str(&self.style.key_separator);
            self.value(item, depth + 1)?;
        }
        if !pairs.is_empty() {
            self.line(depth);
        }
        self.out.push('}');
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > 200 {
            return Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply for JSON"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => self.out.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => string(value.as_str().unwrap_or_default(), self.style.ascii, &mut self.out),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            other => {
                return Err(Error::new(ErrorKind::InvalidOperation, format!("{other} cannot be written as JSON")));
            }
        }
        Ok(())
    }
}

pub fn dumps(value: &Value, style: &Style) -> Result<String, Error> {
    let mut writer = Writer { style, out: String::new() };
    writer.value(value, 0)?;
    Ok(writer.out)
}
