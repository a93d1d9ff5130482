//! `{% generation %}` … `{% endgeneration %}` mark the assistant's part of a text for training. For rendering they are
//! nothing, and the engine doesn't know them: they become `{% if true %}` … `{% endif %}`.

/// Where the tag or expression that starts at `start` ends (behind `close`); quoted text may hold `close`.
fn end_of(source: &str, start: usize, close: &str) -> usize {
    let bytes = source.as_bytes();
    let mut quote = None;
    let mut i = start + 2;
    while i < bytes.len() {
        match (quote, bytes[i]) {
            (Some(_), b'\\') => i += 1,
            (Some(q), b) if b == q => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(bytes[i]),
            (None, _) if bytes[i..].starts_with(close.as_bytes()) => return i + close.len(),
            (None, _) => {}
        }
        i += 1;
    }
    bytes.len()
}

/// The place of the tag's one word, if that is all it holds.
fn word(source: &str, begin: usize, end: usize) -> Option<(usize, usize)> {
    let inner = source.get(begin + 2..end.checked_sub(2)?)?;
    let trimmed = inner.trim_start_matches(['-', '+']).trim_start();
    let start = begin + 2 + inner.len() - trimmed.len();
    let trimmed = trimmed.trim_end_matches(['-', '+']).trim_end();
    trimmed.chars().all(char::is_alphabetic).then_some((start, start + trimmed.len()))
}

pub fn make_transparent(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut copied = 0;
    let mut i = 0;
    let mut raw = false;
    while let Some(at) = source[i..].find('{').map(|offset| i + offset) {
        let rest = &source[at..];
        if rest.starts_with("{%") {
            let end = end_of(source, at, "%}");
            if let Some((from, to)) = word(source, at, end) {
                let replacement = match &source[from..to] {
                    "raw" => {
                        raw = true;
                        None
                    }
                    "endraw" => {
                        raw = false;
                        None
                    }
                    "generation" if !raw => Some("if true"),
                    "endgeneration" if !raw => Some("endif"),
                    _ => None,
                };
                if let Some(replacement) = replacement {
                    out.push_str(&source[copied..from]);
                    out.push_str(replacement);
                    copied = to;
                }
            }
            i = if raw { at + 2 } else { end };
        } else if rest.starts_with("{#") && !raw {
            i = rest.find("#}").map_or(source.len(), |offset| at + offset + 2);
        } else if rest.starts_with("{{") && !raw {
            i = end_of(source, at, "}}");
        } else {
            i = at + 1;
        }
    }
    out.push_str(&source[copied..]);
    out
}
