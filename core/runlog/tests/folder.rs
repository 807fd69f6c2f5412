//! A store in a folder: what was recorded is there after reopening, beside a reader, and for the next writer.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

use std::{sync::Arc, thread};

use runlog::{ErrorKind, NewMessage, NewSession, StoreOptions, blocking::Store};
use runlog_engine::Position;

#[test]
fn what_was_recorded_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let (session, agent) = store
        .start_session(NewSession::named("trip"), "planner")
        .unwrap();
    for number in 0..50 {
        store
            .context(agent.id)
            .unwrap()
            .append_message(NewMessage::user(number.to_string()))
            .unwrap();
    }
    let messages = store.context(agent.id).unwrap().get_messages().unwrap();
    store.close().unwrap();
    let late = store
        .context(agent.id)
        .unwrap()
        .append_message(NewMessage::user("late"));
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);

    let store = Store::open(&path).unwrap();
    assert_eq!(store.find_session("trip").unwrap(), session);
    let agent = store.root_instance(session.id).unwrap();
    assert_eq!(
        store.context(agent.id).unwrap().get_messages().unwrap(),
        messages
    );
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path).unwrap();
    assert_eq!(Store::open(&path).unwrap_err().kind(), ErrorKind::Locked);
    let (_, agent) = writer
        .start_session(NewSession::default(), "planner")
        .unwrap();

    let reader = Store::open_read_only(&path).unwrap();
    let context = reader.context(agent.id).unwrap();
    writer
        .context(agent.id)
        .unwrap()
        .append_message(NewMessage::user("a"))
        .unwrap();
    assert_eq!(
        context.get_messages().unwrap().len(),
        1,
        "a reader follows the writer"
    );
    assert_eq!(
        reader
            .create_session(NewSession::default())
            .unwrap_err()
            .kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        Store::open_read_only(folder.path().join("none"))
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_reader_beside_a_writer_is_told_of_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path).unwrap();
    let (_, agent) = writer
        .start_session(NewSession::default(), "planner")
        .unwrap();
    let reader = Store::open_with(&path, StoreOptions::default().read_only()).unwrap();
    for backend in [
        Arc::clone(reader.backend()),
        Arc::clone(reader.to_async().backend()),
    ] {
        let seen = pollster::block_on(backend.wait_past(Position::ZERO)).unwrap();
        let waiting = thread::spawn(move || pollster::block_on(backend.wait_past(seen)).unwrap());
        writer
            .context(agent.id)
            .unwrap()
            .append_message(NewMessage::user("a"))
            .unwrap();
        assert!(waiting.join().unwrap() > seen);
    }
}

#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn all_tasks_that_await_another_process_are_followed_for_by_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path).unwrap();
    writer.create_session(NewSession::default()).unwrap();
    let reader = Store::open_with(&path, StoreOptions::default().read_only()).unwrap();
    let backend = Arc::clone(reader.to_async().backend());
    let seen = backend.wait_past(Position::ZERO).await.unwrap();
    // As in a `select!` whose other branch is taken each time.
    for _ in 0..200 {
        let mut waiting = backend.wait_past(seen);
        let pending = std::future::poll_fn(|context| {
            std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending())
        });
        assert!(pending.await);
    }
    let waiting = (0..20).map(|_| {
        let backend = Arc::clone(&backend);
        tokio::spawn(async move { backend.wait_past(seen).await.unwrap() })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::task::yield_now().await;
    // The other tests of this program have some as well.
    assert!(threads() < 50, "{} threads", threads());
    // Longer than the thread asks by itself who still waits.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    writer.create_session(NewSession::default()).unwrap();
    for told in waiting {
        assert!(told.await.unwrap() > seen);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_writer_that_never_rests_is_followed_no_longer_than_somebody_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path).unwrap();
    let (_, agent) = writer
        .start_session(NewSession::default(), "planner")
        .unwrap();
    let context = writer.context(agent.id).unwrap();
    let reader = Store::open_with(&path, StoreOptions::default().read_only()).unwrap();
    let backend = Arc::clone(reader.to_async().backend());
    let seen = backend.wait_past(Position::ZERO).await.unwrap();
    let mut waiting = backend.wait_past(seen);
    let pending = std::future::poll_fn(|context| {
        std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending())
    });
    assert!(pending.await);
    drop(waiting);
    let held = Arc::downgrade(&backend);
    drop((backend, reader));
    assert!(held.upgrade().is_none());
    let followers = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
        threads
            .filter_map(|thread| name(thread.ok()?).ok())
            .filter(|name| name.trim() == "runlog-follow")
            .count()
    };
    // Those of the other tests of this program end as well.
    for _ in 0..20_000 {
        if followers() == 0 {
            return;
        }
        context.append_message(NewMessage::user("a")).unwrap();
    }
    panic!("{} threads still follow a writer", followers());
}

#[test]
fn a_future_that_waits_for_more_and_is_dropped_leaves_nothing_behind() {
    struct Task;
    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path).unwrap();
    writer.create_session(NewSession::default()).unwrap();
    let reader = Store::open_with(&path, StoreOptions::default().read_only()).unwrap();
    for store in [&writer, &reader] {
        let backend = Arc::clone(store.to_async().backend());
        let seen = pollster::block_on(backend.wait_past(Position::ZERO)).unwrap();
        let mut waiting: Vec<_> = (0..1_000).map(|_| backend.wait_past(seen)).collect();
        let first = Arc::new(Task);
        let second = Arc::new(Task);
        // Each is polled by one task and then by another, as by a join that gives each future a waker of its own.
        for task in [&first, &second] {
            let waker = std::task::Waker::from(Arc::clone(task));
            for future in &mut waiting {
                let mut context = std::task::Context::from_waker(&waker);
                assert!(future.as_mut().poll(&mut context).is_pending());
            }
        }
        assert_eq!(Arc::strong_count(&first), 1, "only the last task is woken");
        assert_eq!(Arc::strong_count(&second), 1_001);
        drop(waiting);
        assert_eq!(Arc::strong_count(&second), 1, "without a new record");
    }
}

#[test]
fn waiting_and_awaiting_callers_share_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let awaiting = store.to_async();
    let (session, agent) = store
        .start_session(NewSession::default(), "planner")
        .unwrap();
    pollster::block_on(async {
        let context = awaiting.context(agent.id).await.unwrap();
        context.append_message(NewMessage::user("a")).await.unwrap();
        awaiting.archive_session(session.id).await.unwrap();
    });
    assert_eq!(
        store
            .context(agent.id)
            .unwrap()
            .get_messages()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        store.get_session(session.id).unwrap().unwrap().status,
        runlog::sessions::SessionStatus::Archived
    );
    let maintenance = store.backend().maintenance();
    assert!(pollster::block_on(maintenance.stat()).is_ok());
}
