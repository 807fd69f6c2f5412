//! What the process that appends and the tests that kill it agree on.

use runlog_engine::StreamId;

/// The stream of a thread.
pub fn stream(thread: u64) -> StreamId {
    StreamId::from_bytes(u128::from(thread + 1).to_be_bytes())
}

/// The payload of a thread's record: up to 3,000 bytes that only these two numbers give.
pub fn payload(thread: u64, sequence: u64) -> Vec<u8> {
    let word = (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ sequence.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let length = usize::try_from(word % 3000).unwrap_or(0);
    word.to_le_bytes()
        .into_iter()
        .cycle()
        .take(length)
        .collect()
}
