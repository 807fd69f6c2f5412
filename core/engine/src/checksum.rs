//! The one checksum: CRC-32 (ISO-HDLC, as in zip), optionally seeded and bound to a place.

use crc32fast::Hasher;

/// The plain CRC of some bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
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

/// The hash of an idempotency key: SipHash-2-4 with the store's secret, so that nobody can choose keys that collide and cost
/// a look into a batch each. A match is confirmed by the key itself.
pub(crate) fn key_hash(hash_key: &[u8; 16], key: &[u8]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher24::new_with_key(hash_key);
    std::hash::Hasher::write(&mut hasher, key);
    std::hash::Hasher::finish(&hasher)
}
