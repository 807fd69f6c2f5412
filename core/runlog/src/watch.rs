//! [`Store::mark`] and [`Store::changed`]: waiting for news of one context, chat or flow.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use runlog_log::{Position, StreamId};
use runlog_model::{InstanceId, RawJson, RunId, SessionId};
use serde::{Deserialize, Serialize};

use crate::{
    Result, Store,
    kernel::{
        catalog::CATALOG_STREAM,
        flows::FLOWS_STREAM,
        records::{chat_stream, context_stream, run_stream},
        runs::RUNS_STREAM,
    },
};

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Watched {
    /// Everything in the store.
    Store,
    /// The context of an instance, which may not exist yet: its events, truncations and redactions, and whether its session
    /// still exists.
    Context(InstanceId),
    /// The chat of a session: its messages, steps and requests, its fields, and whether it was deleted.
    Chat(SessionId),
    /// The flow of a run, or one with an id of its own, which may not exist yet: its events and commands, its status and that of
    /// the run. Not what else a snapshot of it says.
    Flow(RunId),
}

impl Watched {
    /// The streams whose records are its news.
    fn streams(self) -> Vec<StreamId> {
        match self {
            Self::Store => Vec::new(),
            // Sessions are deleted in the catalog.
            Self::Context(instance) => vec![context_stream(instance), CATALOG_STREAM],
            // What the catalog says of it is looked at by itself: it changes with every message of any chat.
            Self::Chat(session) => vec![chat_stream(session)],
            Self::Flow(run) => vec![run_stream(run), RUNS_STREAM, FLOWS_STREAM],
        }
    }
}

/// What was there when [`Store::mark`] looked: the log's last position, the number of redactions, and the last sequence and the number of records ever
/// appended of each stream, `None` where there was no such stream; of a chat a checksum of its fields, too. For the process that made it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    watched: Watched,
    position: u64,
    redactions: u64,
    streams: Vec<Option<(u64, u64)>>,
}

impl Store {
    /// Notes what there is of a context, a chat or a flow now, for [`changed`](Self::changed). Mark before reading: what is written
    /// between the two is then both read and reported as a change, and nothing is missed.
    ///
    /// # Errors
    /// Those of the storage.
    ///
    /// # Examples
    /// ```
    /// use runlog::{NewMessage, NewSession, Store, watch::Watched};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> runlog::Result<()> {
    /// let store = Store::in_memory();
    /// let session = store.create_session(NewSession::default()).await?;
    /// let instance = store.create_instance(session.id, "planner", None).await?;
    /// let context = store.context(instance.id).await?;
    /// let mark = store.mark(Watched::Context(instance.id)).await?;
    /// assert_eq!(context.get_messages().await?.len(), 0); // what is there is read
    /// tokio::join!(
    ///     async { store.changed(&mark).await.unwrap() }, // woken by records of this context, not by those of others
    ///     async { context.append_message(NewMessage::user("Hello")).await.unwrap() },
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub async fn mark(&self, watched: Watched) -> Result<Mark> {
        // The position first: what is written in between is looked at again.
        let position = self.backend().maintenance().last_position().await?.0;
        let redactions = self.backend().redactions();
        let streams = self.ends(watched).await?;
        Ok(Mark {
            watched,
            position,
            redactions,
            streams,
        })
    }

    /// Ready once something was written since `mark` of what it watches, in a read-only store also by another process. It goes on
    /// waiting for what other contexts, chats and flows get; that sessions, runs or flows are begun, ended or otherwise listed anew
    /// anywhere, or something is redacted, may end the wait without news.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed) once the store is closed; else those of the storage.
    pub async fn changed(&self, mark: &Mark) -> Result<()> {
        let mut position = Position(mark.position);
        loop {
            position = self.backend().wait_past(position).await?;
            let is_news = mark.streams.is_empty()
                || self.backend().redactions() != mark.redactions
                || self.ends(mark.watched).await? != mark.streams;
            if is_news {
                return Ok(());
            }
        }
    }

    async fn ends(&self, watched: Watched) -> Result<Vec<Option<(u64, u64)>>> {
        let mut ends = Vec::new();
        for stream in watched.streams() {
            let info = self.backend().stream(stream).await?;
            ends.push(info.map(|info| (info.last_sequence.0, info.appended)));
        }
        if let Watched::Chat(session) = watched {
            let chat = self.shared.catalog.read(|catalog| {
                let session = catalog.session(session);
                let is_there = session.is_some_and(|session| session.deleted_at_ms.is_none());
                session
                    .filter(|_| is_there)
                    .and_then(|session| catalog.chat(session.id))
            });
            ends.push(match chat.await? {
                Some(chat) => Some((checksum(RawJson::from_value(&chat)?.as_str()), 0)),
                None => None,
            });
        }
        Ok(ends)
    }
}

/// Of 53 bits, which JSON's numbers have everywhere.
fn checksum(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish() >> 11
}
