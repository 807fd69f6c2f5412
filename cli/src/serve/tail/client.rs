//! One client of the tail.

use std::collections::VecDeque;

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use bytes::BytesMut;
use runlog::{InstanceId, RunId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    time::Instant,
};

use super::{
    channels::{Subject, TailUpdate},
    event::{ContextLine, DamagedLine, Item},
    follower::{UNREPORTED_TIME_MAX, read},
};
use crate::{
    owners::{Owners, Topic},
    record_line::RecordLine,
    serve::{
        app::App,
        endpoint::{AnswerSpec, Endpoint, NoPath, stream},
        problem::{Answer, Problem},
        sse,
    },
};

/// Waiting frames are sent together, up to this many bytes.
const TOGETHER_BYTES: usize = 64 << 10;

/// Which records to tell of.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
struct TailOptions {
    /// The position after which to begin, 0 for the first record; what comes from now on when left out. The header
    /// `Last-Event-ID` counts before it.
    after: Option<u64>,
    /// Only what is about these; all when left out.
    topics: Vec<Topic>,
    /// Only what is of this session.
    session_id: Option<SessionId>,
    /// Only what is of this agent instance.
    instance_id: Option<InstanceId>,
    /// Only what is of this run.
    run_id: Option<RunId>,
}

/// How far the log goes.
#[derive(Serialize, JsonSchema)]
struct PositionLine {
    /// The last position that this stream has sent, or passed over.
    position: u64,
}

/// What the data of an event is.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is asked for")]
enum TailEvent<'a> {
    Context(ContextLine<'a>),
    Record(RecordLine),
    Damaged(DamagedLine<'a>),
    Position(PositionLine),
}

/// The endpoint of the tail.
pub(in crate::serve) fn endpoint() -> Endpoint {
    let spec = AnswerSpec {
        status: StatusCode::OK,
        content_type: "text/event-stream",
        about: "Events named as their topic; `id` is the position of the record. Events named `position` come after each \
                part of the log with something that is asked for, within a second of others, and when nothing happens; one named `problem` comes before the end of a stream that fails.",
        schema: crate::serve::endpoint::schema_of::<TailEvent<'static>>,
    };
    stream::<NoPath, TailOptions, _, _>(
        "/v1/tail",
        "Tells of each record as soon as it is durable, without a gap and without a repeat: a client that lost the stream \
         names the last `id` that it has in the header `Last-Event-ID`.",
        spec,
        tail,
    )
    .using_headers(sse::HEADERS)
    .example_query("after=0&topics=context&topics=run")
}

async fn tail(app: App, headers: HeaderMap, _: NoPath, options: TailOptions) -> Answer<Response> {
    // Subscribe first, so that no record is missed between reading and receiving.
    let receiver = app.follower().subscribe(options.subject());
    let end = app.store().backend().maintenance().last_position().await?.0;
    let after = sse::last_event_id(&headers)?.or(options.after);
    if let Some(after) = after.filter(|after| *after > end) {
        return Err(Problem::invalid(format!(
            "the log ends at position {end}, before {after}: this is another store than the one that was followed, or it was restored; begin anew"
        )));
    }
    let mut client = Client {
        app,
        receiver,
        options,
        seen: after.unwrap_or(end),
        reported: 0,
        reported_at: Instant::now(),
        is_behind: true,
        has_ended: false,
        queue: VecDeque::from([sse::BEGINNING]),
    };
    client.report_position();
    let frames = futures_util::stream::unfold(client, async |mut client| {
        let frame = client.next().await?;
        Some((frame, client))
    });
    Ok(sse::response(frames))
}

struct Client {
    app: App,
    receiver: Receiver<TailUpdate>,
    options: TailOptions,
    /// The last position that was sent to the client, or skipped because it isn't subscribed to it.
    seen: u64,
    /// The last position that was reported to the client, and when.
    reported: u64,
    reported_at: Instant,
    /// Whether there may be later records that the follower won't send again.
    is_behind: bool,
    has_ended: bool,
    /// The frames to send: at most 64 KiB and one more chunk, so that a client that doesn't read takes no more memory.
    queue: VecDeque<Bytes>,
}

impl Client {
    /// The next frame; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                return Some(self.with_those_behind(frame));
            }
            if self.has_ended || self.app.stopped().is_cancelled() {
                return None;
            }
            if self.is_behind {
                self.catch_up().await;
            } else {
                self.wait().await;
            }
        }
    }

    /// A frame and those that wait after it, up to some size: sending a few hundred bytes costs as much as sending many.
    fn with_those_behind(&mut self, frame: Bytes) -> Bytes {
        if self.queue.is_empty() {
            return frame;
        }
        let mut together = BytesMut::from(frame);
        while let Some(next) = self.queue.front()
            && together.len() + next.len() <= TOGETHER_BYTES
        {
            together.extend_from_slice(next);
            self.queue.pop_front();
        }
        together.freeze()
    }

    /// Reads a part of the log that was published before, if there is any.
    async fn catch_up(&mut self) {
        let end = self.app.follower().last();
        if self.seen >= end {
            self.is_behind = false;
            // The follower doesn't repeat earlier positions.
            if self.seen > self.reported {
                self.report_position();
            }
            return;
        }
        let app = self.app.clone();
        let _turn = app.follower().turn().await;
        let store = app.store().clone();
        match read(store, Owners::default(), self.seen + 1, end).await {
            Ok((chunk, _)) => {
                self.take(chunk.last, chunk.items.iter());
                self.report_position_after_frames();
                // A long part of the log without matching records: a client that is disconnected meanwhile can continue
                // from there.
                if self.queue.is_empty() && self.reported_at.elapsed() >= UNREPORTED_TIME_MAX {
                    self.report_position();
                }
            }
            Err(problem) => self.fail(&problem),
        }
    }

    async fn wait(&mut self) {
        let stopped = self.app.stopped().clone();
        let update = tokio::select! {
            update = self.receiver.recv() => update,
            () = tokio::time::sleep(sse::HEARTBEAT) => return self.report_position(),
            () = stopped.cancelled() => Err(RecvError::Closed),
        };
        self.receive(update);
        // Take further waiting events, unless the client is behind: then it must read first, because they come after
        // the records it missed.
        while self.queued_bytes() < TOGETHER_BYTES && !self.has_ended && !self.is_behind {
            match self.receiver.try_recv() {
                Ok(update) => self.receive(Ok(update)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                Err(TryRecvError::Lagged(missed)) => self.receive(Err(RecvError::Lagged(missed))),
            }
        }
        if !self.has_ended {
            self.report_position_after_frames();
        }
    }

    fn receive(&mut self, update: Result<TailUpdate, RecvError>) {
        match update {
            // Records between this chunk and the previous one don't match the subscription.
            Ok(TailUpdate::Chunk(chunk)) => {
                self.take(chunk.last, chunk.of(self.options.subject()));
            }
            Ok(TailUpdate::Reached(position)) => {
                self.seen = self.seen.max(position);
                if self.seen > self.reported {
                    self.report_position();
                }
            }
            // A slow client has missed some events, and reads them from the log.
            Ok(TailUpdate::More) | Err(RecvError::Lagged(_)) => self.is_behind = true,
            Ok(TailUpdate::Broken(problem)) => self.fail(&problem),
            Err(RecvError::Closed) => self.has_ended = true,
        }
    }

    /// Queues those of a chunk's items that are new and match; the chunk goes up to `last`.
    fn take<'a>(&mut self, last: u64, items: impl Iterator<Item = &'a Item>) {
        if last <= self.seen {
            return;
        }
        let is_new = |item: &&Item| item.position > self.seen && self.options.admits(item);
        let frames = items.filter(is_new);
        self.queue.extend(frames.map(|item| item.frame.clone()));
        self.seen = last;
    }

    /// Reports the position only after frames of its own: a thousand clients with narrow subscriptions shouldn't all be
    /// woken for records of others.
    fn report_position_after_frames(&mut self) {
        if !self.queue.is_empty() && self.seen > self.reported {
            self.report_position();
        }
    }

    fn queued_bytes(&self) -> usize {
        self.queue.iter().map(Bytes::len).sum()
    }

    fn report_position(&mut self) {
        (self.reported, self.reported_at) = (self.seen, Instant::now());
        let line = PositionLine {
            position: self.seen,
        };
        self.say(Some(self.seen), "position", &line);
    }

    fn fail(&mut self, problem: &Problem) {
        self.say(None, "problem", problem);
        self.has_ended = true;
    }

    fn say(&mut self, id: Option<u64>, event: &str, data: &impl Serialize) {
        let frame = sse::frame(id, event, data).expect("numbers and texts have a JSON form");
        self.queue.push_back(frame);
    }
}

impl TailOptions {
    /// The narrowest subject that contains all that is requested: a run belongs to one instance, and that to one session.
    fn subject(&self) -> Subject {
        let run = self.run_id.map(|id| id.0);
        let instance = self.instance_id.map(|id| id.0);
        run.or(instance).or(self.session_id.map(|id| id.0))
    }

    fn admits(&self, item: &Item) -> bool {
        if item.topic == Topic::Damaged {
            return true;
        }
        (self.topics.is_empty() || self.topics.contains(&item.topic))
            && (self.session_id.is_none() || self.session_id == item.session)
            && (self.instance_id.is_none() || self.instance_id == item.instance)
            && (self.run_id.is_none() || self.run_id == item.run)
    }
}
