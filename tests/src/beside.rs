//! Reading beside a writer: what is to be written is decided, and what the store is after each batch of it is known, before
//! anything is written. Who reads meanwhile holds what it is given against that: it has to be what the store was at some time
//! between the question and the answer.

mod history;
mod looker;
mod stalls;

pub use history::{Given, Handle, History, Item, Progress, Shape, Window};
pub use looker::{Follower, Looker, Reads, Records};
pub use stalls::{Stalls, stalling};
