//! The contents of a session on disk, and their size.

use runlog_log::{ReadOptions, Record, Sequence, StreamId};
use runlog_model::{ListRuns, RunId, RunSummary, SessionId};

use crate::{
    ErrorKind, Result, Store,
    journal::follow::read_each,
    kernel::records::{chat_stream, context_stream, run_stream},
    runs::ShortRun,
    transcripts::keep::aside_stream,
};

/// The bytes of a record in addition to its payload and its metadata.
const HEADER_BYTES: u64 = 32;
/// How many runs are listed at a time.
const PAGE: usize = 1_000;

/// The contents of a session that can be removed.
pub(super) struct Contents {
    /// The non-empty streams of its contexts, its chat and its asides, with their last sequences.
    pub(super) streams: Vec<(StreamId, Sequence)>,
    /// How many runs it has.
    pub(super) run_count: u64,
    /// Its runs whose streams have more than the part that is kept.
    pub(super) runs: Vec<(RunId, ShortRun)>,
}

/// The size of some contents.
#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Size {
    pub(super) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    fn take(&mut self, bytes: u64) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Contents {
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.runs.is_empty()
    }
}

fn bytes_of(record: &Record) -> u64 {
    HEADER_BYTES + (record.meta.len() + record.payload.len()) as u64
}

impl Store {
    /// The streams of a session except those of its runs, also those that nothing was appended to.
    pub(super) async fn session_stream_ids(&self, session: SessionId) -> Result<Vec<StreamId>> {
        let mut ids = self
            .shared
            .catalog
            .read(|catalog| {
                let instances = catalog.instances(session);
                instances
                    .map(|instance| context_stream(instance.id))
                    .collect::<Vec<_>>()
            })
            .await?;
        ids.extend([chat_stream(session), aside_stream(session)]);
        Ok(ids)
    }

    /// The non-empty streams of a session except those of its runs, with their last sequences.
    pub(super) async fn session_streams(
        &self,
        session: SessionId,
    ) -> Result<Vec<(StreamId, Sequence)>> {
        let mut streams = Vec::new();
        for id in self.session_stream_ids(session).await? {
            if let Some(info) = self.backend().stream(id).await?
                && info.last_sequence > Sequence::ZERO
            {
                streams.push((id, info.last_sequence));
            }
        }
        Ok(streams)
    }

    /// The runs of a session, newest first.
    pub(super) async fn session_runs(&self, session: SessionId) -> Result<Vec<RunSummary>> {
        let (mut runs, mut cursor) = (Vec::new(), None);
        loop {
            let filter = ListRuns {
                session_id: Some(session),
                limit: PAGE,
                cursor,
                ..ListRuns::default()
            };
            let page = self.runs().list(&filter).await?;
            runs.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(runs);
            }
        }
    }

    /// The contents of a session that can be removed.
    pub(super) async fn contents(&self, session: SessionId) -> Result<Contents> {
        let streams = self.session_streams(session).await?;
        let all = self.session_runs(session).await?;
        let mut runs = Vec::new();
        for run in &all {
            if let Some(short) = self.runs().short(run.id).await? {
                runs.push((run.id, short));
            }
        }
        Ok(Contents {
            streams,
            run_count: all.len() as u64,
            runs,
        })
    }

    /// Their size, without the records that it shares as a copy of another session.
    pub(super) async fn size_of(&self, contents: &Contents) -> Result<Size> {
        let mut size = Size::default();
        for (stream, last) in &contents.streams {
            size.add(self.stream_size(*stream, *last).await?);
        }
        for (id, short) in &contents.runs {
            let mut of_run = self.stream_size(run_stream(*id), short.last).await?;
            short
                .kept
                .iter()
                .map(bytes_of)
                .for_each(|bytes| of_run.take(bytes));
            size.add(of_run);
        }
        Ok(size)
    }

    async fn stream_size(&self, stream: StreamId, last: Sequence) -> Result<Size> {
        let options = ReadOptions {
            last,
            ..ReadOptions::default()
        };
        let mut size = Size::default();
        let mut count = |record: &Record| {
            if record.stream == stream {
                size.add(Size {
                    records: 1,
                    bytes: bytes_of(record),
                });
            }
            Ok(())
        };
        match read_each(&**self.backend(), stream, options, &mut count).await {
            // What lies behind a lost record isn't counted: it can be given up nevertheless, and must not keep the rest.
            Err(error) if error.kind() != ErrorKind::Damaged => Err(error),
            _ => Ok(size),
        }
    }
}
