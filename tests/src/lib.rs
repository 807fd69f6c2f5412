//! What the whole-system tests of the log stand on. Those of runs and the orchestration are in `runlog-agent-tests`, above it.

pub mod alike;
pub mod answers;
pub mod beside;
pub mod budget;
pub mod checker;
pub mod command;
pub mod compare;
pub mod corruption;
pub mod damage;
pub mod driver;
pub mod faulty;
pub mod forge;
pub mod host;
pub mod hostile;
pub mod memory;
pub mod mend;
pub mod model;
pub mod mounts;
#[cfg(target_os = "linux")]
pub mod powercut;
pub mod processes;
pub mod random;
pub mod restarted;
pub mod script;
pub mod tally;
pub mod tapped;
