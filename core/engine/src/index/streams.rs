//! [`Streams`]: every stream by its number, in pieces that a copy shares until one of them changes.

use std::sync::Arc;

use super::stream::Stream;

/// How many streams are one piece.
const CHUNK_STREAMS: usize = 1024;

/// A list of streams. A copy takes a pointer for each piece; who changes a piece that is shared copies that one first.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    chunks: Vec<Arc<Vec<Stream>>>,
    len: usize,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The stream with a number, which counts from 1.
    pub(crate) fn get(&self, number: u32) -> Option<&Stream> {
        let index = (number as usize).checked_sub(1)?;
        self.chunks
            .get(index / CHUNK_STREAMS)?
            .get(index % CHUNK_STREAMS)
    }

    /// The id of the stream with a number, zeros where there is none.
    pub(crate) fn id_bytes(&self, number: u32) -> [u8; 16] {
        self.get(number)
            .map_or([0; 16], |stream| *stream.id.as_bytes())
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Stream> {
        let index = (number as usize).checked_sub(1)?;
        Arc::make_mut(self.chunks.get_mut(index / CHUNK_STREAMS)?).get_mut(index % CHUNK_STREAMS)
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        match self
            .chunks
            .last_mut()
            .filter(|chunk| chunk.len() < CHUNK_STREAMS)
        {
            Some(chunk) => Arc::make_mut(chunk).push(stream),
            None => self.chunks.push(Arc::new(vec![stream])),
        }
        self.len += 1;
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
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

    #[test]
    fn copy_shares_every_piece_but_those_that_change() {
        let id = |number: u32| StreamId(uuid::Uuid::from_u128(u128::from(number)));
        let mut streams: Streams = (1..=5000).map(|number| Stream::new(id(number))).collect();
        let copy = streams.clone();
        streams.get_mut(2000).unwrap().ordinals = 7;
        streams.push(Stream::new(id(5001)));
        assert_eq!((copy.len(), streams.len()), (5000, 5001));
        assert_eq!(
            (
                copy.get(2000).unwrap().ordinals,
                streams.get(2000).unwrap().ordinals
            ),
            (0, 7)
        );
        assert!(copy.get(5001).is_none() && copy.get(0).is_none());
        let shared = copy
            .chunks
            .iter()
            .zip(&streams.chunks)
            .filter(|(one, other)| Arc::ptr_eq(one, other))
            .count();
        assert_eq!(
            (shared, copy.chunks.len()),
            (3, 5),
            "the one that changed and the last are copies"
        );
        assert!(
            streams
                .iter()
                .zip(1..)
                .all(|(stream, number)| stream.id == id(number))
        );
        assert!((1..=5001).all(|number| streams.get(number).unwrap().id == id(number)));
    }
}
