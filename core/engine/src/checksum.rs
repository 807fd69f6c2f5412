//! The checksum of the format: CRC-32 (ISO-HDLC, as in zip), optionally seeded and bound to an offset.

use runlog_log::crc::{Hasher, hash};

/// The plain CRC of some bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    hash(bytes)
}

/// The CRC of bytes that belong to one place: starts from the segment's seed, then covers `place`.
pub(crate) fn crc_at(seed: u32, place: u64, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(seed);
    hasher.update(&place.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// The CRC of parts, as if they were one.
pub(crate) fn crc_of_parts(parts: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// The hash of an idempotency key: SipHash-2-4 with the store's secret, so that no caller can choose keys that collide,
/// each of which would cost reading a batch. A match is confirmed by the key itself.
pub(crate) fn key_hash(hash_key: &[u8; 16], key: &[u8]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher24::new_with_key(hash_key);
    std::hash::Hasher::write(&mut hasher, key);
    std::hash::Hasher::finish(&hasher)
}

const POLYNOMIAL: u32 = 0xedb8_8320;

/// The standard table: the CRC of each byte value.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let (mut index, mut value) = (0, 0_u32);
    while index < 256 {
        let (mut entry, mut bit) = (value, 0);
        while bit < 8 {
            entry = if entry & 1 == 1 {
                (entry >> 1) ^ POLYNOMIAL
            } else {
                entry >> 1
            };
            bit += 1;
        }
        table[index] = entry;
        (index, value) = (index + 1, value + 1);
    }
    table
};

/// The place in [`TABLE`] of the one entry with this top byte.
const PLACE_OF_TOP: [u8; 256] = {
    let mut places = [0; 256];
    let mut index = 0_u8;
    loop {
        places[(TABLE[index as usize] >> 24) as usize] = index;
        if index == 255 {
            break places;
        }
        index += 1;
    }
};

/// The CRC before some bytes, computed from the CRC after them. It recovers the seed of a segment from any whole
/// record, when every copy of the segment's header is lost.
pub(crate) fn rewind(after: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().rev().fold(!after, |state, byte| {
        let place = PLACE_OF_TOP[(state >> 24) as usize];
        ((state ^ TABLE[place as usize]) << 8) | u32::from(place ^ byte)
    })
}

/// The 4 bytes that take a CRC from one value to another.
pub(crate) fn bridge(from: u32, to: u32) -> [u8; 4] {
    (from ^ rewind(to, &[0; 4])).to_le_bytes()
}

/// Continues a CRC.
pub(crate) fn crc_from(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_taken_back_over_any_bytes() {
        for (seed, bytes) in [
            (0, &b""[..]),
            (7, b"a"),
            (0xdead_beef, b"some bytes of a record"),
            (u32::MAX, &[0; 300]),
        ] {
            assert_eq!(rewind(crc_from(seed, bytes), bytes), seed);
        }
    }

    #[test]
    fn four_bytes_lead_from_any_crc_to_any_other() {
        for (from, to) in [
            (0, 0),
            (1, 2),
            (0xffff_ffff, 0x1234_5678),
            (crc(b"x"), crc(b"y")),
        ] {
            assert_eq!(crc_from(from, &bridge(from, to)), to);
        }
    }
}
