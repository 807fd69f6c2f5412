//! Processes of their own: those that open a store with empty hands, and those that are killed while they write.

use std::{
    env, io,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    events::Pool,
    stores::{Peer, Promise},
};

/// The stream that those who are killed append to.
const STREAM: u32 = 1 << 20;
const BATCH: u64 = 100;

/// Seconds that a new process takes to open a store.
pub fn open(peer: &str, path: &Path) -> io::Result<f64> {
    let output = child(&["open", peer], path)?
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds = text
        .lines()
        .last()
        .and_then(|line| line.trim().parse().ok());
    seconds.filter(|_| output.status.success()).ok_or_else(|| {
        io::Error::other(format!(
            "the process to open it: {}, and said {text:?}",
            output.status
        ))
    })
}

/// Has a new process append durably, and kills it with SIGKILL once that is acknowledged.
pub fn append_and_be_killed(peer: &str, path: &Path, events: u64) -> io::Result<()> {
    let mut child = child(&["append", peer, &events.to_string()], path)?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        let mut lines = BufReader::new(output);
        while said.trim() != "ready" {
            said.clear();
            if lines.read_line(&mut said)? == 0 {
                break;
            }
        }
    }
    child.kill()?;
    child.wait()?;
    if said.trim() == "ready" {
        Ok(())
    } else {
        Err(io::Error::other("the process to be killed ended before"))
    }
}

fn child(words: &[&str], path: &Path) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("child").args(words).arg(path);
    Ok(command)
}

/// The child's side.
pub fn main(words: &[&str]) -> io::Result<()> {
    match words {
        ["open", peer, path] => {
            let open = Peer::named(peer)?.open;
            let clock = Instant::now();
            let store = open(Path::new(path), Promise::Buffered)?;
            let seconds = clock.elapsed().as_secs_f64();
            store.close()?;
            println!("\n{seconds}");
            Ok(())
        }
        ["append", peer, events, path] => {
            let events: u64 = events.parse().map_err(io::Error::other)?;
            let (pool, store) = (
                Pool::new(),
                (Peer::named(peer)?.open)(Path::new(path), Promise::Durable)?,
            );
            for batch in 0..events / BATCH {
                store.append(STREAM, &pool.batch(batch * BATCH, BATCH))?;
            }
            println!("\nready");
            io::stdout().flush()?;
            // Long enough to be killed; not for ever, so that nothing stays behind when the parent is gone.
            thread::sleep(Duration::from_secs(60));
            store.close()
        }
        _ => Err(io::Error::other(format!(
            "unknown work for a child process: {words:?}"
        ))),
    }
}
