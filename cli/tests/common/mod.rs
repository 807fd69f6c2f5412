//! The real binary, run in a folder of its own.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of it"
)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// Where one test works.
pub struct Place {
    folder: tempfile::TempDir,
}

/// What the binary said, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A place in memory, where the system has such a folder: nothing waits for a disk there.
    pub fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self {
            folder: folder.unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runlog"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("RUNLOG_STORE")
            .env("NO_COLOR", "1");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `runlog` with these arguments, in the place's folder, so that the store is its `runlog-data`.
    pub fn runlog(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).output().unwrap())
    }

    /// The same, and it has to end with this code.
    #[track_caller]
    pub fn expect(&self, code: i32, arguments: &[&str]) -> Said {
        let said = self.runlog(arguments);
        assert_eq!(said.code, code, "runlog {arguments:?}: {said:#?}");
        said
    }

    /// The same with something to read on standard input.
    pub fn with_input(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        said(child.wait_with_output().unwrap())
    }

    /// Records what a scripted agent does; gives what `runlog run` said.
    pub fn script(&self, with: &[&str], steps: &[&str]) -> Said {
        said(self.scripted(with, steps).output().unwrap())
    }

    pub fn scripted(&self, with: &[&str], steps: &[&str]) -> Command {
        let mut arguments = vec!["run"];
        arguments.extend(with);
        arguments.extend(["--", env!("CARGO_BIN_EXE_scripted-agent"), "--"]);
        arguments.extend(steps);
        self.command(&arguments)
    }
}

impl Said {
    /// The lines of standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let read =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(read).collect()
    }
}

pub fn said(output: std::process::Output) -> Said {
    Said {
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    path.display().to_string()
}

/// A process that doesn't outlive its test.
pub struct Ends(pub Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
