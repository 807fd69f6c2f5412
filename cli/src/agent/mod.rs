//! Running an agent: a program that speaks the protocol of docs/agent-protocol.md on its standard input and
//! output.

mod child;
mod protocol;
mod recorder;

pub(crate) use child::{Child, ChildEvent, Ended, Opening};
pub(crate) use protocol::{Dangling, Hello, PROTOCOL, Ready, Refusal, ToAgent};
pub(crate) use recorder::{Recorded, Recorder};
