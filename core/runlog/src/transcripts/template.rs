//! A JSON text with parts lifted out of it, a `null` in the place of each, and the way back.
//!
//! Invariant: filling a template with the parts that were lifted gives the text back byte for byte, and a
//! template is itself JSON.

use std::ops::Range;

use runlog_model::json::slices::span;

const HOLE: &str = "null";

/// `text` with a `null` in the place of each of its `parts`, which are slices of it in order.
pub(super) fn lift(text: &str, parts: &[&str]) -> String {
    let mut template = String::with_capacity(text.len().min(4096) + parts.len() * HOLE.len());
    let mut end = 0;
    for part in parts {
        let place = span(text, part);
        template.push_str(&text[end..place.start]);
        template.push_str(HOLE);
        end = place.end;
    }
    template.push_str(&text[end..]);
    template
}

/// `template` with `parts` put in the place of `holes`, which are ranges of it in order.
///
/// If there are fewer parts than holes, the last holes are removed, with their separators. If there are more, the
/// others follow the last one, with the same separator. If there is no hole at all, the template is returned unchanged.
pub(super) fn fill(template: &str, holes: &[Range<usize>], parts: &[&[u8]]) -> Vec<u8> {
    let (Some(first), Some(last)) = (holes.first(), holes.last()) else {
        return template.as_bytes().to_vec();
    };
    let separator = match holes {
        [a, b, ..] => &template[a.end..b.start],
        _ => ", ",
    };
    let mut text =
        Vec::with_capacity(template.len() + parts.iter().map(|part| part.len()).sum::<usize>());
    text.extend_from_slice(&template.as_bytes()[..first.start]);
    let mut end = first.start;
    for (index, part) in parts.iter().enumerate() {
        match holes.get(index) {
            Some(hole) => {
                text.extend_from_slice(&template.as_bytes()[end..hole.start]);
                end = hole.end;
            }
            None => text.extend_from_slice(separator.as_bytes()),
        }
        text.extend_from_slice(part);
    }
    text.extend_from_slice(&template.as_bytes()[last.end..]);
    text
}
