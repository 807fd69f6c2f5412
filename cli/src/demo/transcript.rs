//! The transcript that the demo records.

/// OpenAI-style messages, a line each.
const TRANSCRIPT: &str = include_str!("../../demo/transcript.jsonl");

/// The messages of the transcript, byte for byte.
pub(super) fn messages() -> Vec<&'static str> {
    TRANSCRIPT.lines().collect()
}
