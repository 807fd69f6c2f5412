//! [`TextQuery`]: searches payloads for a text, without parsing them as JSON.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2, memmem};

use crate::{Error, Result};

/// The longest text that can be searched for.
const QUERY_BYTES_MAX: usize = 64 << 10;

/// So many times the bytes of a payload, and so many bytes, are compared at most before it is put in lower case as a whole.
const COMPARED_TIMES: usize = 4;
const COMPARED_BYTES: usize = 64 << 10;

/// A text to look for in payloads, in any case, also where JSON has it with backslashes: as it stands in a string, and in a
/// string of JSON that is itself in a string, as the arguments of tool calls are; with letters as they are, or as `\u00e9`.
///
/// ```
/// use runlog_model::TextQuery;
///
/// let query = TextQuery::new("say \"Hi\"")?;
/// assert!(query.is_in(br#"{"content":"They SAY \"hi\"."}"#));
/// assert!(query.is_in(br#"{"arguments":"{\"text\":\"say \\\"hi\\\"\"}"}"#));
/// assert!(!query.is_in(br#"{"content":"They say hi."}"#));
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextQuery {
    forms: Vec<Form>,
}

impl TextQuery {
    /// A query for this text.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for no text, or one of more than 64 KiB.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > QUERY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a text to look for has 1 to {QUERY_BYTES_MAX} bytes, this one has {}",
                text.len()
            )));
        }
        let once = escaped(&without_case(text))?;
        let twice = escaped(&once)?;
        let is_ascii = text.is_ascii();
        let mut forms = vec![Form::new(once, is_ascii)];
        if twice.as_bytes() != forms[0].text.as_bytes() {
            forms.push(Form::new(twice, is_ascii));
        }
        Ok(Self { forms })
    }

    /// Whether a payload contains it.
    pub fn is_in(&self, payload: &[u8]) -> bool {
        self.is_as_it_is_in(payload)
            || without_needless_escapes(payload).is_some_and(|plain| self.is_as_it_is_in(&plain))
    }

    fn is_as_it_is_in(&self, payload: &[u8]) -> bool {
        let mut lower = None;
        self.forms
            .iter()
            .any(|form| form.is_in(payload, &mut lower))
    }
}

/// A text in which case makes no difference, as it is searched for: in lower case, with one small sigma for its two.
///
/// ```
/// assert_eq!(runlog_model::without_case("ΟΔΟΣ 7 Ä"), "οδοσ 7 ä");
/// ```
pub fn without_case(text: &str) -> String {
    let lower = text.to_lowercase();
    if lower.contains('ς') {
        return lower.replace('ς', "σ");
    }
    lower
}

/// A payload as most writers write it: `é` for `\u00e9`, `/` for `\/`, `\"` for `\u0022`, also where the backslash is escaped itself.
/// `None` where it is so already.
///
/// ASCII is what Python's `json.dumps` writes by default, `\u0022` what .NET's `System.Text.Json` does.
fn without_needless_escapes(payload: &[u8]) -> Option<Vec<u8>> {
    let is_escape = |at: usize| matches!(payload.get(at + 1), Some(b'u' | b'/'));
    let first = memchr_iter(b'\\', payload).find(|at| is_escape(*at))?;
    let mut plain = payload.get(..first)?.to_vec();
    let mut at = first;
    while let Some(rest) = payload.get(at..).filter(|rest| !rest.is_empty()) {
        let (char, end) = match rest {
            [b'\\', b'/', ..] => (Some('/'), 2),
            [b'\\', b'u', ..] => unescaped(rest),
            _ => (
                None,
                1 + memchr(b'\\', rest.get(1..).unwrap_or_default()).unwrap_or(rest.len() - 1),
            ),
        };
        match char {
            Some(char) => {
                let mut written = escaped(char.encode_utf8(&mut [0; 4])).ok()?;
                // One that is escaped itself, in a string in a string.
                if plain.last() == Some(&b'\\') {
                    plain.pop();
                    written = escaped(&written).ok()?;
                }
                plain.extend_from_slice(written.as_bytes());
            }
            None => plain.extend_from_slice(rest.get(..end)?),
        }
        at += end;
    }
    Some(plain)
}

/// The character of `\uXXXX`, or of two of them, and how many bytes they are.
fn unescaped(text: &[u8]) -> (Option<char>, usize) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (None, 2);
    };
    // The second of a pair may have an escaped backslash as the first one has.
    let (second, end) = match (unit(6), text.get(6)) {
        (None, Some(b'\\')) => (unit(7), 13),
        (second, _) => (second, 12),
    };
    let mut chars = char::decode_utf16([first].into_iter().chain(second));
    match chars.next() {
        Some(Ok(char)) => (Some(char), if char.len_utf16() == 2 { end } else { 6 }),
        _ => (None, 6),
    }
}

/// A text as it stands in a string of JSON, without the quotes.
fn escaped(text: &str) -> Result<String> {
    let json = serde_json::to_string(text)
        .map_err(|error| Error::invalid(format!("the text to look for: {error}")))?;
    Ok(json
        .strip_prefix('"')
        .and_then(|json| json.strip_suffix('"'))
        .unwrap_or_default()
        .to_owned())
}

/// One way in which the text may be written, in lower case.
#[derive(Clone, Debug)]
struct Form {
    text: String,
    /// The offset and value of its rarest byte, which is searched for first; `None` for a text with letters outside of
    /// ASCII.
    anchor: Option<(usize, u8)>,
}

impl Form {
    /// `is_ascii` says what the text was before it was put in lower case: the Kelvin sign becomes a `k`.
    fn new(text: String, is_ascii: bool) -> Self {
        let rarest = text
            .bytes()
            .enumerate()
            .min_by_key(|(_, byte)| commonness(*byte));
        let anchor = rarest.filter(|_| is_ascii && text.is_ascii());
        Self { text, anchor }
    }

    fn is_in<'a>(&self, payload: &'a [u8], lower: &mut Option<Cow<'a, [u8]>>) -> bool {
        let Some((place, byte)) = self.anchor else {
            // A payload in ASCII contains none of its letters.
            if payload.is_ascii() {
                return false;
            }
            let lower = lower.get_or_insert_with(|| {
                Cow::Owned(without_case(&String::from_utf8_lossy(payload)).into_bytes())
            });
            return memmem::find(lower, self.text.as_bytes()).is_some();
        };
        let text = self.text.as_bytes();
        let upper = byte.to_ascii_uppercase();
        let mut from = place;
        // Where the same bytes follow each other again and again, comparing at each place takes their square.
        let mut compared = 0;
        while let Some(rest) = payload.get(from..) {
            let found = if upper == byte {
                memchr(byte, rest)
            } else {
                memchr2(byte, upper, rest)
            };
            let Some(found) = found else { return false };
            let start = from + found - place;
            match payload.get(start..start + text.len()) {
                None => return false,
                Some(there) if there.eq_ignore_ascii_case(text) => return true,
                Some(_) => from += found + 1,
            }
            compared += text.len();
            if compared > COMPARED_TIMES * payload.len() + COMPARED_BYTES {
                let rest = payload.get(from - place..).unwrap_or_default();
                return memmem::find(&rest.to_ascii_lowercase(), text).is_some();
            }
        }
        false
    }
}

/// How often a byte is met in transcripts, roughly: the rarer it is, the fewer places are compared.
fn commonness(byte: u8) -> u8 {
    const BY_COMMONNESS: &[u8] = b" etaoinsr\"lhdcu,mp:fg0.y1_wbv2k{}[]-/3548679\\xjqz";
    BY_COMMONNESS
        .iter()
        .position(|common| *common == byte.to_ascii_lowercase())
        .and_then(|place| u8::try_from(place).ok())
        .map_or(0, |place| u8::MAX - place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finds(query: &str, payload: &str) -> bool {
        TextQuery::new(query).unwrap().is_in(payload.as_bytes())
    }

    #[test]
    fn case_does_not_matter_in_any_alphabet() {
        for (query, payload) in [
            ("needle", "a NEEDLE here"),
            ("NeEdle", "needle"),
            ("ÄRGER", "kein ärger"),
            ("ärger", "KEIN ÄRGER"),
            ("7", "7"),
            // Its small letter is a plain `k`.
            ("300 \u{212a}", "at 300 \u{212a}"),
            ("300 \u{212a}", r#"{"x":"300 \u212a"}"#),
            ("ΟΔΟΣ", "ΟΔΟΣΕ"),
            ("ΟΔΟΣ", "ΟΔΟΣ.ΑΒ"),
            ("Σ", "ΟΔΟΣ"),
            ("οδοσ", "ΟΔΟΣ"),
            ("οδος", "ΟΔΟΣΕ"),
        ] {
            assert!(finds(query, payload), "{query} in {payload}");
        }
        for (query, payload) in [
            ("needle", "needl"),
            ("needle", "eedle"),
            ("ä", "a"),
            ("x", ""),
        ] {
            assert!(!finds(query, payload), "{query} in {payload}");
        }
    }

    #[test]
    fn what_json_escapes_is_found_once_and_twice() {
        assert!(finds("a\nb", r#"{"x":"A\nB"}"#));
        assert!(finds("a\nb", r#"{"x":"{\"y\":\"a\\nb\"}"}"#));
        assert!(finds("c:\\dir", r#"{"x":"C:\\dir"}"#));
        assert!(!finds("a\nb", "a\nb"), "JSON has no line break in a string");
    }

    #[test]
    fn what_is_escaped_needlessly_is_found() {
        for (query, payload) in [
            ("café", r#"{"x":"caf\u00e9 escaped"}"#),
            ("CAFÉ", r#"{"x":"{\"y\":\"caf\\u00e9\"}"}"#),
            ("😁", r#"{"x":"\ud83d\ude01"}"#),
            ("😁", r#"{"x":"{\"y\":\"\\ud83d\\ude01\"}"}"#),
            ("a/b", r#"{"x":"A\/b"}"#),
            ("a/b", r#"{"x":"{\"y\":\"a\\/b\"}"}"#),
            ("<b>", r#"{"x":"\u003cb\u003E"}"#),
            ("say \"hi\"", r#"{"x":"say \u0022hi\u0022"}"#),
            ("say \"hi\"", r#"{"x":"{\"y\":\"say \\u0022hi\\u0022\"}"}"#),
            ("a\nb", r#"{"x":"a\u000ab"}"#),
            ("a\nb", r#"{"x":"{\"y\":\"a\\u000Ab\"}"}"#),
            ("a\\b", r#"{"x":"a\u005cb"}"#),
            ("a\u{8}b", r#"{"x":"a\u0008b"}"#),
            ("a\u{1}b", r#"{"x":"a\u0001b"}"#),
        ] {
            assert!(finds(query, payload), "{query} in {payload}");
        }
        for (query, payload) in [
            ("é", r#"{"x":"\u00e"}"#),
            ("é", r#"{"x":"\ud800\u00e8"}"#),
            ("é", "\\u"),
            ("\u{0}", r#"{"x":"\u00zz"}"#),
        ] {
            assert!(!finds(query, payload), "{query} in {payload}");
        }
        assert!(finds("a\u{1}b", r#"{"x":"a\u0001b\u00e9"}"#));
    }

    #[test]
    fn a_text_that_is_nearly_there_at_every_place_is_looked_for_in_one_pass() {
        let (query, nearly) = ("a".repeat(20_000), "a".repeat(19_999) + "b");
        let payload = nearly.repeat(200);
        assert!(!finds(&query, &payload));
        assert!(finds(&query, &format!("{payload}A{query}")));
        assert!(!finds(&format!("{query}b"), &"a".repeat(2_000_000)));
    }

    #[test]
    fn no_text_and_too_long_a_text_are_refused() {
        assert!(TextQuery::new("").is_err());
        assert!(TextQuery::new(&"x".repeat(QUERY_BYTES_MAX + 1)).is_err());
        assert!(finds(
            &"x".repeat(QUERY_BYTES_MAX),
            &"X".repeat(QUERY_BYTES_MAX)
        ));
    }

    #[test]
    fn bytes_that_are_no_text_are_passed() {
        let query = TextQuery::new("ö").unwrap();
        assert!(!query.is_in(b"\xff\xfe\xc3"));
        assert!(query.is_in(b"\xff\xc3\x96\xff"));
    }

    proptest! {
        #[test]
        fn it_finds_what_a_plain_comparison_finds(query in "[aAeEkz \"\\\\7é]{1,4}", payload in "[aAeEkKz \"\\\\7éÉ]{0,30}") {
            let json = serde_json::to_string(&payload).unwrap();
            let lower = json.to_lowercase();
            let once = escaped(&query.to_lowercase()).unwrap();
            let twice = escaped(&once).unwrap();
            let plainly = lower.contains(&once) || lower.contains(&twice);
            prop_assert_eq!(finds(&query, &json), plainly);
        }

        #[test]
        fn hostile_escapes_never_panic(payload in "[\\\\u0-9a-fdD/x\"é]{0,60}", query in "[é/a😁]{1,2}") {
            let found = finds(&query, &payload);
            prop_assert!(found || !payload.contains(&query));
        }
    }
}
