//! The demo's steps, and the agent that it records.

mod agent;
mod steps;

pub(crate) use agent::agent;
pub(crate) use steps::Steps;

/// The transcript that the demo records: OpenAI-style messages, a line each.
const TRANSCRIPT: &str = include_str!("../../demo/transcript.jsonl");

/// The messages of the transcript, byte for byte.
fn messages() -> Vec<&'static str> {
    TRANSCRIPT.lines().collect()
}
