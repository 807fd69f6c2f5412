//! Playing back a flow: its recorded events, at their pace. Nothing is executed.

use std::{collections::VecDeque, time::Duration};

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use runlog::flows::{Playback, PlaybackOptions};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    api::{FlowEvent, OfFlow, known_flow},
    app::App,
    background::in_background,
    endpoint::{AnswerSpec, Endpoint, schema_of, stream},
    problem::{Answer, Problem},
    sse,
};

/// The endpoint of a flow's playback.
pub(super) fn endpoint() -> Endpoint {
    let spec = AnswerSpec {
        status: StatusCode::OK,
        content_type: "text/event-stream",
        about: "First `snapshot`, the latest state where there is one; then `event` for each event, whose `id` is its \
                sequence; at last `end`, whose `id` is `end`: a client that connects again with that is answered 204.",
        schema: schema_of::<FlowEvent>,
    };
    stream::<OfFlow, PlaybackOptions, _, _>(
        "/v1/flows/{run_id}/playback",
        "Plays the events of a flow back, at the pace at which they were recorded, or faster: `speed` is how many times, 0 for \
         without delays. No agent is run. The header `Last-Event-ID` goes on after an event.",
        spec,
        play,
    )
    .using_headers(sse::HEADERS)
    .example_query("speed=0&types=node:*")
}

async fn play(
    app: App,
    headers: HeaderMap,
    of: OfFlow,
    mut options: PlaybackOptions,
) -> Answer<Response> {
    if sse::has_end(&headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if let Some(last) = sse::last_event_id(&headers)? {
        if options.backward {
            options.last = Some(last.saturating_sub(1));
        } else {
            options.first = last.saturating_add(1);
        }
    }
    let store = app.store().clone();
    let opening = move || {
        pollster::block_on(async {
            known_flow(&store, of.run_id).await?;
            Ok(Playback::new(&store, of.run_id, options).await?)
        })
    };
    let playback = in_background(opening).await?;
    let mut queue = VecDeque::from([sse::BEGINNING]);
    if let Some(snapshot) = playback.snapshot() {
        queue.push_back(sse::frame(None, "snapshot", snapshot)?);
    }
    let played = Played {
        app,
        playback: Some(playback),
        queue,
        due: Instant::now(),
        ready: None,
    };
    let frames = futures_util::stream::unfold(played, async |mut played| {
        let frame = played.next().await?;
        Some((frame, played))
    });
    Ok(sse::response(frames))
}

struct Played {
    app: App,
    /// `None` at the end.
    playback: Option<Playback>,
    queue: VecDeque<Bytes>,
    /// When the next event is due.
    due: Instant,
    /// The next event, which waits until it is due.
    ready: Option<Bytes>,
}

impl Played {
    /// The next frame; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                return Some(frame);
            }
            if self.app.stopped().is_cancelled() {
                return None;
            }
            if self.ready.is_some() {
                if self.is_due().await {
                    return self.ready.take();
                }
                continue;
            }
            let playback = self.playback.take()?;
            match in_background(move || read(playback)).await {
                Ok(Some((delay, frame, playback))) => {
                    // Delays are capped at a day.
                    self.due += delay.min(Duration::from_secs(86_400));
                    self.ready = Some(frame);
                    self.playback = Some(playback);
                }
                Ok(None) => self.queue.push_back(sse::end()),
                Err(problem) => self.say("problem", &problem),
            }
        }
    }

    /// Waits until the next event is due (`true`), or a heartbeat or the end is (`false`).
    async fn is_due(&mut self) -> bool {
        let stopped = self.app.stopped().clone();
        tokio::select! {
            () = tokio::time::sleep_until(self.due) => true,
            () = tokio::time::sleep(sse::HEARTBEAT) => {
                // A comment as a heartbeat.
                self.queue.push_back(Bytes::from_static(b":\n\n"));
                false
            }
            () = stopped.cancelled() => false,
        }
    }

    fn say(&mut self, event: &str, data: &impl Serialize) {
        let frame = sse::frame(None, event, data).expect("numbers and texts have a JSON form");
        self.queue.push_back(frame);
    }
}

/// The next event with its delay, and the playback after it.
fn read(mut playback: Playback) -> Answer<Option<(Duration, Bytes, Playback)>> {
    let next = pollster::block_on(playback.next_event()).map_err(Problem::from)?;
    let Some((delay, event)) = next else {
        return Ok(None);
    };
    let id = event.sequence;
    let frame = sse::frame(Some(id), "event", &FlowEvent::from(event))?;
    Ok(Some((delay, frame, playback)))
}
