//! A process that forks without starting another program has the store twice, and one lock: the child may not write.

#![cfg(unix)]
#![allow(unsafe_code, reason = "only the system forks")]

use std::path::{Path, PathBuf};

use runlog_engine::{
    Batch, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position, ReadOptions, Store, StreamId,
};

fn stream() -> StreamId {
    StreamId::from_bytes([1; 16])
}

fn append(store: &Store, payload: &[u8]) -> Result<(), runlog_engine::Error> {
    store
        .append(stream(), Expected::Any, &[NewRecord::data(payload)])
        .map(drop)
}

/// Every file of a folder, and what is in it.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries
        .map(|path| (path.clone(), std::fs::read(&path).expect("a file")))
        .collect();
    files.sort();
    files
}

/// Does something in a child process; whether it said yes.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does its work and ends, without returning to what the parent was doing. No other thread of the
    // parent holds a lock that the child needs: those of the store are idle, and the test harness waits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process can be made");
    if child == 0 {
        let code = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(_) => 2,
        };
        // SAFETY: it ends this process at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is a place to write to, and the child is this process's own.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(ended, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn is_refused<T>(result: Result<T, runlog_engine::Error>) -> bool {
    let Err(error) = result else { return false };
    error.kind() == ErrorKind::Closed
        && error.to_string().contains(&format!("process {}", parent()))
}

fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[test]
fn child_that_was_forked_writes_nothing_and_closes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = Store::open(&path, OpenOptions::default()).expect("a new store");
    append(&store, b"parent").expect("it is open");
    // The flusher and the keeper are there, as threads of the parent only.
    let in_line = Batch::new(vec![Op::Append {
        stream: stream(),
        expected: Expected::Any,
        records: vec![NewRecord::data(b"in line")],
    }]);
    store
        .stage(&in_line)
        .expect("it is open")
        .wait()
        .expect("it is written");
    let staged = store.stage(&in_line).expect("it is open");
    while store.last_position().expect("it reads") < Position(4) {
        std::thread::yield_now();
    }
    let before = files(&path);
    let mut staged = Some(staged);
    assert!(in_child(|| {
        let refused = is_refused(append(&store, b"child"))
            && is_refused(store.stage(&in_line).map(drop))
            && is_refused(store.sync())
            && is_refused(store.close());
        // It was written by the parent, and says so here too.
        let known = staged.take().expect("once").wait().is_ok();
        let reads = store
            .read(stream(), ReadOptions::default())
            .expect("it reads")
            .count()
            == 3;
        drop(store.clone());
        refused && known && reads
    }));
    assert_eq!(files(&path), before);
    assert!(in_child({
        let path = path.clone();
        move || {
            // The store's last handle here; the parent's lock stays.
            let refused =
                Store::open(&path, OpenOptions::default()).expect_err("the parent has it");
            refused.kind() == ErrorKind::Locked
        }
    }));
    append(&store, b"parent again").expect("it is still open");
    store.close().expect("it closes");
    drop(staged);
    drop(store);
    let store = Store::open(&path, OpenOptions::default()).expect("it was closed");
    assert!(store.recovery().clean);
    assert_eq!(
        store
            .read(stream(), ReadOptions::default())
            .expect("it reads")
            .count(),
        4
    );
}

#[test]
fn child_that_drops_the_last_handle_leaves_the_parents_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = Store::open(&path, OpenOptions::default()).expect("a new store");
    append(&store, b"parent").expect("it is open");
    let before = files(&path);
    let mut store = Some(store);
    assert!(in_child(|| {
        drop(store.take());
        true
    }));
    assert_eq!(files(&path), before);
    let refused = Store::open(&path, OpenOptions::default()).expect_err("the parent has it");
    assert_eq!(refused.kind(), ErrorKind::Locked);
    append(store.as_ref().expect("it is the parent's"), b"parent again").expect("it is still open");
}
