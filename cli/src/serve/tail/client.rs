//! One client of the tail.

use std::{collections::VecDeque, time::Duration};

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use runlog::{InstanceId, RunId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::Instant,
};

use super::{
    event::{ContextLine, DamagedLine, Item, Owners, RecordLine, Topic},
    follower::{Chunk, News, read},
};
use crate::serve::{
    app::App,
    endpoint::{Endpoint, NoPath, Told, stream},
    problem::{Answer, Problem},
    sse,
};

/// How long a client may not know how far the log goes, where nothing came that it wants.
const UNSAID_TIME_MAX: Duration = Duration::from_secs(1);

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
    /// The last position that this stream has told of, or passed over.
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

/// The address of the tail.
pub(in crate::serve) fn endpoint() -> Endpoint {
    let told = Told {
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
        told,
        tail,
    )
    .looking_at(sse::HEADERS)
    .asking("after=0&topics=context&topics=run")
}

async fn tail(app: App, headers: HeaderMap, _: NoPath, options: TailOptions) -> Answer<Response> {
    // First, so that nothing comes between what is there and what is told.
    let receiver = app.follower().subscribe();
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
        said_at: Instant::now(),
        is_unsaid: false,
        is_behind: true,
        has_ended: false,
        queue: VecDeque::from([sse::BEGINNING]),
    };
    client.say_position();
    let frames = futures_util::stream::unfold(client, async |mut client| {
        let frame = client.next().await?;
        Some((frame, client))
    });
    Ok(sse::response(frames))
}

struct Client {
    app: App,
    receiver: Receiver<News>,
    options: TailOptions,
    /// The last position that the client knows of, or that is none of its.
    seen: u64,
    /// When the client was last told how far the log goes, and whether it goes further since.
    said_at: Instant,
    is_unsaid: bool,
    /// Whether there may be records after that which nobody will tell of again.
    is_behind: bool,
    has_ended: bool,
    /// What is to be sent: of one chunk at most, so that a client that takes nothing keeps no more.
    queue: VecDeque<Bytes>,
}

impl Client {
    /// The next frame; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                return Some(frame);
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

    /// Reads some of what was told before, or nothing where there is nothing.
    async fn catch_up(&mut self) {
        let end = self.app.follower().last();
        if self.seen >= end {
            self.is_behind = false;
            return;
        }
        let app = self.app.clone();
        let _turn = app.follower().turn().await;
        let store = app.store().clone();
        match read(store, Owners::default(), self.seen + 1, end).await {
            Ok((chunk, _)) => self.take(&chunk),
            Err(problem) => self.fail(&problem),
        }
    }

    async fn wait(&mut self) {
        let stopped = self.app.stopped().clone();
        let next_said = if self.is_unsaid {
            self.said_at + UNSAID_TIME_MAX
        } else {
            Instant::now() + sse::HEARTBEAT
        };
        let news = tokio::select! {
            news = self.receiver.recv() => news,
            () = tokio::time::sleep_until(next_said) => return self.say_position(),
            () = stopped.cancelled() => Err(RecvError::Closed),
        };
        match news {
            Ok(News::Chunk(chunk)) if chunk.first <= self.seen + 1 => self.take(&chunk),
            // A slow client has missed some, which it reads for itself.
            Ok(News::Chunk(_) | News::More) | Err(RecvError::Lagged(_)) => self.is_behind = true,
            Ok(News::Broken(problem)) => self.fail(&problem),
            Err(RecvError::Closed) => self.has_ended = true,
        }
    }

    /// Sends what of a chunk is new and wanted, and then how far it goes.
    fn take(&mut self, chunk: &Chunk) {
        if chunk.last <= self.seen {
            return;
        }
        let is_new = |item: &&Item| item.position > self.seen && self.options.admits(item);
        let frames = chunk.items.iter().filter(is_new);
        let frames: Vec<Bytes> = frames.map(|item| item.frame.clone()).collect();
        self.seen = chunk.last;
        // A thousand clients that each want little aren't told of everything that the others want.
        if frames.is_empty() {
            self.is_unsaid = true;
            return;
        }
        self.queue.extend(frames);
        self.say_position();
    }

    fn say_position(&mut self) {
        self.is_unsaid = false;
        self.said_at = Instant::now();
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
