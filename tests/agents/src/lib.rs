//! What the whole-system tests of runs and the orchestration stand on. Those of the log below are in `runlog-tests`, which
//! knows nothing of runs.

pub mod agents;
pub mod sim;
pub mod tree;
