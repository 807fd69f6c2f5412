//! The identity of a store and the headers of its segments.

use super::{
    Files, Problem, SegmentFacts,
    bytes::{Cursor, crc_from},
    index::TRAILER_BYTES,
    parts::Part,
};

/// Where the records of a segment begin.
pub(super) const RECORDS_BEGIN: u64 = 4096;
pub(super) const HEADER_BYTES: usize = 512;
const COPIES: [usize; 2] = [0, 2048];
const SEGMENT_BYTES_MAX: usize = 1 << 30;
/// The incompatible feature of a pack that has a dictionary.
const DICTIONARY: u64 = 1 << 4;

/// What `RUNLOG` says, and every segment's header too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) store: [u8; 16],
    pub(super) hash_key: [u8; 16],
}

impl Identity {
    pub(super) fn read(files: &Files) -> Result<Self, Problem> {
        const NAME: &str = "RUNLOG";
        let bytes = files
            .get(NAME)
            .ok_or_else(|| Problem::new(NAME, 0, "missing: not a store"))?;
        if bytes.len() != 128 {
            return Err(Problem::new(
                NAME,
                0,
                format!("expected 128 bytes, found {}", bytes.len()),
            ));
        }
        let mut cursor = Cursor::of_checked(NAME, 0, bytes, b"RUNLOGST")?;
        cursor.known(&1_u32.to_le_bytes(), "format version")?;
        cursor.u32()?;
        let store = cursor.array()?;
        cursor.time()?;
        cursor.features(0)?;
        let hash_key = cursor.array()?;
        cursor.zeros(44)?;
        cursor.end()?;
        Ok(Self { store, hash_key })
    }
}

/// The end of the last segment that a pack replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Replaced {
    pub(super) end: u64,
    pub(super) salt: u32,
    pub(super) index_crc: u32,
}

/// The header of a segment, or of a pack.
pub(super) struct Header {
    pub(super) id: u32,
    pub(super) base_position: u64,
    pub(super) base_time_ms: u64,
    pub(super) predecessor_end: u64,
    pub(super) salt: u32,
    predecessor_salt: u32,
    pub(super) next_stream: u32,
    pub(super) epoch: u32,
    pub(super) predecessor_index_crc: u32,
    /// What a pack replaces.
    pub(super) replaced: Option<Replaced>,
    /// If it is a pack with a dictionary.
    pub(super) has_dictionary: bool,
    pub(super) seed: u32,
    /// The bytes that it was read from.
    pub(super) bytes: [u8; HEADER_BYTES],
}

impl Header {
    /// The header that the first copy which checks holds; a copy that doesn't, or holds another, goes to `damaged`.
    pub(super) fn read(
        part: &Part,
        file: &[u8],
        identity: &Identity,
        damaged: &mut Vec<Problem>,
    ) -> Result<Self, Problem> {
        let name = part.name.as_str();
        if !part.is_pack() && file.len() > SEGMENT_BYTES_MAX {
            return Err(Problem::new(
                name,
                0,
                format!("{} bytes are more than a segment has", file.len()),
            ));
        }
        let mut first: Option<&[u8; HEADER_BYTES]> = None;
        let mut worst = None;
        for start in COPIES {
            match (copy_at(name, file, start), first) {
                (Ok(copy), None) => first = Some(copy),
                (Ok(copy), Some(first)) if copy == first => {}
                (Ok(_), Some(_)) => {
                    damaged.push(Problem::new(
                        name,
                        start as u64,
                        "another header than in the copy before",
                    ));
                }
                (Err(problem), _) => {
                    worst = Some(problem.clone());
                    damaged.push(problem);
                }
            }
        }
        // That of a pack is in an image that can't be checked without a header.
        let third = || copy_of_index(name, file).filter(|_| !part.is_pack());
        let bytes = first.or_else(third).ok_or(worst);
        let bytes =
            bytes.map_err(|worst| worst.expect("a copy was read, or there is a problem"))?;
        Self::decode(part, *bytes, identity)
    }

    fn decode(
        part: &Part,
        bytes: [u8; HEADER_BYTES],
        identity: &Identity,
    ) -> Result<Self, Problem> {
        let name = part.name.as_str();
        let wrong = |at: u64, message: String| Err(Problem::new(name, at, message));
        let mut cursor = Cursor::of_checked(name, 0, &bytes, b"RUNLOGSG")?;
        cursor.known(&1_u32.to_le_bytes(), "format version")?;
        let found_id = cursor.u32()?;
        let store = cursor.array()?;
        let base_position = cursor.u64()?;
        let base_time_ms = cursor.u64()?;
        let predecessor_end = cursor.u64()?;
        let salt = cursor.u32()?;
        let predecessor_salt = cursor.u32()?;
        let next_stream = cursor.u32()?;
        let role = cursor.u8()?;
        if !(1..=2).contains(&role) {
            let message = format!("role {role}");
            return Err(Problem::new(name, 68, message).of_newer_build());
        }
        if part.is_pack() != (role == 2) {
            return wrong(68, format!("role {role} in a file of this name"));
        }
        cursor.known(&[1], "checksum")?;
        cursor.zeros(2)?;
        let uuid: [u8; 16] = cursor.array()?;
        let features = cursor.features(if part.is_pack() { DICTIONARY } else { 0 })?;
        let epoch = cursor.u32()?;
        cursor.u32()?;
        let predecessor_index_crc = cursor.u32()?;
        if part.is_pack() {
            let numbers = [part.generation, part.from, part.to];
            let expected: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
            cursor.expect(&expected, "generation and range")?;
        } else {
            cursor.zeros(12)?;
        }
        // The key of encryption.
        cursor.zeros(16)?;
        let hash_key = cursor.array()?;
        let replaced = if part.is_pack() {
            Some(Replaced {
                end: cursor.u64()?,
                salt: cursor.u32()?,
                index_crc: cursor.u32()?,
            })
        } else {
            cursor.zeros(16)?;
            None
        };
        cursor.zeros(324)?;
        cursor.end()?;
        let id = part.from;
        if found_id != id {
            return wrong(12, format!("segment id: expected {id}, found {found_id}"));
        }
        if (Identity { store, hash_key }) != *identity {
            return wrong(
                16,
                "the store id or the hash key is another store's".to_owned(),
            );
        }
        // A record's index has 32 bits.
        if base_position == 0 || base_position > (1 << 53) - (1 << 32) {
            return wrong(32, format!("no segment begins at position {base_position}"));
        }
        if base_time_ms >= 1 << 63 {
            return wrong(40, "a base time of 2^63 ms or more".to_owned());
        }
        if epoch == 0 {
            return wrong(112, "no writer has epoch 0".to_owned());
        }
        let seed = crc_from(0, &[&store, &uuid, &salt.to_le_bytes()]);
        Ok(Self {
            id,
            base_position,
            base_time_ms,
            predecessor_end,
            salt,
            predecessor_salt,
            next_stream,
            epoch,
            predecessor_index_crc,
            replaced,
            has_dictionary: features & DICTIONARY != 0,
            seed,
            bytes,
        })
    }

    /// That it goes on where the segment before ends. Its index CRC is compared once that segment's index is known.
    pub(super) fn check_follows(
        &self,
        name: &str,
        before: Option<&SegmentFacts>,
    ) -> Result<(), Problem> {
        let earliest = before.map_or(0, |before| before.base_time_ms.max(before.last_time_ms));
        if self.base_time_ms < earliest {
            let message = format!(
                "base time: {} is before {earliest} in the segment before",
                self.base_time_ms
            );
            return Err(Problem::new(name, 40, message));
        }
        let (position, end, salt) = before.map_or((1, 0, 0), |before| {
            let end = before.last_end;
            (before.next_position, end.end, end.salt)
        });
        let follows = if before.is_none() {
            self.base_position == position
        } else {
            self.base_position >= position
        };
        if !follows {
            let message = format!(
                "base position: expected {position}, found {}",
                self.base_position
            );
            return Err(Problem::new(name, 32, message));
        }
        let (expected, found) = ((end, salt), (self.predecessor_end, self.predecessor_salt));
        if expected != found {
            let message =
                format!("predecessor end and salt: expected {expected:?}, found {found:?}");
            return Err(Problem::new(name, 48, message));
        }
        if before.is_none() && self.predecessor_index_crc != 0 {
            return Err(Problem::new(
                name,
                120,
                "the first segment has no predecessor's index",
            ));
        }
        Ok(())
    }
}

fn copy_at<'a>(
    name: &str,
    file: &'a [u8],
    start: usize,
) -> Result<&'a [u8; HEADER_BYTES], Problem> {
    let copy = file.get(start..).and_then(|rest| rest.first_chunk());
    let copy =
        copy.ok_or_else(|| Problem::new(name, start as u64, "no room for a copy of the header"))?;
    Cursor::of_checked(name, start as u64, copy, b"RUNLOGSG").map(|_| copy)
}

/// The copy that ends the index block of a segment that is sealed, by the look of it.
fn copy_of_index<'a>(name: &str, file: &'a [u8]) -> Option<&'a [u8; HEADER_BYTES]> {
    let trailer = file.len().checked_sub(TRAILER_BYTES)?;
    Cursor::of_checked(name, trailer as u64, &file[trailer..], b"RUNLOGIX").ok()?;
    copy_at(name, file, trailer.checked_sub(HEADER_BYTES)?).ok()
}
