//! The records of a batch, encoded at the end of the open group.
//!
//! Each record's header is held back until the next record is staged: only then is it known not to be the last of its
//! batch, and the flags are part of the CRC. The header of the group's last record is held until the group is written,
//! to get its watermark.

use super::{
    batch::Staging,
    open_group::{Held, OpenGroup},
    prepare::PreparedBody,
    writer::Writer,
};
use crate::{
    Kind, NewRecord, Position,
    format::{
        WRITER_VERSION,
        extension::LabelSet,
        index::{self, ControlRow, KeyRow},
        record::{self, Body, Flags},
    },
    store::published::durable::Entry,
};

/// Begins a group with the mark of this writer: a batch by itself, which has no position.
///
/// Its time is that of the record before it, not that of the batch after it: a crash may leave the mark without the
/// batch, and the next writer, which starts from the last record's time, must not assign an earlier time if the clock
/// was set back.
pub(crate) fn push_mark(writer: &Writer, open: &mut OpenGroup, epoch: u32) {
    let mut flags = Flags::BATCH_FIRST;
    flags.set(Flags::BATCH_LAST);
    let payload = record::engine::encode_mark(epoch, WRITER_VERSION);
    let body = Body {
        payload: &payload,
        ..Body::default()
    };
    let prepared = PreparedBody::of(&body);
    let active = &writer.active;
    let header = record::Header {
        kind: record::MARK,
        flags,
        body_bytes: prepared.bytes,
        index: u32::try_from(writer.next_position - active.header.base_position)
            .expect("a segment is bounded"),
        stream: 0,
        sequence: 0,
        time_delta_ms: u32::try_from(
            writer
                .last_time_ms
                .saturating_sub(active.header.base_time_ms),
        )
        .unwrap_or(u32::MAX),
        watermark: writer.synced_end,
        body_crc: prepared.crc,
    };
    let bytes = header.encode(active.seed, open.end());
    open.bytes.extend_from_slice(&bytes);
    body.encode_into(&mut open.bytes);
}

impl Staging<'_, '_> {
    /// Stages a data record of a stream.
    pub(super) fn data(
        &mut self,
        stream: u32,
        sequence: u32,
        record: &NewRecord<'_>,
        op_first: bool,
    ) {
        let prepared = self
            .bodies
            .next()
            .copied()
            .expect("one body was prepared for each record");
        let key = std::mem::take(&mut self.key);
        let labels = LabelSet::of_some(record.labels);
        let labels = labels.as_ref().map_or(&[][..], LabelSet::as_slice);
        let body = Body {
            key,
            meta: record.meta,
            payload: record.payload,
            labels,
        };
        if !labels.is_empty() {
            let offset = self.open.end();
            let entries = labels.iter().map(|label| (offset, *label));
            self.open.entries.labels.extend(entries);
            self.writer.index_bytes += index::LABEL_BYTES_MAX * labels.len() as u64;
        }
        if !key.is_empty() {
            let hash = self.durable.key_hash(key);
            self.open.entries.keys.push(KeyRow {
                stream,
                hash,
                offset: self.batch_start,
            });
            self.writer.new_keys.insert((stream, hash));
            self.writer.index_bytes += index::KEY_ROW_BYTES as u64;
        }
        let segment = self.writer.active.id().0;
        let head = self.writer.heads.get_mut(stream, &self.durable.directory);
        if head.row_segment != segment {
            head.row_segment = segment;
            self.writer.index_bytes += index::STREAM_ROW_BYTES as u64;
        }
        self.writer.index_bytes += 4;
        self.frame(record.kind, stream, sequence, &body, prepared, op_first, 0);
    }

    /// Stages an engine record and its control row; `complete` fills in what the directory needs of it.
    pub(super) fn control(
        &mut self,
        kind: Kind,
        stream: u32,
        sequence: u32,
        meta: &[u8],
        payload: &[u8],
        complete: impl FnOnce(&mut ControlRow),
    ) -> Position {
        let offset = self.open.end();
        let mut control = ControlRow {
            sequence,
            offset,
            ..ControlRow::new(kind, stream)
        };
        if kind == Kind::SNAPSHOT {
            control.target = self.writer.next_position;
        }
        complete(&mut control);
        self.open.entries.controls.push(control);
        let place = u32::try_from(self.open.entries.controls.len()).expect("a group is bounded");
        self.writer.index_bytes += index::CONTROL_ROW_BYTES as u64;
        let body = Body {
            key: &[],
            meta,
            payload,
            labels: &[],
        };
        let prepared = PreparedBody::of(&body);
        self.frame(
            kind,
            stream,
            sequence,
            &body,
            prepared,
            kind != Kind::CREATE,
            place,
        );
        Position(self.writer.next_position - 1)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "they are the fields of one record header"
    )]
    fn frame(
        &mut self,
        kind: Kind,
        stream: u32,
        sequence: u32,
        body: &Body<'_>,
        prepared: PreparedBody,
        op_first: bool,
        control: u32,
    ) {
        let (at, offset) = (self.open.bytes.len(), self.open.end());
        let mut flags = body.flags();
        if op_first {
            flags.set(Flags::OP_FIRST);
        }
        match self.held.take() {
            Some(held) => self.seal(&held),
            None => flags.set(Flags::BATCH_FIRST),
        }
        let base = self.writer.active.header.base_position;
        let index = u32::try_from(self.writer.next_position - base).expect("a segment is bounded");
        self.writer.next_position += 1;
        if index.is_multiple_of(index::SAMPLE_EVERY) {
            self.writer.index_bytes += index::SAMPLE_ROW_BYTES as u64;
        }
        let header = record::Header {
            kind,
            flags,
            body_bytes: prepared.bytes,
            index,
            stream,
            sequence,
            time_delta_ms: self.time_delta_ms,
            watermark: self.writer.synced_end,
            body_crc: prepared.crc,
        };
        self.open
            .bytes
            .extend_from_slice(&[0; record::HEADER_BYTES]);
        body.encode_into(&mut self.open.bytes);
        self.held = Some(Held { at, offset, header });
        let time_delta_ms = self.time_delta_ms;
        self.open.entries.records.push(Entry {
            offset,
            stream,
            sequence,
            time_delta_ms,
            control,
        });
    }

    /// Writes the header of a frame whose flags are final.
    pub(super) fn seal(&mut self, held: &Held) {
        let bytes = held.header.encode(self.writer.active.seed, held.offset);
        self.open.bytes[held.at..held.at + record::HEADER_BYTES].copy_from_slice(&bytes);
    }
}
