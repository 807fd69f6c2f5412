//! Server-sent events: their frames, and the response with them.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse, Response},
};
use futures_util::Stream;
use serde::Serialize;
use std::{convert::Infallible, time::Duration};

use super::problem::{Answer, Problem};

/// The interval of heartbeats on an idle stream.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The headers that a stream uses.
pub(super) const HEADERS: &[(&str, &str)] = &[(
    "Last-Event-ID",
    "The `id` of the last event that the client has; browsers send it by themselves.",
)];

/// The first frame of a stream: how long a client waits before it reconnects, in milliseconds.
pub(super) const BEGINNING: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// One event; a client that reconnects sends the last `id`.
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
    // The frame may wait for slow clients, so it takes no spare memory.
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

/// The `id` of the last event of a stream that has an end.
const END: &str = "end";

/// The last event of a stream that has an end.
pub(super) fn end() -> Bytes {
    format!("id: {END}\nevent: end\ndata: {{}}\n\n").into()
}

/// Whether a client has a stream up to its [end] already. It is answered with 204, after which browsers don't connect again.
pub(super) fn has_end(headers: &HeaderMap) -> bool {
    headers.get("last-event-id").is_some_and(|id| id == END)
}

/// The response with these frames.
pub(super) fn response(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Otherwise proxies would buffer events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = Body::from_stream(frames.map(Ok::<_, Infallible>));
    (headers, body).into_response()
}

/// The last event that a reconnecting client has.
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
