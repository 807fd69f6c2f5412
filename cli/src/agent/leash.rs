//! [`leashed`]: an agent's program doesn't outlive the process that records it, however that ends.

use std::process::Command;

/// Has the system kill the program when this process is gone, `SIGKILL` included, so that it doesn't go on beside the one
/// that the next process resumes. The thread that starts it has to stay until it has ended.
#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "only between fork and exec can this be asked for"
)]
pub(super) fn leashed(command: &mut Command) -> &mut Command {
    use std::{io, os::unix::process::CommandExt};

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let recorder = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have gone before the system was asked.
        if getppid() == Some(recorder) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(tie) }
}

/// Elsewhere its standard input ends, and what it writes goes nowhere.
#[cfg(not(target_os = "linux"))]
pub(super) fn leashed(command: &mut Command) -> &mut Command {
    command
}
