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
    channels::{Chunk, News, Subject},
    event::{ContextLine, DamagedLine, Item, Owners, RecordLine, Topic},
    follower::{UNSAID_TIME_MAX, read},
};
use crate::serve::{
    app::App,
    endpoint::{Endpoint, NoPath, Told, stream},
    problem::{Answer, Problem},
    sse,
};

/// Frames that wait are sent together up to so many bytes.
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
        said: 0,
        said_at: Instant::now(),
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
    /// How far the client was told that the log goes, and when.
    said: u64,
    said_at: Instant,
    /// Whether there may be records after that which nobody will tell of again.
    is_behind: bool,
    has_ended: bool,
    /// What is to be sent: of one chunk beyond 64 KiB at most, so that a client that takes nothing keeps no more.
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

    /// A frame and those that wait behind it, up to some size: to send a few hundred bytes costs as much as to send many.
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

    /// Reads some of what was told before, or nothing where there is nothing.
    async fn catch_up(&mut self) {
        let end = self.app.follower().last();
        if self.seen >= end {
            self.is_behind = false;
            // The follower tells nobody again how far it went before.
            if self.seen > self.said {
                self.say_position();
            }
            return;
        }
        let app = self.app.clone();
        let _turn = app.follower().turn().await;
        let store = app.store().clone();
        match read(store, Owners::default(), self.seen + 1, end).await {
            Ok((chunk, _)) => {
                self.take(&chunk);
                self.say_position_behind_frames();
                // A long log with nothing that it wants: a client that is cut off meanwhile goes on from there.
                if self.queue.is_empty() && self.said_at.elapsed() >= UNSAID_TIME_MAX {
                    self.say_position();
                }
            }
            Err(problem) => self.fail(&problem),
        }
    }

    async fn wait(&mut self) {
        let stopped = self.app.stopped().clone();
        let news = tokio::select! {
            news = self.receiver.recv() => news,
            () = tokio::time::sleep(sse::HEARTBEAT) => return self.say_position(),
            () = stopped.cancelled() => Err(RecvError::Closed),
        };
        self.hear(news);
        // The follower may have told more than one thing meanwhile. Who is behind reads first: what comes lies past what it missed.
        while self.queued_bytes() < TOGETHER_BYTES && !self.has_ended && !self.is_behind {
            match self.receiver.try_recv() {
                Ok(news) => self.hear(Ok(news)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                Err(TryRecvError::Lagged(missed)) => self.hear(Err(RecvError::Lagged(missed))),
            }
        }
        if !self.has_ended {
            self.say_position_behind_frames();
        }
    }

    fn hear(&mut self, news: Result<News, RecvError>) {
        match news {
            // What lies between it and the one before was nothing that is asked for here.
            Ok(News::Chunk(chunk)) => self.take(&chunk),
            Ok(News::Reached(position)) => {
                self.seen = self.seen.max(position);
                if self.seen > self.said {
                    self.say_position();
                }
            }
            // A slow client has missed some, which it reads for itself.
            Ok(News::More) | Err(RecvError::Lagged(_)) => self.is_behind = true,
            Ok(News::Broken(problem)) => self.fail(&problem),
            Err(RecvError::Closed) => self.has_ended = true,
        }
    }

    /// Sends what of a chunk is new and wanted.
    fn take(&mut self, chunk: &Chunk) {
        if chunk.last <= self.seen {
            return;
        }
        let is_new = |item: &&Item| item.position > self.seen && self.options.admits(item);
        let frames = chunk.items.iter().filter(is_new);
        self.queue.extend(frames.map(|item| item.frame.clone()));
        self.seen = chunk.last;
    }

    /// A thousand clients that each want little aren't told of everything that the others want: only behind what they want
    /// themselves.
    fn say_position_behind_frames(&mut self) {
        if !self.queue.is_empty() && self.seen > self.said {
            self.say_position();
        }
    }

    fn queued_bytes(&self) -> usize {
        self.queue.iter().map(Bytes::len).sum()
    }

    fn say_position(&mut self) {
        (self.said, self.said_at) = (self.seen, Instant::now());
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
    /// The least that has all that is asked for: a run is of one instance, and that of one session.
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
