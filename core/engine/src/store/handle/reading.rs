//! What [`Store`] reads.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use super::Store;
use crate::{
    FindOptions, Label, Position, ReadOptions, Record, Result, Sequence, Snapshot, Stat, StreamId,
    StreamInfo,
    index::stream::Stream,
    log::scan::is_damage,
    store::{
        find::Finder,
        framed, lost,
        place::Place,
        read::Reader,
        scan::{LogReader, Subscription},
        snapshots, stat,
    },
};

impl Store {
    /// Reads a stream, forward or backward, in bounded memory.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for a stream that doesn't exist. Each record may be an error
    /// of its own: [`Damaged`](crate::ErrorKind::Damaged), after which the next record follows, or
    /// [`Io`](crate::ErrorKind::Io), after which the reading ends.
    pub fn read(&self, stream: StreamId, options: ReadOptions) -> Result<Reader> {
        self.look()?;
        Reader::new(self.shared().clone(), &stream, options)
    }

    /// The sequences and positions of a stream's records that can't be read and weren't redacted. It reads the whole stream.
    ///
    /// A record is left out if its position isn't known: if it is in a segment whose index block is damaged, which a
    /// [`repair`](crate::repair) makes again.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for a stream that doesn't exist; else those of reading, except
    /// [`Damaged`](crate::ErrorKind::Damaged).
    pub fn unreadable(&self, stream: StreamId) -> Result<Vec<(Sequence, Position)>> {
        self.read(stream, ReadOptions::default())?.unreadable()
    }

    /// Finds the records that have a label, in order of position, in bounded memory: those of the store, or of one stream. A record that
    /// was redacted or truncated is not found, nor one whose stream was deleted.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for a stream that doesn't exist. Each record may be an error
    /// of its own: [`Damaged`](crate::ErrorKind::Damaged), after which the next record follows, or
    /// [`Io`](crate::ErrorKind::Io), after which the finding ends.
    pub fn find(&self, label: Label, options: FindOptions) -> Result<Finder> {
        self.look()?;
        Finder::new(self.shared().clone(), label, options)
    }

    /// Reads the whole log in order of position, from a position on. A damaged range is one error, and the records
    /// after it follow: see [`LogReader`].
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Io`](crate::ErrorKind::Io), when a reader can't follow the
    /// writer.
    pub fn scan(&self, first: Position) -> Result<LogReader> {
        self.look()?;
        Ok(LogReader::new(self.shared().clone(), first))
    }

    /// The first position at or after `first` whose record can be read, skipping damaged ones; `None` if none follows.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io), and as [`scan`](Self::scan).
    pub fn next_readable(&self, first: Position) -> Result<Option<Position>> {
        for record in self.scan(first)? {
            match record {
                Ok(record) => return Ok(Some(record.position)),
                // One error covers a whole damaged range, so the loop doesn't read it again.
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Every record from a position on: the existing ones, then new ones as they are published.
    pub fn subscribe(&self, first: Position) -> Subscription {
        Subscription::new(self.shared().clone(), first)
    }

    /// The record with a position; a damaged one is returned if it was redacted.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Io`](crate::ErrorKind::Io).
    pub fn record(&self, position: Position) -> Result<Option<Record>> {
        self.look()?;
        let shared = self.shared();
        shared.past_packs(|| {
            let Some(place) = Place::of(&shared.durable(), position.0) else {
                return Ok(None);
            };
            let is_redacted = |position| {
                let durable = shared.durable();
                durable.directory.redacted().passes_over(position)
            };
            let frame = match place.frame() {
                Err(error) if is_damage(&error) && is_redacted(position.0) => {
                    let header = lost::header_of_lost(&place, &shared.durable)?;
                    Some(lost::frame_of(header.ok_or(error)?, 0))
                }
                frame => frame?,
            };
            let record = |frame| framed::record_in(&shared.durable(), &place.segment, frame);
            frame.map(record).transpose()
        })
    }

    /// A stream's id and last sequence; `None` if it doesn't exist or was deleted.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Io`](crate::ErrorKind::Io), when a reader can't follow the
    /// writer.
    pub fn stream(&self, stream: StreamId) -> Result<Option<StreamInfo>> {
        self.look()?;
        let durable = self.shared().durable();
        let found = durable
            .directory
            .number(&stream)
            .and_then(|number| durable.directory.stream(number));
        Ok(found.filter(|found| !found.deleted).map(info))
    }

    /// Every stream, in the order they were made.
    ///
    /// # Errors
    /// As [`Store::stream`].
    pub fn streams(&self) -> Result<Vec<StreamInfo>> {
        self.look()?;
        let durable = self.shared().durable();
        Ok(durable
            .directory
            .streams()
            .iter()
            .filter(|stream| !stream.deleted)
            .map(info)
            .collect())
    }

    /// The newest snapshot of a stream at or before a sequence that isn't redacted.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for a stream that doesn't exist;
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Io`](crate::ErrorKind::Io).
    pub fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> Result<Option<Snapshot>> {
        self.look()?;
        snapshots::latest_snapshot(self.shared(), &stream, at_or_before)
    }

    /// The last published position.
    ///
    /// # Errors
    /// As [`Store::stream`].
    pub fn last_position(&self) -> Result<Position> {
        self.look()?;
        Ok(Position(self.shared().durable().next_position - 1))
    }

    /// The number of redacted records: a cache of records must be dropped when it has grown.
    pub fn redactions(&self) -> u64 {
        self.shared().durable().directory.redacted().len()
    }

    /// Blocks until a record after `seen` is published, for at most `timeout`; returns the last position either way.
    ///
    /// # Errors
    /// As [`Store::stream`].
    pub fn wait_past(&self, seen: Position, timeout: Duration) -> Result<Position> {
        Subscription::new(self.shared().clone(), seen.next()).wait(timeout)?;
        self.shared().refresh()?;
        self.last_position()
    }

    /// Ready with the last position once it is past `seen`; otherwise the task is woken when it may be. In a read-only
    /// process nothing wakes it.
    ///
    /// # Errors
    /// As [`Store::stream`]; [`Closed`](crate::ErrorKind::Closed) once the store was closed.
    pub fn poll_past(&self, seen: Position, context: &mut Context<'_>) -> Poll<Result<Position>> {
        let shared = self.shared();
        shared.poll_past(|| shared.watch.poll_past(seen.0, context.waker()))
    }

    /// The size of the store and of its contents.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    pub fn stat(&self) -> Result<Stat> {
        self.look()?;
        let shared = self.shared();
        shared.past_packs(|| stat::stat(shared))
    }
}

fn info(stream: &Stream) -> StreamInfo {
    StreamInfo {
        id: stream.id,
        last_sequence: Sequence(u64::from(stream.last_sequence())),
        appended: u64::from(stream.ordinals),
    }
}
