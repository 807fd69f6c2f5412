//! [`Global`]: the options of every command.

use std::{env, path::PathBuf};

/// The help heading of the options of every command.
const GLOBAL: &str = "Options of every command";

/// What every command takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Global {
    /// The folder of the store; made by `import` and `run` when it isn't there [env: RUNLOG_STORE] [default:
    /// ./runlog-data]
    // The environment is the default here, not clap's `env`: what that gives is shown in usage lines as if it had to be
    // given.
    #[arg(long, global = true, help_heading = GLOBAL, default_value_os_t = default_store(), hide_default_value = true, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// How many seconds to wait for another process to let go of the store, where it is to be written
    #[arg(long, global = true, help_heading = GLOBAL, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) lock_timeout: u64,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
}

/// The store where `--store` isn't given.
fn default_store() -> PathBuf {
    env::var_os("RUNLOG_STORE")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from("./runlog-data"), PathBuf::from)
}
