//! The one checksum: CRC-32 (ISO-HDLC, as in zip), optionally salted and bound to a place.

use crc32fast::Hasher;

/// The plain CRC of some bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRC of bytes that belong to one place: starts from the segment's salt, then covers `place`.
pub(crate) fn crc_at(salt: u32, place: u64, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(salt);
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

/// A 64-bit FNV-1a hash: spreads idempotency keys over index rows. A match is confirmed by the key itself.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
