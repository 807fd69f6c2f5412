//! Writing a run while it happens.

mod calls;
mod describe;
mod entries;
mod known_calls;
mod open;
mod record;
mod repeat;
mod several;
mod state;
mod status;

pub use entries::RunEntry;
pub(super) use known_calls::SEARCHED_MAX;
pub use state::{Recorded, RunRecorder};
