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

/// What the agent is told when it is resumed.
const GO_ON: &str = "Go on.";

/// Whether a message is what the agent is told when it is resumed, and not one of the transcript.
fn is_go_on(message: &str) -> bool {
    runlog::NewMessage::user(GO_ON).to_json().is_ok_and(|told| told.as_str() == message)
}
