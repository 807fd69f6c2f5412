//! Child processes: always from the workspace root, their output streamed while they run.

use std::{
    env,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// The workspace root, which holds `xtask/`.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that runs in the workspace root as if a person had typed it there.
///
/// The variables that `cargo run` sets for this process's own package are removed: build scripts that watch them would
/// otherwise run again at each `cargo xtask`.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// The cargo that runs this process.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs to the end with the terminal as it is.
pub(crate) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    announce(command);
    command.status()
}

/// Runs to the end; passes standard output on as it comes, and shows each finished line to `on_line`.
pub(crate) fn run_watched(
    command: &mut Command,
    mut on_line: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    announce(command);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = child
        .stdout
        .take()
        .expect("standard output was asked for as a pipe");
    let mut terminal = io::stdout().lock();
    let mut chunk = [0; 4096];
    let mut line = Vec::new();
    loop {
        let count = match output.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let chunk = chunk.get(..count).unwrap_or(&[]);
        terminal.write_all(chunk)?;
        terminal.flush()?;
        for &byte in chunk {
            if byte == b'\n' {
                on_line(&String::from_utf8_lossy(&line));
                line.clear();
            } else {
                line.push(byte);
            }
        }
    }
    if !line.is_empty() {
        on_line(&String::from_utf8_lossy(&line));
    }
    child.wait()
}

/// Another verb of this program's that works beside this one, to have done what this one needs later. It prints nothing: what
/// it could not do is tried again, and reported, by whoever needs it.
pub(crate) struct Beside(Option<Child>);

impl Beside {
    pub(crate) fn start(verb: &str) -> Self {
        let program = env::current_exe();
        let started = program.and_then(|program| {
            command(program)
                .arg(verb)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        });
        Self(started.ok())
    }

    /// Waits for its end.
    pub(crate) fn wait(self) {
        if let Some(mut child) = self.0 {
            child.wait().ok();
        }
    }
}

/// What a command prints on standard output, or `None` when it cannot be run or fails.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn announce(command: &Command) {
    let mut words = vec![
        Path::new(command.get_program())
            .file_stem()
            .unwrap_or(command.get_program())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned()),
    );
    eprintln!("\n$ {}", words.join(" "));
}
