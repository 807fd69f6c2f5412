//! Writing sessions in the formats of other tools.
//!
//! Invariant: a message is written byte for byte. The JSON around it is the source's own if it is known, and otherwise
//! the minimum that the format needs.

use runlog_model::{
    RawJson,
    json::slices::{fields, for_each_element, span},
};

use super::{chat::messages_of, template};

/// A run whose messages are in one value: OpenAI-style, or SWE-agent's. Without its own
/// [wrapper](super::Session::wrapper) it is `{"messages": […]}`.
///
/// ```
/// use runlog::transcripts::{Options, parse, render};
///
/// let source = br#"{"task": 7, "messages": [{"role": "user", "content": "hi"}], "reward": 1.0}"#;
/// let transcript = parse(source, Options::default())?;
/// let messages: Vec<_> = transcript.entries.iter().map(|entry| entry.raw.clone()).collect();
/// assert_eq!(render::run(transcript.sessions[0].wrapper.as_ref(), &messages), source);
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn run(wrapper: Option<&RawJson>, messages: &[RawJson]) -> Vec<u8> {
    let parts: Vec<&[u8]> = messages.iter().map(RawJson::as_bytes).collect();
    let wrapper = wrapper.map(RawJson::as_str);
    if let Some((wrapper, array)) =
        wrapper.and_then(|wrapper| Some((wrapper, messages_of(wrapper)?)))
    {
        let mut holes = Vec::new();
        if for_each_element(array, |hole| holes.push(span(wrapper, hole))).is_ok()
            && !holes.is_empty()
        {
            return template::fill(wrapper, &holes, &parts);
        }
        let place = span(wrapper, array);
        return [
            &wrapper.as_bytes()[..place.start],
            &list(&parts),
            &wrapper.as_bytes()[place.end..],
        ]
        .concat();
    }
    let Some(object) = wrapper.filter(|it| it.starts_with('{')) else {
        return [b"{\"messages\": ", &list(&parts)[..], b"}"].concat();
    };
    // A trajectory that has no messages of its own, as `.traj` files may be.
    if parts.is_empty() {
        return object.as_bytes().to_vec();
    }
    let name = match fields(object, ["trajectory"]) {
        Ok([Some(_)]) => "history",
        _ => "messages",
    };
    let rest = &object[1..];
    let comma = if rest.trim_start().starts_with('}') {
        ""
    } else {
        ", "
    };
    [
        format!("{{\"{name}\": ").as_bytes(),
        &list(&parts),
        comma.as_bytes(),
        rest.as_bytes(),
    ]
    .concat()
}

/// A line that holds one message, in its own [envelope](super::Entry::envelope), without line breaks at its end or
/// in it.
///
/// ```
/// use runlog::transcripts::{Options, parse, render};
///
/// let source = br#"{"type":"user", "sessionId":"s", "message":{"role":"user","content":"hi"}}"#;
/// let entry = &parse(source, Options::default())?.entries[0];
/// assert_eq!(render::line(entry.envelope.as_ref(), &entry.raw), source);
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn line(envelope: Option<&RawJson>, message: &RawJson) -> Vec<u8> {
    let text = envelope.map(RawJson::as_str);
    let hole = text.and_then(|text| match fields(text, ["message"]) {
        Ok([Some(hole)]) => Some((text, span(text, hole))),
        _ => None,
    });
    match hole {
        Some((text, hole)) => one_line(template::fill(text, &[hole], &[message.as_bytes()])),
        None => one_line(message.as_bytes().to_vec()),
    }
}

/// JSON in one line: its line breaks, which are white space, become spaces.
pub fn one_line(mut json: Vec<u8>) -> Vec<u8> {
    for byte in &mut json {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    json
}

fn list(parts: &[&[u8]]) -> Vec<u8> {
    let mut list = b"[".to_vec();
    list.extend_from_slice(&parts.join(&b", "[..]));
    list.push(b']');
    list
}
