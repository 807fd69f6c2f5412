//! Child processes: those that are killed while they write, and those that open a store with cold memory.

use std::{
    fs, io,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{runs, subject};

/// The measurements of a process that opened a store.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// How long opening took, within the process.
    pub seconds: f64,
    /// The memory that the process then had resident; NaN where the system does not tell.
    pub resident_bytes: f64,
}

/// Opens a store in a new process, which closes it again.
///
/// # Errors
///
/// When the process cannot be started or fails.
pub fn open(program: &Path, store: &Path) -> io::Result<Opening> {
    let [seconds, resident_bytes] = ask(program, "open", store)?;
    Ok(Opening {
        seconds,
        resident_bytes,
    })
}

/// Opens a store of runs in a new process, which closes it again.
///
/// # Errors
///
/// When the process cannot be started or fails.
pub fn open_runs(program: &Path, store: &Path) -> io::Result<runs::Opening> {
    let [
        engine_seconds,
        runs_seconds,
        sessions_seconds,
        runs_bytes,
        sessions_bytes,
    ] = ask(program, "open runs", store)?;
    Ok(runs::Opening {
        engine_seconds,
        runs_seconds,
        sessions_seconds,
        runs_bytes,
        sessions_bytes,
    })
}

/// Runs an operation on a store in a new process, and returns the numbers it prints.
fn ask<const COUNT: usize>(program: &Path, work: &str, store: &Path) -> io::Result<[f64; COUNT]> {
    let output = Command::new(program)
        .arg("child")
        .arg(work)
        .arg(store)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match <[f64; COUNT]>::try_from(numbers) {
        Ok(numbers) if output.status.success() => Ok(numbers),
        _ => Err(io::Error::other(format!(
            "the process to {work}: {}, and said {text:?}",
            output.status
        ))),
    }
}

/// How a process wrote before it is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// Each batch of 100 was on the device when it was acknowledged.
    Durable,
    /// The operating system had the events; up to a whole segment of them was not on the device.
    Buffered,
}

impl Writes {
    const fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Buffered => "buffered",
        }
    }
}

/// Appends this many events in a new process, and kills it with SIGKILL once they are acknowledged.
///
/// # Errors
///
/// When the process cannot be started, or ends before it is killed.
pub fn append_and_be_killed(
    program: &Path,
    store: &Path,
    writes: Writes,
    events: u64,
) -> io::Result<()> {
    let mut child = Command::new(program)
        .arg("child")
        .arg(writes.name())
        .arg(store)
        .arg(events.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = first_line(&mut child);
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    match (said?.trim(), ended) {
        ("ready", None) => Ok(()),
        (said, ended) => Err(io::Error::other(format!(
            "the process to be killed: {ended:?}, and said {said:?}"
        ))),
    }
}

fn first_line(child: &mut Child) -> io::Result<String> {
    let output = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("the process has no output"))?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}

/// The child's side: executes the arguments after `child`.
///
/// # Errors
///
/// Those of the engine, and arguments that make no sense.
pub fn main(arguments: &[String]) -> io::Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["open", store] => {
            let start = Instant::now();
            let store = subject::open(Path::new(store))?;
            let seconds = start.elapsed().as_secs_f64();
            println!("{seconds} {}", resident_bytes());
            subject::close(store)
        }
        ["open runs", store] => {
            let runs::Opening {
                engine_seconds,
                runs_seconds,
                sessions_seconds,
                runs_bytes,
                sessions_bytes,
            } = runs::open(Path::new(store))?;
            println!(
                "{engine_seconds} {runs_seconds} {sessions_seconds} {runs_bytes} {sessions_bytes}"
            );
            Ok(())
        }
        [writes @ ("durable" | "buffered"), store, events] => {
            let (path, events) = (Path::new(store), events.parse().map_err(io::Error::other)?);
            let store = if *writes == Writes::Durable.name() {
                let store = subject::open(path)?;
                subject::append_in_batches(&store, events)?;
                store
            } else {
                let store = subject::open_buffered(path)?;
                subject::append_buffered(&store, events)?;
                store
            };
            println!("ready");
            io::stdout().flush()?;
            // Long enough to be killed; not for ever, so that nothing stays behind when the parent is gone.
            thread::sleep(Duration::from_secs(60));
            subject::close(store)
        }
        _ => Err(io::Error::other(format!(
            "unknown work for a child process: {arguments:?}"
        ))),
    }
}

/// The resident memory of this process, and what of it is no mapped file; NaN where the system does not tell.
#[must_use]
pub fn memory_bytes() -> (f64, f64) {
    (resident_bytes(), anonymous_bytes())
}

/// The resident memory of this process; NaN where the system does not tell.
fn resident_bytes() -> f64 {
    status_bytes("VmRSS:")
}

/// The same without the files that it has mapped.
pub(crate) fn anonymous_bytes() -> f64 {
    status_bytes("RssAnon:")
}

fn status_bytes(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}
