//! [`die_with_parent`]: an agent's program doesn't outlive the process that records it, however that ends.

use std::process::Command;

/// Makes the system kill the program when this process ends, even by `SIGKILL`, so that it doesn't run concurrently
/// with the one that the next process resumes. The thread that starts it must live until the program has ended.
#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "only between fork and exec can this be asked for"
)]
pub(super) fn die_with_parent(command: &mut Command) -> &mut Command {
    use std::{io, os::unix::process::CommandExt};

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let recorder = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before this call.
        if getppid() == Some(recorder) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(tie) }
}

/// On other systems its standard input is closed, and its output is dropped.
#[cfg(not(target_os = "linux"))]
pub(super) fn die_with_parent(command: &mut Command) -> &mut Command {
    command
}
