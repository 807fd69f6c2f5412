//! What agents do all day: a conversation that grows, is resumed, and is forked, a hundred times.

use std::{hint::black_box, io, time::Instant};

use crate::{
    events::{event, message_bytes},
    run::{Better, Measured, Run, bytes_on_disk},
    stores::{Has, Promise, Store},
};

const RESUMES: u32 = 100;
/// The messages of one resume, and of one fork, each durable before the next.
const MESSAGES: u64 = 20;
const FORK_MESSAGES: u64 = 5;

const SECONDS: Measured = Measured {
    name: "a conversation resumed and forked 100 times",
    unit: "s",
    better: Better::Lower,
};
const DISK: Measured = Measured {
    name: "the same: bytes on disk for each that was said",
    unit: "bytes",
    better: Better::Lower,
};

pub fn measure(run: &mut Run) -> io::Result<()> {
    if !run.wants(&[SECONDS, DISK]) {
        return Ok(());
    }
    // What is said is made before, so that nobody is measured making it.
    let messages: Vec<Vec<u8>> = (0..u64::from(RESUMES) * (MESSAGES + FORK_MESSAGES))
        .map(|number| event(number, message_bytes(number)))
        .collect();
    let said: usize = messages.iter().map(Vec::len).sum();
    run.rounds(SECONDS.name, |run, _, peer| {
        let (name, open) = (run.peers[peer].name, run.peers[peer].open);
        if run.peers[peer].has != Has::Streams {
            return Ok(());
        }
        let path = run.path("conversations", name);
        let store = open(&path, Promise::Durable)?;
        let clock = Instant::now();
        converse(&*store, &messages)?;
        run.figure(SECONDS, name, clock.elapsed().as_secs_f64());
        store.close()?;
        run.figure(DISK, name, bytes_on_disk(&path)? / said as f64);
        run.remove("conversations", name)
    });
    Ok(())
}

/// Reads the conversation so far, goes on with it, forks it, and goes on with the fork.
fn converse(store: &dyn Store, messages: &[Vec<u8>]) -> io::Result<()> {
    let mut messages = messages.iter().map(Vec::as_slice);
    let mut length = 0;
    for resume in 0..RESUMES {
        if resume > 0 {
            let mut seen = 0;
            store.read(0, &mut |event| {
                black_box((event.first(), event.last()));
                seen += 1;
            })?;
            if seen != length {
                return Err(io::Error::other(format!(
                    "{seen} of {length} messages came back"
                )));
            }
        }
        for message in messages.by_ref().take(MESSAGES as usize) {
            store.append(0, &[message])?;
            length += 1;
        }
        store.fork(0, length, resume + 1)?;
        for message in messages.by_ref().take(FORK_MESSAGES as usize) {
            store.append(resume + 1, &[message])?;
        }
    }
    Ok(())
}
