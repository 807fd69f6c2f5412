//! A process that is killed as it is about to write for the n-th time, by way of ptrace: nothing in the binary knows
//! of it, and what is left is what SIGKILL leaves.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::{
    errno::Errno,
    libc,
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::common::Said;

/// What a write is called that flushes as well, which is how the log is written.
pub(crate) const DURABLE: &str = "durable write";
/// The flag of an open that may make a file.
const O_CREAT: u64 = 0o100;
/// The shell stops itself, so that the program is traced from its first call on.
const STOPPED: &str = "kill -STOP $$; exec \"$0\" \"$@\"";

/// What became of a traced process.
pub(crate) struct Traced {
    /// Whether it was killed; else it ended by itself, with fewer writes.
    pub(crate) is_killed: bool,
    /// Its writes, the one included that it was killed before.
    pub(crate) writes: Vec<String>,
    /// What it had said by then, and how it ended.
    pub(crate) said: Said,
}

/// Runs a command, and kills it as it is about to change something in `folder` for the `nth` time. Its threads are
/// watched with it, the processes that it starts aren't.
#[allow(
    clippy::zombie_processes,
    reason = "it is waited for by its number, as its threads are"
)]
pub(crate) fn run(command: &Command, folder: &Path, nth: usize) -> Traced {
    let (out, err) = (
        tempfile::NamedTempFile::new().unwrap(),
        tempfile::NamedTempFile::new().unwrap(),
    );
    let mut stopped = Command::new("sh");
    stopped
        .args(["-c", STOPPED])
        .arg(command.get_program())
        .args(command.get_args());
    stopped
        .current_dir(command.get_current_dir().unwrap())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => stopped.env(name, value),
            None => stopped.env_remove(name),
        };
    }
    // Files: whoever reads a pipe would have to do it beside the tracing.
    stopped
        .stdout(File::create(out.path()).unwrap())
        .stderr(File::create(err.path()).unwrap());
    let child = stopped.spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let (folder, in_call, writes) = (folder.to_owned(), HashSet::new(), Vec::new());
    let mut watch = Watch {
        pid,
        folder,
        in_call,
        nth,
        is_killed: false,
        writes,
    };
    let status = watch.run();
    let code = match status {
        WaitStatus::Exited(_, code) => code,
        _ => -1,
    };
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let said = Said {
        out: read(out.path()),
        err: read(err.path()),
        code,
    };
    Traced {
        is_killed: watch.is_killed,
        writes: watch.writes,
        said,
    }
}

struct Watch {
    pid: Pid,
    folder: PathBuf,
    /// The threads that are between the beginning of a call and its end.
    in_call: HashSet<Pid>,
    /// Which write it is killed before.
    nth: usize,
    is_killed: bool,
    writes: Vec<String>,
}

impl Watch {
    /// Follows the process to its end.
    fn run(&mut self) -> WaitStatus {
        let stopped = waitpid(self.pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
        let options = Options::PTRACE_O_EXITKILL
            | Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE;
        ptrace::seize(self.pid, options)
            .expect("this test traces its children; a sandbox that forbids ptrace forbids it");
        kill(self.pid, Signal::SIGCONT).unwrap();
        loop {
            // Those of this thread alone: the other tests wait for children of their own.
            let status =
                waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)).unwrap();
            match status {
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) if pid == self.pid => {
                    return status;
                }
                WaitStatus::PtraceSyscall(thread) => {
                    if self.in_call.insert(thread) {
                        self.call(thread);
                    } else {
                        self.in_call.remove(&thread);
                    }
                    go_on(thread, None);
                }
                WaitStatus::PtraceEvent(thread, ..) => go_on(thread, None),
                WaitStatus::Stopped(thread, signal) => go_on(thread, Some(signal)),
                _ => {}
            }
        }
    }

    /// A thread is about to do this call.
    fn call(&mut self, thread: Pid) {
        if self.is_killed {
            return;
        }
        let Some(write) = self.write_of(thread) else {
            return;
        };
        self.writes.push(write);
        if self.writes.len() == self.nth {
            // A call that hasn't begun yet isn't done any more.
            kill(self.pid, Signal::SIGKILL).unwrap();
            self.is_killed = true;
        }
    }

    /// What the call is to change in the folder, if it changes anything there. Flushes don't count: what was written
    /// survives a killed process without them.
    fn write_of(&self, thread: Pid) -> Option<String> {
        let call = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        let mut words = call.split(' ');
        let number: libc::c_long = words.next()?.parse().ok()?;
        let arguments: Vec<u64> = words
            .map_while(|word| u64::from_str_radix(word.trim().trim_start_matches("0x"), 16).ok())
            .collect();
        let on_file = |name: &str| {
            let file = fs::read_link(format!("/proc/{thread}/fd/{}", arguments.first()?)).ok()?;
            file.starts_with(&self.folder)
                .then(|| format!("{name} of {}", file.display()))
        };
        let made = |name: &str, flags: u64| (flags & O_CREAT != 0).then(|| name.to_owned());
        match number {
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev => {
                on_file("write")
            }
            libc::SYS_pwritev2 => on_file(DURABLE),
            libc::SYS_ftruncate => on_file("ftruncate"),
            libc::SYS_fallocate => on_file("fallocate"),
            libc::SYS_openat => made("openat", *arguments.get(2)?),
            libc::SYS_renameat | libc::SYS_renameat2 => Some("rename".to_owned()),
            libc::SYS_unlinkat => Some("unlink".to_owned()),
            libc::SYS_linkat => Some("link".to_owned()),
            libc::SYS_mkdirat => Some("mkdir".to_owned()),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => made("open", *arguments.get(1)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_unlink | libc::SYS_link | libc::SYS_mkdir => {
                Some(format!("call {number} on a name"))
            }
            _ => None,
        }
    }
}

/// Lets a thread run up to its next call, or the end of the one it is in.
fn go_on(thread: Pid, signal: Option<Signal>) {
    match ptrace::syscall(thread, signal) {
        // It was killed meanwhile.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("can't go on with thread {thread}: {error}"),
    }
}
