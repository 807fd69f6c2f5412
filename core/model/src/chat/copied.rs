//! The ids that messages and steps have in a copy of their chat: an id names one thing in the whole store.

use uuid::{Builder, Uuid};

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// What an id becomes in a copy: always the same, another in each copy, and none that there was before.
pub fn id_in_copy(copy: Uuid, id: &str) -> String {
    let bytes = copy.as_bytes().iter().chain(id.as_bytes());
    let hash = bytes.fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(FNV_PRIME)
    });
    Builder::from_custom_bytes(hash.to_be_bytes())
        .into_uuid()
        .to_string()
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
        assert_eq!(ids[1], "55ae3dc7-1cdc-8901-9de3-cb9ae970bed9");
    }
}
