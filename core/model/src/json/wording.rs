//! What serde says is wrong with a value, in words of callers.

use serde_json::Value;

use super::own_id;

/// A value is quoted up to this length.
const QUOTED_MAX: usize = 60;
/// How serde's errors of a field that isn't there begin.
pub(super) const MISSING: &str = "missing field ";
/// How it is said that a value is none of an enum's texts, before those that are known.
pub(super) const NOT_ONE_TEXT: &str = "not one text, ";

/// Why a value is refused, in words of callers: serde says it in those of Rust. `given` is the value at the path, where that is known.
pub(super) fn explain(path: &str, given: Option<&Value>, said: &str) -> String {
    let at = |what: String| {
        if path.is_empty() {
            what
        } else {
            format!("`{path}`: {what}")
        }
    };
    if let Some(name) = said.strip_suffix(own_id::EMPTY) {
        // The path ends at the object where serde reads that as a whole.
        return match path.ends_with(name.trim_matches('`')) {
            true => format!("`{path}`{}", own_id::EMPTY),
            false => said.to_owned(),
        };
    }
    if let Some(rest) = said.strip_prefix(MISSING) {
        return at(format!("{rest} is missing"));
    }
    if let Some(field) = said.strip_prefix("duplicate field ") {
        let inside = path.rsplit('.').next().unwrap_or_default();
        // The path ends with the field where its value was read, and with its object where it wasn't.
        let what = match field.trim_matches('`') == inside {
            true => "is given twice; give it once".to_owned(),
            false => format!("{field} is given twice; give it once"),
        };
        return at(what);
    }
    if let Some((field, known)) = said
        .strip_prefix("unknown field ")
        .and_then(|rest| rest.split_once(", "))
    {
        let known = known
            .trim_start_matches("expected one of ")
            .trim_start_matches("expected ");
        let inside = path
            .strip_suffix(field.trim_matches('`'))
            .unwrap_or(path)
            .trim_end_matches('.');
        let place = if inside.is_empty() {
            String::new()
        } else {
            format!("`{inside}`: ")
        };
        return format!("{place}{field} is not a field that is known here; known are {known}");
    }
    let Some(given) = given else {
        return at(said.to_owned());
    };
    if said.ends_with("expected newtype variant") {
        return needs_value(path, given);
    }
    let number = given.as_u64();
    let is_whole = path.is_empty() && (given.is_object() || given.is_array());
    let given = quoted(given);
    if said.contains("UUID parsing failed") || said.contains("expected a formatted UUID") {
        return at(format!("{given} is not an id (a UUID)"));
    }
    if let Some((_, known)) = said
        .strip_prefix("unknown variant ")
        .and_then(|rest| rest.split_once(", "))
    {
        return at(format!("{given} is not known here; {known}"));
    }
    let expected = said
        .rsplit_once(", expected ")
        .filter(|_| said.starts_with("invalid "));
    if let Some((_, expected)) = expected {
        if let Some(most) = largest(expected)
            && number.is_some_and(|number| number > most)
        {
            return at(format!("{given} is too large: at most {most}"));
        }
        return at(format!("{given} is not {}", in_words(expected)));
    }
    if let Some(known) = said.strip_prefix(NOT_ONE_TEXT) {
        return at(format!("{given} is not one text; {known}"));
    }
    if said.starts_with("expected value") {
        return at(format!("{given} is not of the kind that is expected here"));
    }
    // The caller knows what was given as a whole.
    if is_whole {
        return said.to_owned();
    }
    at(format!("{given}: {said}"))
}

/// Of a name that stands for nothing without a value, as a failure does without its error. Where it is in an object isn't said by serde.
fn needs_value(path: &str, given: &Value) -> String {
    let fields = given.as_object().into_iter().flatten();
    let mut names = fields.filter(|(_, value)| value.is_string());
    let (place, name) = match (names.next(), names.next()) {
        (Some((field, name)), None) if path.is_empty() => (field.clone(), quoted(name)),
        (Some((field, name)), None) => (format!("{path}.{field}"), quoted(name)),
        (None, _) if given.is_string() => (path.to_owned(), quoted(given)),
        _ => (path.to_owned(), "a name in it".to_owned()),
    };
    let what = format!("{name} needs a value: give it as an object, {{{name}: …}}");
    if place.is_empty() {
        what
    } else {
        format!("`{place}`: {what}")
    }
}

/// The largest value of a whole number's type. A `usize` has 32 bits in WebAssembly.
fn largest(expected: &str) -> Option<u64> {
    Some(match expected {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "usize" => usize::MAX as u64,
        "i32" => i32::MAX.unsigned_abs().into(),
        "i64" => i64::MAX.unsigned_abs(),
        _ => return None,
    })
}

/// A type's name in Rust or serde, in words for callers.
fn in_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        "a string" | "a borrowed string" => "a text".to_owned(),
        named if named.starts_with("struct ") || named.starts_with("internally tagged") => {
            "an object".to_owned()
        }
        other => other.to_owned(),
    }
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(QUOTED_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
