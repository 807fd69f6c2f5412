//! Tests on file systems of their own: a mount namespace that ends with the process, and file systems mounted in it.
//!
//! Such a test needs root, or a user namespace, or more. Where the system doesn't give that, it was not run: [`main`],
//! which speaks as the usual harness does, counts it as ignored and says why, and never as passed.

use std::{
    fs::{self, File},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use runlog_engine::{
    Durability, ErrorKind, Expected, NewRecord, OpenOptions, Preallocation, Sequence, Store,
};

use crate::{
    checker,
    processes::{payload, stream},
};

/// A test and its name. It panics when it fails, and says why when it can't be run here.
pub type Test = (&'static str, fn() -> Result<(), NotRun>);

/// Why a test was not run.
#[derive(Clone, Debug)]
pub struct NotRun(pub String);

const INSIDE: &str = "RUNLOG_TESTS_MOUNT_NAMESPACE";

/// The `main` of a test without harness: runs those that the arguments choose, in a mount namespace.
pub fn main(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<_> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let chosen =
        |(name, _): &&Test| filters.is_empty() || filters.iter().any(|part| name.contains(*part));
    let chosen: Vec<Test> = tests.iter().filter(chosen).copied().collect();
    let filtered = tests.len() - chosen.len();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(INSIDE).is_some() {
        return run(&chosen, filtered, |test| test());
    }
    match namespace() {
        Some(flags) => {
            let exe = std::env::current_exe().expect("this program has a path");
            let status = Command::new("unshare")
                .arg(flags)
                .arg(exe)
                .args(&arguments)
                .env(INSIDE, "1")
                .status();
            ExitCode::from(if status.is_ok_and(|status| status.success()) {
                0
            } else {
                101
            })
        }
        None => run(&chosen, filtered, |_| {
            Err(NotRun("this system lets nobody mount".to_owned()))
        }),
    }
}

fn run(
    tests: &[Test],
    filtered: usize,
    run: impl Fn(fn() -> Result<(), NotRun>) -> Result<(), NotRun>,
) -> ExitCode {
    println!("\nrunning {} tests", tests.len());
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, test) in tests {
        let word = match catch_unwind(AssertUnwindSafe(|| run(*test))) {
            Ok(Ok(())) => {
                passed += 1;
                "ok"
            }
            Ok(Err(NotRun(why))) => {
                ignored += 1;
                eprintln!("{name}: not run: {why}");
                "ignored"
            }
            Err(_) => {
                failed += 1;
                "FAILED"
            }
        };
        println!("test {name} ... {word}");
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {filtered} filtered \
         out; finished in 0.00s\n"
    );
    ExitCode::from(if failed == 0 { 0 } else { 101 })
}

/// How to get a mount namespace in which a mount works, if there is a way.
fn namespace() -> Option<&'static str> {
    let works = |flags: &&str| {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Command::new("unshare")
            .args([flags, "mount", "-t", "tmpfs", "none"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|output| output.status.success())
    };
    ["-m", "-rm"].into_iter().find(works)
}

/// Runs a program to its end.
///
/// # Errors
/// What it said when it failed.
pub fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let said = || {
        format!(
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    };
    output.status.success().then_some(()).ok_or_else(said)
}

/// A mounted file system, unmounted when this is dropped.
#[derive(Debug)]
pub struct Mount {
    folder: PathBuf,
}

impl Mount {
    /// Calls `mount` with these arguments and the folder.
    ///
    /// # Errors
    /// What `mount` said.
    pub fn new(arguments: &[&str], folder: &Path) -> Result<Self, String> {
        succeeds(Command::new("mount").args(arguments).arg(folder))?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// A file system in memory, of some MiB.
    ///
    /// # Errors
    /// What `mount` said.
    pub fn tmpfs(mebibytes: u32, folder: &Path) -> Result<Self, String> {
        Self::new(
            &["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "none"],
            folder,
        )
    }

    /// The file system in a file, through a loop device that goes when it is unmounted.
    ///
    /// # Errors
    /// What `mount` said.
    pub fn image(image: &Path, options: &str, folder: &Path) -> Result<Self, String> {
        let image = image.to_str().ok_or("the path is no text")?;
        Self::new(&["-o", &format!("loop,{options}"), image], folder)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Mounts it anew with other options.
    ///
    /// # Errors
    /// What `mount` said.
    pub fn remount(&self, options: &str) -> Result<(), String> {
        succeeds(
            Command::new("mount")
                .args(["-o", &format!("remount,{options}")])
                .arg(&self.folder),
        )
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A process that ends just now may have it open still.
        for _ in 0..100 {
            if succeeds(Command::new("umount").arg(&self.folder)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = succeeds(Command::new("umount").arg("-l").arg(&self.folder));
    }
}

/// A kind of file system, and how one is made.
#[derive(Debug)]
pub struct FileSystem {
    /// What it is called.
    pub name: &'static str,
    /// How large it has to be at least; 0 for one in memory, which may have any size.
    mebibytes: u64,
    /// So much of what it says is free it keeps to itself.
    kept_mebibytes: u64,
    make: &'static [&'static str],
}

/// In memory.
pub const TMPFS: FileSystem = FileSystem {
    name: "tmpfs",
    mebibytes: 0,
    kept_mebibytes: 0,
    make: &[],
};
/// Journals its metadata, and writes data in place.
pub const EXT4: FileSystem = FileSystem {
    name: "ext4",
    mebibytes: 32,
    kept_mebibytes: 0,
    make: &["-q", "-b", "4096", "-m", "0", "-J", "size=4"],
};
/// Reserves room for data long before it chooses where that lies.
pub const XFS: FileSystem = FileSystem {
    name: "xfs",
    mebibytes: 320,
    kept_mebibytes: 0,
    make: &["-q"],
};
/// Never overwrites: what is written again needs room as what is new. Data and metadata have the same room here.
pub const BTRFS: FileSystem = FileSystem {
    name: "btrfs",
    mebibytes: 128,
    kept_mebibytes: 2,
    make: &["-q", "-M"],
};

/// A file system that is soon full.
pub struct Device {
    /// Where it is mounted.
    pub mount: Mount,
    _folder: tempfile::TempDir,
}

impl Device {
    /// One in memory, of some MiB.
    pub fn new(mebibytes: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Mount::tmpfs(mebibytes, folder.path()).expect("it was tried before");
        Self {
            mount,
            _folder: folder,
        }
    }

    /// One of a kind, with so many MiB left.
    ///
    /// # Errors
    /// Where it can't be made or mounted here.
    pub fn of(kind: &FileSystem, mebibytes: u32) -> Result<Self, NotRun> {
        if kind.mebibytes == 0 {
            return Ok(Self::new(mebibytes));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let [image, on] = ["image", "on"].map(|name| folder.path().join(name));
        File::create(&image)
            .and_then(|file| file.set_len(kind.mebibytes << 20))
            .expect("it is sparse");
        fs::create_dir(&on).expect("a folder");
        succeeds(
            Command::new(format!("mkfs.{}", kind.name))
                .args(kind.make)
                .arg(&image),
        )
        .map_err(NotRun)?;
        let device = Self {
            mount: Mount::image(&image, "rw", &on).map_err(NotRun)?,
            _folder: folder,
        };
        device.leave((u64::from(mebibytes) + kind.kept_mebibytes) << 20)?;
        Ok(device)
    }

    /// Takes all room but so much.
    fn leave(&self, bytes: u64) -> Result<(), NotRun> {
        let output = Command::new("df")
            .args(["--output=avail", "-B1"])
            .arg(self.mount.folder())
            .output();
        let output = output.map_err(|error| NotRun(format!("df: {error}")))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let free: Option<u64> = said
            .lines()
            .nth(1)
            .and_then(|line| line.trim().parse().ok());
        let free = free.ok_or_else(|| NotRun(format!("df says: {said}")))?;
        let taken = free.saturating_sub(bytes).to_string();
        succeeds(
            Command::new("fallocate")
                .args(["-l", &taken])
                .arg(self.mount.folder().join("taken")),
        )
        .map_err(NotRun)
    }

    /// The folder of a store on it.
    pub fn store(&self) -> PathBuf {
        self.mount.folder().join("store")
    }

    /// Options with segments of 1 MiB.
    pub fn options(&self, durability: Durability, preallocation: Preallocation) -> OpenOptions {
        OpenOptions {
            durability,
            preallocation,
            segment_bytes_max: 1 << 20,
            ..OpenOptions::default()
        }
    }
}

/// Appends until it fails: the last sequence that was acknowledged, and the kind of error.
pub fn fill(store: &Store, from: u64) -> (u64, ErrorKind) {
    for sequence in from + 1.. {
        let payload = payload(0, sequence);
        match store.append(stream(0), Expected::Any, &[NewRecord::data(&payload)]) {
            // What was refused is not there.
            Ok(appended) => assert_eq!(
                appended.ops[0].last_sequence,
                Sequence(sequence),
                "after a refusal"
            ),
            Err(error) => return (sequence - 1, error.kind()),
        }
    }
    unreachable!("a device is full some time")
}

/// All that was acknowledged is there, and at most so many more.
pub fn check(folder: &Path, acknowledged: u64, more: u64) -> u64 {
    let checked = checker::check(folder).expect("a sound store");
    let streams = checked.streams();
    let records = &streams.first().expect("one stream").1;
    for (sequence, _, _, _, found) in records {
        assert!(*found == payload(0, *sequence), "sequence {sequence}");
    }
    let count = records.len() as u64;
    assert!(
        (acknowledged..=acknowledged + more).contains(&count),
        "{acknowledged} were acknowledged, {count} are there"
    );
    count
}
