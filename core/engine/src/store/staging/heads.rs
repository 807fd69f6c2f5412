//! [`Heads`]: the writer's state of each stream, staged records included.

use crate::{
    index::{directory::Directory, stream::Stream, streams::PIECE_STREAMS},
    store::published::durable::Durable,
};

/// The writer's state of a stream, staged records included.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    pub(crate) last_sequence: u32,
    /// How many data records were ever appended to it.
    pub(crate) ordinals: u32,
    pub(crate) last_position: LastPosition,
    /// The last segment that its data records are in.
    pub(crate) row_segment: u32,
    pub(crate) deleted: bool,
}

/// The position of a stream's last data record, if the writer knows it: it does after an append. In 8 bytes, because
/// every stream has one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LastPosition(u64);

impl LastPosition {
    const UNKNOWN: u64 = 1 << 63;

    /// 0 for a stream without records.
    pub(crate) fn known(position: u64) -> Self {
        Self(position & !Self::UNKNOWN)
    }

    /// Unknown since the record at a position, or with 0 since the store was opened. Once that record is published, the
    /// directory knows what the last one is.
    pub(crate) fn unknown_since(position: u64) -> Self {
        Self(position | Self::UNKNOWN)
    }

    /// The position, or since when it is unknown.
    pub(crate) fn get(self) -> Result<u64, u64> {
        if self.0 & Self::UNKNOWN == 0 {
            Ok(self.0)
        } else {
            Err(self.0 & !Self::UNKNOWN)
        }
    }
}

impl Head {
    fn of(stream: &Stream) -> Self {
        Self {
            last_sequence: stream.last_sequence(),
            ordinals: stream.ordinals,
            last_position: match stream.last_sequence() {
                0 => LastPosition::known(0),
                _ => LastPosition::unknown_since(0),
            },
            row_segment: stream.runs.last().map_or(0, |run| run.segment.0),
            deleted: stream.deleted,
        }
    }
}

/// The heads of all streams, published and staged, loaded in pieces: a piece without staged records is not stored, and
/// equals the directory's.
pub(crate) struct Heads {
    pieces: Vec<Vec<Head>>,
    len: usize,
}

impl Heads {
    /// The heads as published.
    pub(crate) fn new(durable: &Durable) -> Self {
        Self {
            pieces: Vec::new(),
            len: durable.directory.streams().len(),
        }
    }

    /// How many streams there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The head of an existing stream.
    pub(crate) fn get(&self, number: u32, directory: &Directory) -> Head {
        let index = number as usize - 1;
        let piece = self.pieces.get(index / PIECE_STREAMS);
        match piece.and_then(|piece| piece.get(index % PIECE_STREAMS)) {
            Some(head) => *head,
            None => directory.stream(number).map(Head::of).unwrap_or_default(),
        }
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, number: u32, directory: &Directory) -> &mut Head {
        let index = number as usize - 1;
        let (piece, place) = (index / PIECE_STREAMS, index % PIECE_STREAMS);
        if self.pieces.get(piece).is_none_or(Vec::is_empty) {
            self.take(piece, directory);
        }
        &mut self.pieces[piece][place]
    }

    /// Loads a piece from the directory. No record is staged for its streams.
    #[cold]
    fn take(&mut self, piece: usize, directory: &Directory) {
        let start = piece * PIECE_STREAMS;
        let numbers = start + 1..=(start + PIECE_STREAMS).min(self.len);
        let streams = numbers.filter_map(|number| directory.stream(u32::try_from(number).ok()?));
        let heads = streams.map(Head::of).collect();
        if self.pieces.len() <= piece {
            self.pieces.resize_with(piece + 1, Vec::new);
        }
        self.pieces[piece] = heads;
    }

    /// Adds a stream that is new.
    pub(crate) fn push(&mut self, directory: &Directory) {
        let piece = self.len / PIECE_STREAMS;
        if self.pieces.get(piece).is_none_or(Vec::is_empty) {
            self.take(piece, directory);
        }
        self.pieces[piece].push(Head::default());
        self.len += 1;
    }

    /// Removes the streams added last, down to `len` streams.
    pub(crate) fn truncate(&mut self, len: usize) {
        let (piece, rest) = (len / PIECE_STREAMS, len % PIECE_STREAMS);
        self.pieces.truncate(piece + 1);
        if let Some(last) = self.pieces.get_mut(piece) {
            last.truncate(rest);
        }
        self.len = len;
    }
}
