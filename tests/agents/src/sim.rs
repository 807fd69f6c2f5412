//! The whole orchestration in one thread, with a clock that jumps, over a storage that fails: a seed says in which
//! order tasks go on, what agents do, what is cancelled, and when the power goes. The same seed does the same again.
//!
//! `scheduler` runs the tasks and keeps the time, `backend` has every call of the store give way to others,
//! `agents` does what agents do, and `life` begins and ends processes. What callers were told is kept in a
//! `ledger`; `laws` hold it, and the log as `facts` reads it, against what must always be so.

mod agents;
mod backend;
mod chaos;
mod facts;
mod laws;
mod ledger;
mod life;
mod scheduler;

pub use life::{Figures, Outcome, run};
