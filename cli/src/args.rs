//! [`Global`]: the options of every command.

use std::path::PathBuf;

/// The help heading of the options of every command.
const GLOBAL: &str = "Options of every command";

/// What every command takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Global {
    /// The folder of the store; made by `import` and `run` when it isn't there
    #[arg(long, global = true, help_heading = GLOBAL, env = "RUNLOG_STORE", default_value = "./runlog-data", value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// How many seconds to wait for another process to let go of the store, where it is to be written
    #[arg(long, global = true, help_heading = GLOBAL, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) lock_timeout: u64,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
}
