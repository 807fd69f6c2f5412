//! What tests of memory share. Each is a binary of its own, so that nothing else is measured with it.

use uuid::Uuid;

/// The pages of this process that are in memory, in bytes.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// An id as random as that of a UUID, from a number.
pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}
