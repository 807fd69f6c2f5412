//! [`Arena`]: allocates the bodies of records, several in one piece of memory.

use bytes::{Bytes, BytesMut};

/// The largest piece. A record that is kept keeps all of its piece.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Pieces that grow: a reader of one record allocates no more than it needs, and a reader that continues soon shares
/// one piece among many records.
#[derive(Default)]
pub(crate) struct Arena {
    free: BytesMut,
    piece_bytes: usize,
}

impl Arena {
    /// The bytes that `fill` appends, at most `bytes` of them; `None` if it fails.
    pub(crate) fn add(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut BytesMut) -> bool,
    ) -> Option<Bytes> {
        if self.free.capacity() < bytes {
            self.piece_bytes = (self.piece_bytes * 4).min(PIECE_BYTES_MAX).max(bytes);
            self.free = BytesMut::with_capacity(self.piece_bytes);
        }
        fill(&mut self.free).then(|| self.free.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_pieces_and_none_overlaps_another() {
        let mut arena = Arena::default();
        let bodies: Vec<Bytes> = (0..2000_usize)
            .filter_map(|number| {
                let byte = u8::try_from(number % 256).unwrap();
                let bytes = number * 37 % 900;
                let filled = arena.add(bytes, |to| {
                    let is_had = number % 10 != 0;
                    to.resize(if is_had { bytes } else { 0 }, byte);
                    is_had
                });
                assert_eq!(filled.is_some(), number % 10 != 0);
                filled
            })
            .collect();
        let expected = (0..2000_usize).filter(|number| number % 10 != 0);
        for (body, number) in bodies.iter().zip(expected) {
            assert_eq!(body.len(), number * 37 % 900);
            assert!(body.iter().all(|byte| usize::from(*byte) == number % 256));
        }
        let large = arena.add(PIECE_BYTES_MAX * 2, |to| {
            to.resize(PIECE_BYTES_MAX * 2, 1);
            true
        });
        assert_eq!(large.unwrap().len(), PIECE_BYTES_MAX * 2);
    }

    #[test]
    fn one_record_takes_no_more_than_it_needs() {
        let mut arena = Arena::default();
        let add = |to: &mut BytesMut| {
            to.resize(1000, 0);
            true
        };
        arena.add(1000, add).unwrap();
        assert!(arena.free.capacity() < 100);
    }
}
