//! Running an agent: a program that speaks the protocol of docs/agent-protocol.md on its standard input and
//! output.

mod ask;
mod child;
mod event;
mod inbox;
mod parent_death;
mod play;
mod protocol;
mod recorder;
mod spawn;

pub(crate) use child::{Child, Stopper};
pub(crate) use event::Ended;
pub(crate) use play::{Conclusion, opening, record, reply};
pub(crate) use protocol::{Ack, Refusal, Step, UNSUPPORTED_PROTOCOL};
pub(crate) use recorder::{Recorded, Recorder};
pub(crate) use spawn::Spawner;
