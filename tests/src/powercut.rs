//! A power cut below the file system: a disk that records what is written to it and when it is flushed, the states that
//! a loss of power may leave it in, and a workload whose every state is known.

pub mod disk;
pub mod image;
pub mod work;
