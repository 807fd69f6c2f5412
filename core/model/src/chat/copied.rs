//! The ids that messages and steps have in a copy of their chat: an id names one thing in the whole store.

use uuid::{Builder, Uuid};

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// How many bytes of an id identify the copy.
const COPY_BYTES: usize = 6;

/// The id in a copy for an id of the original: deterministic, different in each copy, and unique in the store. It
/// begins with bytes that identify the copy, so that a lookup searches only that one.
pub fn id_in_copy(copy: Uuid, id: &str) -> String {
    let mut bytes = hash(copy.as_bytes().iter().chain(id.as_bytes())).to_be_bytes();
    bytes[..COPY_BYTES].copy_from_slice(&mark_of(copy));
    Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// Whether an id may belong to a copy: false positives are one in 2^48 of other ids.
pub fn is_in_copy(copy: Uuid, id: &str) -> bool {
    Uuid::parse_str(id).is_ok_and(|id| id.as_bytes()[..COPY_BYTES] == mark_of(copy))
}

fn mark_of(copy: Uuid) -> [u8; COPY_BYTES] {
    let [a, b, c, d, e, f, ..] = hash(copy.as_bytes().iter()).to_be_bytes();
    [a, b, c, d, e, f]
}

fn hash<'a>(bytes: impl Iterator<Item = &'a u8>) -> u128 {
    bytes.fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_copies_are_pinned_and_differ() {
        let copy = Uuid::from_u128(7);
        assert_eq!(id_in_copy(copy, "msg_1"), id_in_copy(copy, "msg_1"));
        let ids = ["", "msg_1", "msg_2", "2_gsm", "stk_001"].map(|id| id_in_copy(copy, id));
        for (index, id) in ids.iter().enumerate() {
            assert!(!ids[..index].contains(id) && *id != id_in_copy(Uuid::from_u128(8), "msg_1"));
        }
        assert!(
            ids.iter()
                .all(|id| is_in_copy(copy, id) && !is_in_copy(Uuid::from_u128(8), id))
        );
        assert!(!is_in_copy(copy, "msg_1"));
        assert_eq!(ids[1], "f1f90b7b-f005-8901-9de3-cb9ae970bed9");
    }
}
