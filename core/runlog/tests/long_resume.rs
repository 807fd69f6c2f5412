//! A resume reads the whole context, which may be long: other tasks of the thread run meanwhile.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use runlog::{
    NewMessage, NewRun, NewSession, Store,
    runs::{ResumeOptions, ResumedRun},
};

struct Woken {
    times: AtomicUsize,
    by: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.by.unpark();
    }
}

/// Polls a resume whenever it is woken, until it is ready; returns how often it was.
fn polled(resume: impl Future<Output = runlog::Result<ResumedRun>>) -> (usize, ResumedRun) {
    let woken = Arc::new(Woken {
        times: AtomicUsize::new(0),
        by: thread::current(),
    });
    let waker = Waker::from(Arc::clone(&woken));
    let mut resume = pin!(resume);
    loop {
        if let Poll::Ready(resumed) = resume.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (woken.times.load(Ordering::SeqCst), resumed.unwrap());
        }
        thread::park();
    }
}

async fn paused(messages: usize, text: &str) -> (Store, runlog::RunId) {
    let store = Store::in_memory();
    let run = NewRun::in_new_session(NewSession::titled("Long"), "worker");
    let run = store.runs().start(run).await.unwrap();
    for _ in 0..messages {
        run.record_message(NewMessage::user(text)).await.unwrap();
    }
    run.pause("later").await.unwrap();
    (store, run.id())
}

#[test]
fn a_long_context_is_read_in_parts_between_which_others_run() {
    let text = "x".repeat(64 << 10);
    let (store, run) = pollster::block_on(paused(96, &text));
    let runs = store.runs();
    let (times, resumed) = polled(runs.resume(run, &ResumeOptions::default()));
    // 6 MiB, of which one read gives 1 MiB.
    assert!(times >= 6, "it was woken {times} times");
    assert_eq!(resumed.messages.len(), 97);
    let (store, run) = pollster::block_on(paused(1, "short"));
    let runs = store.runs();
    let (times, _) = polled(runs.resume(run, &ResumeOptions::default()));
    assert!(times <= 3, "it was woken {times} times");
}
