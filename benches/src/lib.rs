//! What the benchmarks share: raw [floors](floor) of this machine, the [workload] and where it is kept, the
//! [subject] they measure, the [request] of a chat, stores with many [runs], [processes](children) that open it and are killed, [conversations] of agents, [ways to measure](measure) that survive a
//! noisy disk, and the [table] of results.
//!
//! A number of events per second says more of a disk than of a store. So each operation stands beside a floor: the
//! least that any store has to do for the same promise, measured in the same minute on the same file system.
//! `cargo xtask ratios` interleaves the two and prints their ratio; `cargo xtask bench` gives criterion's view of each.

pub mod children;
pub mod conversations;
pub mod counting;
pub mod floor;
pub mod measure;
pub mod request;
pub mod runs;
pub mod subject;
pub mod table;
pub mod workload;
