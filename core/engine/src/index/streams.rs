//! [`Streams`]: every stream by its number, in pieces that a copy shares until one of them changes.

use std::sync::{Arc, OnceLock};

use super::{
    piece::{self, Piece},
    ranges::Ranges,
    stream::Stream,
};

/// How many streams are one piece: few in tests, which then cross from one to the next.
pub(crate) const PIECE_STREAMS: usize = if cfg!(any(test, runlog_shuttle)) {
    8
} else {
    1024
};

/// A copy-on-write list of streams: a copy takes one pointer per piece, and a shared piece is copied before it is
/// changed.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    pieces: Vec<Arc<Loaded>>,
    len: usize,
}

/// A piece: kept as the checkpoint encodes it until one of its streams is read or changed.
#[derive(Clone, Default)]
pub(crate) struct Loaded {
    /// Its encoding in the checkpoint, if it hasn't changed since.
    saved: Option<Piece>,
    streams: OnceLock<Vec<Stream>>,
}

impl Loaded {
    fn streams(&self) -> &[Stream] {
        self.streams
            .get_or_init(|| self.saved.as_ref().map(Piece::decode).unwrap_or_default())
    }

    /// Its streams, to be changed.
    fn change(&mut self) -> &mut Vec<Stream> {
        self.streams();
        self.saved = None;
        self.streams.get_mut().expect("they were just decoded")
    }

    /// Writes it into a checkpoint.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>, ranges: &mut Ranges) {
        match &self.saved {
            Some(saved) => saved.write(bytes, ranges),
            None => piece::encode(self.streams(), bytes, ranges),
        }
    }
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The stream with a number, which counts from 1.
    pub(crate) fn get(&self, number: u32) -> Option<&Stream> {
        let (piece, place) = place(number)?;
        self.pieces.get(piece)?.streams().get(place)
    }

    /// The id of the stream with a number, zeros where there is none.
    pub(crate) fn id_bytes(&self, number: u32) -> [u8; 16] {
        let id = || {
            let (piece, place) = place(number)?;
            let piece = self.pieces.get(piece)?;
            match &piece.saved {
                Some(saved) => saved.id(place).copied(),
                None => Some(*piece.streams().get(place)?.id.as_bytes()),
            }
        };
        id().unwrap_or_default()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Stream> {
        let (piece, place) = place(number)?;
        Arc::make_mut(self.pieces.get_mut(piece)?)
            .change()
            .get_mut(place)
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        if self.len.is_multiple_of(PIECE_STREAMS) {
            self.pieces.push(Arc::default());
        }
        let last = self.pieces.last_mut().expect("there is room in the last");
        Arc::make_mut(last).change().push(stream);
        self.len += 1;
    }

    /// Adds a piece of a checkpoint. All before are full.
    pub(crate) fn push_piece(&mut self, piece: Piece) {
        self.len += piece.len();
        self.pieces.push(Arc::new(Loaded {
            saved: Some(piece),
            streams: OnceLock::new(),
        }));
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.pieces.iter().flat_map(|piece| piece.streams())
    }

    /// Their ids, in the order of their numbers. Nothing is decoded for that.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &[u8; 16]> {
        self.pieces.iter().flat_map(|piece| {
            let unsaved = piece.saved.is_none().then(|| piece.streams());
            let unsaved = unsaved.into_iter().flatten();
            let saved = piece.saved.iter().flat_map(Piece::ids);
            saved.chain(unsaved.map(|stream| stream.id.as_bytes()))
        })
    }

    /// How many pieces are decoded.
    #[cfg(test)]
    pub(crate) fn decoded(&self) -> usize {
        let decoded = |piece: &&Arc<Loaded>| piece.streams.get().is_some();
        self.pieces.iter().filter(decoded).count()
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Loaded> {
        self.pieces.iter().map(|piece| &**piece)
    }
}

/// The piece of the stream with a number, and the place in it.
fn place(number: u32) -> Option<(usize, usize)> {
    let index = (number as usize).checked_sub(1)?;
    Some((index / PIECE_STREAMS, index % PIECE_STREAMS))
}

impl FromIterator<Stream> for Streams {
    fn from_iter<I: IntoIterator<Item = Stream>>(streams: I) -> Self {
        let mut all = Self::default();
        streams.into_iter().for_each(|stream| all.push(stream));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamId;

    fn id(number: u32) -> StreamId {
        StreamId(uuid::Uuid::from_u128(u128::from(number)))
    }

    #[test]
    fn copy_shares_every_piece_but_those_that_change() {
        const PIECES: u32 = 5;
        let count = PIECES * 8 - 3;
        let mut streams: Streams = (1..=count).map(|number| Stream::new(id(number))).collect();
        let copy = streams.clone();
        streams.get_mut(15).unwrap().ordinals = 7;
        streams.push(Stream::new(id(count + 1)));
        assert_eq!((copy.len() + 1, streams.len()), (38, 38));
        let ordinals = |streams: &Streams| streams.get(15).unwrap().ordinals;
        assert_eq!((ordinals(&copy), ordinals(&streams)), (0, 7));
        assert!(copy.get(count + 1).is_none() && copy.get(0).is_none());
        let shared = copy
            .pieces
            .iter()
            .zip(&streams.pieces)
            .filter(|(one, other)| Arc::ptr_eq(one, other))
            .count();
        assert_eq!(
            (shared, copy.pieces.len()),
            (3, 5),
            "the one that changed and the last are copies"
        );
        assert!(
            streams
                .iter()
                .zip(1..)
                .all(|(stream, number)| stream.id == id(number))
        );
        assert!((1..=38).all(|number| streams.get(number).unwrap().id == id(number)));
        assert!((1..=38).all(|number| streams.id_bytes(number) == *id(number).as_bytes()));
    }
}
