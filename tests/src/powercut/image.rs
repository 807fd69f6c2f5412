//! The content of a disk, and what of it a loss of power leaves.

use std::{collections::BTreeMap, fs::File, io, os::unix::fs::FileExt, path::Path};

use crate::random::Random;

/// The piece in which file systems write.
const BLOCK_BYTES: usize = 4096;
/// The piece that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What is on a disk; blocks of zeros take no room.
#[derive(Clone)]
pub struct Image {
    bytes: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK_BYTES]>>,
}

/// What was asked of a disk.
pub enum Event {
    /// Bytes were written; nothing says that they stay.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// All that was written before stays from now on.
    Flush,
}

/// Which writes that nothing flushed a loss of power keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// All.
    All,
    /// None.
    None,
    /// Some of the writes.
    Writes,
    /// Some of the blocks of them.
    Blocks,
    /// Some of the sectors.
    Sectors,
}

impl Kept {
    /// Each of them.
    pub const ALL: [Self; 5] = [
        Self::All,
        Self::None,
        Self::Writes,
        Self::Blocks,
        Self::Sectors,
    ];
}

impl Image {
    /// What is in a file.
    ///
    /// # Errors
    /// Those of reading.
    pub fn load(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut image = Self {
            bytes: file.metadata()?.len(),
            blocks: BTreeMap::new(),
        };
        let mut block = [0; BLOCK_BYTES];
        for offset in (0..image.bytes).step_by(BLOCK_BYTES) {
            file.read_exact_at(&mut block, offset)?;
            image.write(offset, &block);
        }
        Ok(image)
    }

    /// Puts it into a new file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.bytes)?;
        self.blocks.iter().try_for_each(|(number, block)| {
            file.write_all_at(&block[..], number * BLOCK_BYTES as u64)
        })
    }

    /// How large the disk is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads up to the end of the disk.
    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let length = length.min(usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(0));
        let mut read = vec![0; length];
        for (block, within, piece) in pieces(offset, length, BLOCK_BYTES) {
            if let Some(found) = self.blocks.get(&block) {
                read[piece.clone()].copy_from_slice(&found[within..within + piece.len()]);
            }
        }
        read
    }

    /// Writes within the disk.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (block, within, piece) in pieces(offset, bytes.len(), BLOCK_BYTES) {
            let piece = &bytes[piece];
            if piece.iter().all(|byte| *byte == 0) && !self.blocks.contains_key(&block) {
                continue;
            }
            let found = self
                .blocks
                .entry(block)
                .or_insert_with(|| Box::new([0; BLOCK_BYTES]));
            found[within..within + piece.len()].copy_from_slice(piece);
        }
    }

    /// What is there when power goes after `events`, of which the last flush made durable what was before it.
    #[must_use]
    pub fn after_power_cut(&self, events: &[Event], kept: Kept, random: &mut Random) -> Self {
        let mut image = self.clone();
        let flushed = events
            .iter()
            .rposition(|event| matches!(event, Event::Flush))
            .unwrap_or(0);
        for (place, event) in events.iter().enumerate() {
            let Event::Write { offset, bytes } = event else {
                continue;
            };
            let mut keep_some = |piece_bytes| {
                for (block, within, piece) in pieces(*offset, bytes.len(), piece_bytes) {
                    if random.one_in(2) {
                        image.write(block * piece_bytes as u64 + within as u64, &bytes[piece]);
                    }
                }
            };
            match kept {
                _ if place < flushed => image.write(*offset, bytes),
                Kept::All => image.write(*offset, bytes),
                Kept::None => {}
                Kept::Writes => {
                    if random.one_in(2) {
                        image.write(*offset, bytes);
                    }
                }
                Kept::Blocks => keep_some(BLOCK_BYTES),
                Kept::Sectors => keep_some(SECTOR_BYTES),
            }
        }
        image
    }
}

/// The pieces of a size that a range meets: their number, where in the piece it begins, and which part of the range.
fn pieces(
    offset: u64,
    length: usize,
    size: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = usize::try_from(at % size as u64).expect("below a size");
        let piece = done..length.min(done + size - within);
        done = piece.end;
        (!piece.is_empty()).then_some((at / size as u64, within, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Image {
        Image {
            bytes: 64 << 10,
            blocks: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_over_the_borders_of_blocks() {
        let mut image = empty();
        let bytes: Vec<u8> = (0..10_000_u32)
            .map(|number| number.to_le_bytes()[0])
            .collect();
        image.write(3000, &bytes);
        assert_eq!(image.read(3000, 10_000), bytes);
        assert_eq!(image.read(2999, 2), [0, 0]);
        assert_eq!(image.read((64 << 10) - 5, 100).len(), 5);
    }

    #[test]
    fn flushed_writes_stay_and_others_may_go() {
        let write = |offset, byte| Event::Write {
            offset,
            bytes: vec![byte; 4096],
        };
        let events = [write(0, 1), Event::Flush, write(4096, 2)];
        let mut random = Random::new(1);
        let states: Vec<_> = (0..20)
            .map(|_| empty().after_power_cut(&events, Kept::Sectors, &mut random))
            .collect();
        assert!(states.iter().all(|state| state.read(0, 4096) == [1; 4096]));
        assert!(states.iter().any(|state| state.read(4096, 512) == [0; 512]));
        assert!(states.iter().any(|state| state.read(4096, 512) == [2; 512]));
        assert_eq!(
            empty()
                .after_power_cut(&events, Kept::None, &mut random)
                .read(4096, 4096),
            [0; 4096]
        );
        assert_eq!(
            empty()
                .after_power_cut(&events, Kept::All, &mut random)
                .read(4096, 4096),
            [2; 4096]
        );
    }
}
