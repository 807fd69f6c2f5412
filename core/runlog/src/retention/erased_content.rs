//! What there is of sessions and flows that is erased with them, wherever it stands.

use std::collections::{BTreeSet, HashSet};

use runlog_log::{Kind, Position, ReadOptions, Record, Sequence, StreamId, if_supported};
use runlog_model::{RunId, SessionId, kinds};

use crate::{ErrorKind, Result, Store, kernel::records::run_stream};

/// What says how a run went: all of its own records but those of its flow and its space, its details, and how it ended in words.
pub(super) const COURSE: [u8; 6] = [
    kinds::RUN_CREATED,
    kinds::RUN_STEP_STARTED,
    kinds::RUN_STATUS_CHANGED,
    kinds::RUN_RESUMED,
    kinds::SPAWNED,
    kinds::COMMANDS_TAKEN,
];

/// What has no content of its own: the mark of a copied chat, which its messages' ids are made from, and deletions of messages,
/// which would be there again, where they are another chat's that this one was copied from.
const BARE: [u8; 2] = [kinds::CHAT_COPIED, kinds::MESSAGES_DELETED];

/// How many records of the log are looked at together.
const PAGE: u64 = 4096;
/// How many records are looked at together that may be calls of a message.
const PAGE_OF_CALLS: u64 = 16;

/// The sessions that are erased.
pub(super) struct Chosen {
    /// Those that were named, or whose chats were: what they were copied from loses what they share.
    pub(super) named: BTreeSet<SessionId>,
    /// The others, which a user made: what they share with somebody else's that they were copied from stays.
    pub(super) of_users: BTreeSet<SessionId>,
}

impl Chosen {
    pub(super) fn all(&self) -> BTreeSet<SessionId> {
        &self.named | &self.of_users
    }
}

impl Store {
    /// The positions of all content of some sessions and flows.
    pub(super) async fn positions_of(
        &self,
        sessions: &Chosen,
        flows: &[RunId],
    ) -> Result<Vec<u64>> {
        let mut positions = Vec::new();
        let mut streams = HashSet::new();
        // What they have of others isn't in the log under these streams.
        for id in &sessions.of_users {
            streams.extend(self.streams_of(*id).await?);
        }
        for id in &sessions.named {
            let of_session = self.streams_of(*id).await?;
            for stream in &of_session {
                positions.extend(self.positions_in(*stream).await?);
            }
            streams.extend(of_session);
        }
        for id in flows {
            positions.extend(self.positions_in(run_stream(*id)).await?);
            streams.insert(run_stream(*id));
        }
        if !streams.is_empty() {
            positions.extend(self.positions_in_log(&streams).await?);
        }
        Ok(positions)
    }

    /// The streams of a session, and of its runs.
    async fn streams_of(&self, id: SessionId) -> Result<Vec<StreamId>> {
        let mut streams = self.session_stream_ids(id).await?;
        let runs = self.session_runs(id).await?;
        streams.extend(runs.iter().map(|run| run_stream(run.id)));
        Ok(streams)
    }

    /// The positions of all content of a stream, that which it shares with others too. What can't be read can't be redacted: the
    /// compaction leaves its segment, which the result says.
    async fn positions_in(&self, stream: StreamId) -> Result<Vec<u64>> {
        let mut positions = Vec::new();
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(positions);
        };
        let mut newest = None;
        let (mut next, mut limit) = (Some(Sequence::FIRST), PAGE);
        while let Some(first) = next.filter(|first| *first <= info.last_sequence) {
            let options = ReadOptions {
                first,
                last: info.last_sequence,
                limit,
                ..ReadOptions::default()
            };
            match self.backend().read(stream, options).await {
                // Which of them it is is found by reading them one by one.
                Err(error) if error.kind() == ErrorKind::Damaged && limit > 1 => limit = 1,
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    (next, limit) = (Some(first.next()), PAGE);
                }
                page => {
                    let page = page?;
                    let content = page.records.iter().filter(|record| has_content(record));
                    positions.extend(content.map(|record| record.position.0));
                    newest = page.records.into_iter().next_back().or(newest);
                    next = page.next;
                }
            }
        }
        if let Some(newest) = newest.filter(|newest| newest.sequence == info.last_sequence) {
            positions.extend(self.calls_behind(&newest).await?);
        }
        Ok(positions)
    }

    /// The positions of the calls of a message that stand right behind it in the log: a copy that ends with the message has them not,
    /// but they have what it says.
    async fn calls_behind(&self, message: &Record) -> Result<Vec<u64>> {
        let mut positions = Vec::new();
        if ![kinds::ASSISTANT_MESSAGE, kinds::TOOL_CALL].contains(&message.kind.0) {
            return Ok(positions);
        }
        let mut next = Some(message.position.next());
        while let Some(first) = next {
            let page = match self.backend().scan(first, PAGE_OF_CALLS).await {
                Err(error) if error.kind() == ErrorKind::Damaged => return Ok(positions),
                page => page?,
            };
            for record in &page.records {
                let is_call = record.kind.0 == kinds::TOOL_CALL;
                if !is_call || record.stream != message.stream {
                    return Ok(positions);
                }
                positions.extend(has_content(record).then_some(record.position.0));
            }
            next = page.next;
        }
        Ok(positions)
    }

    /// The positions of all content that was appended to some streams, and of the states that were saved of them. What one of them was truncated before is only found in
    /// the log, and copies that were made earlier still read it.
    async fn positions_in_log(&self, streams: &HashSet<StreamId>) -> Result<Vec<u64>> {
        let mut positions = Vec::new();
        let mut next = Some(Position::FIRST);
        while let Some(first) = next {
            let page = match self.backend().scan(first, PAGE).await {
                // What can't be read can't be redacted. The compaction leaves its segment, which the result says.
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    let readable = self.backend().maintenance().next_readable(first.next());
                    next = if_supported(readable.await)?.unwrap_or(Some(first.next()));
                    continue;
                }
                page => page?,
            };
            let own = page
                .records
                .iter()
                .filter(|record| streams.contains(&record.stream) && has_content(record));
            positions.extend(own.map(|record| record.position.0));
            next = page.next;
        }
        Ok(positions)
    }
}

/// Whether a record has content that can be redacted.
fn has_content(record: &Record) -> bool {
    let is_bare = [&BARE[..], &COURSE[..]]
        .iter()
        .any(|kinds| kinds.contains(&record.kind.0));
    let is_content = record.kind.is_data() && !is_bare;
    (is_content || record.kind == Kind::SNAPSHOT) && !record.redacted
}
