//! Server-sent events: one frame each, and the answer that they come in.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse, Response},
};
use futures_util::Stream;
use serde::Serialize;
use std::{convert::Infallible, time::Duration};

use super::problem::{Answer, Problem};

/// How often a stream on which nothing happens says that it is still there.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The headers that a stream looks at.
pub(super) const HEADERS: &[(&str, &str)] = &[(
    "Last-Event-ID",
    "The `id` of the last event that the client has; browsers send it by themselves.",
)];

/// What a stream begins with: how long a client that lost it waits before it asks again, in milliseconds.
pub(super) const BEGINNING: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// One event; `id` is what a client that lost the stream names when it asks again.
pub(super) fn frame(id: Option<u64>, event: &str, data: &impl Serialize) -> Answer<Bytes> {
    let mut bytes = Vec::with_capacity(256);
    if let Some(id) = id {
        bytes.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    bytes.extend_from_slice(format!("event: {event}\ndata: ").as_bytes());
    let start = bytes.len();
    serde_json::to_writer(&mut bytes, data)
        .map_err(|error| Problem::internal(format!("an event has no JSON form: {error}")))?;
    // Recorded JSON keeps its own line breaks, which are white space between values, but would end the line here.
    for byte in &mut bytes[start..] {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    bytes.extend_from_slice(b"\n\n");
    // It waits for slow clients as it is.
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

/// The answer that these frames come in.
pub(super) fn response(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Proxies would collect events otherwise.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = Body::from_stream(frames.map(Ok::<_, Infallible>));
    (headers, body).into_response()
}

/// The last event that a client has, when it asks again.
pub(super) fn last_event_id(headers: &HeaderMap) -> Answer<Option<u64>> {
    let Some(header) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let id = header.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| {
        let detail = "the header `Last-Event-ID` is no `id` that this stream has given";
        Problem::invalid(detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::RawJson;

    #[test]
    fn a_frame_is_one_line_of_data_whatever_is_in_it() {
        let json = RawJson::parse("{\n \"a\":\r\n\"b\\nid: 7\" }").unwrap();
        let frame = frame(Some(3), "context", &json).unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        assert_eq!(
            text,
            "id: 3\nevent: context\ndata: {  \"a\":  \"b\\nid: 7\" }\n\n"
        );
    }
}
