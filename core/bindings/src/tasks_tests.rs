use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

type BoxedFuture = Pin<Box<dyn Future<Output = Result<Reply>>>>;

fn tasks() -> (Tasks, Arc<AtomicUsize>) {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let wake = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    (Tasks::new(wake), wakes)
}

#[test]
fn what_is_ready_at_once_needs_no_ticket() {
    let (mut tasks, wakes) = tasks();
    assert_eq!(
        tasks.start(Answer::known(Ok(Reply::DONE))),
        Ok(Ok(Reply::DONE))
    );
    assert_eq!(wakes.load(Ordering::SeqCst), 0);
}

#[test]
fn many_wakes_ask_the_thread_once() {
    let (mut tasks, wakes) = tasks();
    let (send, receive): (Vec<_>, Vec<_>) = (0..10)
        .map(|_| tokio::sync::oneshot::channel::<()>())
        .unzip();
    for receive in receive {
        let answer = Answer::write(async move {
            receive.await.map_err(|_| Failure::closed("it"))?;
            Ok(Reply::DONE)
        });
        assert!(tasks.start(answer).is_err());
    }
    send.into_iter().for_each(|send| send.send(()).unwrap());
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
    assert_eq!(tasks.poll().0.len(), 10);
    assert_eq!(tasks.poll().0, []);
}

#[test]
fn what_comes_after_writes_begins_once_those_before_it_are_done() {
    let (mut tasks, _) = tasks();
    let after = |began: &Arc<AtomicUsize>| {
        let began = Arc::clone(began);
        Answer {
            lane: Lane::AfterWrites,
            ..Answer::wait(async move {
                began.fetch_add(1, Ordering::SeqCst);
                Ok(Reply::DONE)
            })
        }
    };
    let began = Arc::new(AtomicUsize::new(0));
    assert_eq!(tasks.start(after(&began)), Ok(Ok(Reply::DONE)));
    let mut write = || {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let ticket = tasks.start(Answer::write(async move {
            receive.await.map_err(|_| Failure::closed("it"))?;
            Ok(Reply::DONE)
        }));
        (send, ticket.unwrap_err())
    };
    let (one, other) = (write(), write());
    let last = tasks.start(after(&began)).unwrap_err();
    let (later, _) = {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let ticket = tasks.start(Answer::write(async move {
            receive.await.map_err(|_| Failure::closed("it"))?;
            Ok(Reply::DONE)
        }));
        (send, ticket.unwrap_err())
    };
    other.0.send(()).unwrap();
    assert_eq!(tasks.poll().0, [(other.1, Ok(Reply::DONE))]);
    assert_eq!(began.load(Ordering::SeqCst), 1);
    one.0.send(()).unwrap();
    let done = [(one.1, Ok(Reply::DONE)), (last, Ok(Reply::DONE))];
    assert_eq!(tasks.poll().0, done);
    assert_eq!(
        began.load(Ordering::SeqCst),
        2,
        "the later write isn't waited for"
    );
    drop(later);
}

#[test]
fn what_changes_a_thing_is_done_in_the_order_of_the_calls() {
    let (mut tasks, _) = tasks();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let mut start = |make: &dyn Fn(BoxedFuture) -> Answer, name: &'static str| {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let begun = Arc::clone(&begun);
        let future: BoxedFuture = Box::pin(async move {
            begun.lock().unwrap().push(name);
            receive.await.map_err(|_| Failure::closed("it"))?;
            Ok(Reply::DONE)
        });
        (send, tasks.start(make(future)).unwrap_err())
    };
    let (one, other) = (Key::of("one"), Key::of("other"));
    let adds_to = |key: Key| {
        move |future: BoxedFuture| Answer {
            key: Some(key),
            ..Answer::write(future)
        }
    };
    let changes = |key: Key| move |future: BoxedFuture| Answer::change(key, future);
    let first = start(&Answer::write, "a write");
    let second = start(&changes(one), "a change of one");
    let third = start(&changes(one), "another change of one");
    let fourth = start(&adds_to(one), "what adds to one");
    let fifth = start(&adds_to(other), "what adds to the other");
    let sixth = start(&changes(other), "a change of the other");
    let seventh = start(&changes(Key::All), "a change of all");
    let last = start(&adds_to(other), "what adds to the other at last");
    let mut expected = vec!["a write", "what adds to the other"];
    assert_eq!(*begun.lock().unwrap(), expected);
    let mut after = |(done, ticket): (tokio::sync::oneshot::Sender<()>, u64),
                     begins: &[&'static str]| {
        done.send(()).unwrap();
        assert_eq!(tasks.poll().0, [(ticket, Ok(Reply::DONE))]);
        expected.extend(begins);
        assert_eq!(*begun.lock().unwrap(), expected);
    };
    after(first, &["a change of one"]);
    after(second, &["another change of one"]);
    after(third, &["what adds to one"]);
    after(fifth, &[]);
    after(fourth, &["a change of the other"]);
    after(sixth, &["a change of all"]);
    after(seventh, &["what adds to the other at last"]);
    after(last, &[]);
    assert!(tasks.changes.is_empty() && tasks.begun.is_empty());
}

#[test]
fn a_panic_fails_its_own_call_alone() {
    let (mut tasks, _) = tasks();
    let (send, receive) = tokio::sync::oneshot::channel::<()>();
    let panics = Answer::wait(async move {
        let _ = receive.await;
        panic!("on purpose")
    });
    let ticket = tasks.start(panics).unwrap_err();
    drop(send);
    let (found, result) = tasks.poll().0.remove(0);
    assert_eq!((found, result.unwrap_err().code), (ticket, "internal"));
    assert!(tasks.start(Answer::known(Ok(Reply::DONE))).is_ok());
}

#[test]
fn a_cancelled_future_is_dropped() {
    let (mut tasks, _) = tasks();
    let (send, receive) = tokio::sync::oneshot::channel::<()>();
    let answer = Answer::wait(async move {
        let _ = receive.await;
        Ok(Reply::DONE)
    });
    let ticket = tasks.start(answer).unwrap_err();
    assert!(tasks.cancel(ticket));
    assert!(send.is_closed());
    assert!(!tasks.cancel(ticket));
}
