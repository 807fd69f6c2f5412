//! What there is of sessions and flows that is erased with them, wherever it stands.

use std::collections::{BTreeSet, HashSet};

use runlog_log::{Kind, Position, ReadOptions, Record, StreamId, if_supported};
use runlog_model::{RunId, SessionId, kinds};

use crate::{
    ErrorKind, Result, Store,
    journal::follow::read_each,
    kernel::{
        records::{chat_stream, run_stream},
        shared_fold::SharedFold,
    },
};

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

impl Store {
    /// The positions of all content that was written to some sessions and flows. What a session has of the one that it was copied from isn't
    /// in the log under its own streams: it is that one's.
    pub(super) async fn positions_of(
        &self,
        sessions: &BTreeSet<SessionId>,
        flows: &[RunId],
    ) -> Result<Vec<u64>> {
        let mut streams: HashSet<StreamId> = flows.iter().map(|id| run_stream(*id)).collect();
        for id in sessions {
            streams.extend(self.streams_of(*id).await?);
        }
        match streams.is_empty() {
            true => Ok(Vec::new()),
            false => self.positions_in_log(&streams).await,
        }
    }

    /// The positions of changes that were made in copies to messages which are erased. No chat has these messages any more, and a change
    /// has all that the message said.
    pub(super) async fn changes_of_erased(
        &self,
        copies: &BTreeSet<SessionId>,
    ) -> Result<Vec<Position>> {
        let mut positions = Vec::new();
        for id in copies {
            let Some(fold) = self.fold_of_copy(*id).await? else {
                continue;
            };
            let changes = self
                .own_of_copy(*id, &[kinds::MESSAGE_UPDATED], &mut |_| Ok(true))
                .await?;
            let fold = fold.read();
            let is_gone = |at: &Position| fold.kept_message_at(at.0).is_none();
            positions.extend(changes.into_iter().filter(is_gone));
        }
        Ok(positions)
    }

    /// The fold of a copy's chat. `None` where it has none, or one that can't be read: that stays, which the result says.
    pub(super) async fn fold_of_copy(&self, id: SessionId) -> Result<Option<SharedFold>> {
        if self.backend().stream(chat_stream(id)).await?.is_none() {
            return Ok(None);
        }
        match self.chat_fold(id).await {
            Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
            fold => fold.map(Some),
        }
    }

    /// The positions of the records of some kinds that were written to a copy itself, and are chosen.
    pub(super) async fn own_of_copy(
        &self,
        id: SessionId,
        of_kinds: &[u8],
        is_chosen: &mut (dyn FnMut(&Record) -> Result<bool> + Send),
    ) -> Result<Vec<Position>> {
        let mut own = Vec::new();
        let of_kinds = of_kinds.iter().chain(&[kinds::CHAT_COPIED]);
        let options = ReadOptions {
            kinds: of_kinds.copied().map(Kind).collect(),
            ..ReadOptions::default()
        };
        read_each(&**self.backend(), chat_stream(id), options, &mut |record| {
            match record.kind.0 {
                // What stands before was written to what it was copied from.
                kinds::CHAT_COPIED => own.clear(),
                _ if !record.redacted && is_chosen(record)? => own.push(record.position),
                _ => {}
            }
            Ok(())
        })
        .await?;
        Ok(own)
    }

    /// The streams of a session, and of its runs.
    async fn streams_of(&self, id: SessionId) -> Result<Vec<StreamId>> {
        let mut streams = self.session_stream_ids(id).await?;
        let runs = self.session_runs(id).await?;
        streams.extend(runs.iter().map(|run| run_stream(run.id)));
        Ok(streams)
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
