//! The demo's steps, and the agent that it records.

mod agent;
mod shell;
mod steps;
mod transcript;

pub(crate) use agent::{AGENT, agent};
pub(crate) use steps::Steps;
