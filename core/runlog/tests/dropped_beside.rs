//! A request that is dropped while others write to its chat: what they wrote stays, and what they took out isn't written again.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

mod traces;

use std::{
    future::{poll_fn, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use pollster::block_on;
use runlog::{
    Error, ErrorKind, RawJson,
    blocking::Store,
    chats::{
        Chat, ChatMessage, ChatRole, MessageFilter, NewRequest, RequestBuffer, RequestStatus,
        StepType, Updates,
    },
    engine::StreamId,
    log::{Appended, Backend, BackendFuture, Batch, Decorator, StreamInfo},
};

use traces::tells;

const SECRET: &str = "correct-horse-battery-staple";

/// Does something before the next batch is committed, and refuses batches while there is no room, and looks while there is damage.
struct Hooked {
    inner: Arc<dyn Backend>,
    /// Whether it answers later than it is asked, as a backend elsewhere.
    is_slow: AtomicBool,
    is_damaged: AtomicBool,
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_full: AtomicBool,
}

impl Decorator for Hooked {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let before = self.before.lock().unwrap().take();
        if let Some(act) = before {
            act();
        }
        if self.is_full.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(Error::new(ErrorKind::StorageFull, "no room"))));
        }
        self.inner.commit(batch)
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        if self.is_damaged.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(Error::new(
                ErrorKind::Damaged,
                "a record is lost",
            ))));
        }
        if self.is_slow.load(Ordering::SeqCst) {
            return Box::pin(async move {
                poll_fn(asked_twice()).await;
                self.inner.stream(stream).await
            });
        }
        self.inner.stream(stream)
    }
}

/// Ready when it is polled again.
fn asked_twice() -> impl FnMut(&mut Context<'_>) -> Poll<()> {
    let mut was_asked = false;
    move |context| {
        if was_asked {
            return Poll::Ready(());
        }
        was_asked = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Place {
    store: Store,
    hooked: Arc<Hooked>,
}

impl Place {
    fn new() -> Self {
        let store = Store::in_memory();
        let hooked = Arc::new(Hooked {
            inner: store.backend().clone(),
            before: Mutex::new(None),
            is_full: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
        });
        Self { store, hooked }
    }

    /// A request of which "Once" was flushed, as message "m".
    fn begun(&self) -> RequestBuffer {
        let chats = runlog::Store::with_backend(self.hooked.clone()).chats();
        let named = Chat {
            chat_id: "c".into(),
            ..Chat::new("lead")
        };
        block_on(chats.create_chat(named)).unwrap();
        let asked = ChatMessage::text(ChatRole::User, "?");
        let begun = chats.begin_request("c", NewRequest::new("lead"), asked);
        let mut request = block_on(begun).unwrap();
        request.send(named_message("m", "Once")).unwrap();
        block_on(request.flush()).unwrap();
        request
    }

    /// Does something right before the next write.
    fn before_the_next_write(&self, act: impl FnOnce(&Store) + Send + 'static) {
        let store = self.store.clone();
        *self.hooked.before.lock().unwrap() = Some(Box::new(move || act(&store)));
    }

    fn texts(&self) -> Vec<String> {
        let messages = self.store.chats();
        let messages = messages.get_messages("c", &MessageFilter::default());
        let texts = messages.unwrap().into_iter();
        texts
            .map(|message| message.props.as_str().to_owned())
            .collect()
    }

    fn status(&self) -> RequestStatus {
        self.store.chats().get_requests("c").unwrap()[0].status
    }
}

fn named_message(id: &str, text: &str) -> ChatMessage {
    ChatMessage {
        message_id: id.into(),
        ..ChatMessage::text(ChatRole::Assistant, text)
    }
}

#[test]
fn what_is_redacted_meanwhile_is_not_written_again() {
    for (is_flushing, is_slow) in [(false, false), (true, false), (false, true), (true, true)] {
        let place = Place::new();
        let mut request = place.begun();
        place.hooked.is_slow.store(is_slow, Ordering::SeqCst);
        request.append("m", SECRET).unwrap();
        if is_flushing {
            request.start_flush().unwrap();
        }
        place.before_the_next_write(|store| {
            store.chats().redact_message("m", "asked to").unwrap();
        });
        drop(request);
        assert!(
            !tells(&place.store, SECRET),
            "flushing: {is_flushing}, slow: {is_slow}"
        );
        assert_eq!(place.status(), RequestStatus::Interrupted);
    }
}

#[test]
fn what_others_change_of_a_message_meanwhile_stays() {
    for (is_flushing, is_slow) in [(false, false), (true, false), (false, true), (true, true)] {
        let place = Place::new();
        let mut request = place.begun();
        place.hooked.is_slow.store(is_slow, Ordering::SeqCst);
        request.append("m", ", twice").unwrap();
        if is_flushing {
            request.start_flush().unwrap();
        }
        place.before_the_next_write(|store| {
            let props = RawJson::parse(r#"{"content":"Once","rating":5}"#).unwrap();
            let updates = Updates::new().with("props", props);
            store.chats().update_message("m", &updates).unwrap();
        });
        drop(request);
        let said = r#"{"content":"Once, twice","rating":5}"#;
        assert_eq!(
            place.texts()[1],
            said,
            "flushing: {is_flushing}, slow: {is_slow}"
        );
    }
}

#[test]
fn an_id_that_is_taken_meanwhile_costs_no_message() {
    let place = Place::new();
    let mut request = place.begun();
    request.send(named_message("n", "mine")).unwrap();
    request.append("m", ", twice").unwrap();
    place.before_the_next_write(|store| {
        let theirs = vec![named_message("n", "theirs")];
        store.chats().save_messages("c", theirs).unwrap();
    });
    drop(request);
    let mut texts = place.texts();
    texts.sort();
    assert_eq!(
        texts,
        [
            r#"{"content":"?"}"#,
            r#"{"content":"Once, twice"}"#,
            r#"{"content":"mine"}"#,
            r#"{"content":"theirs"}"#
        ]
    );
}

#[test]
fn an_end_is_not_written_without_the_part_before_it() {
    let place = Place::new();
    let mut request = place.begun();
    let input = RawJson::parse("{}").unwrap();
    request.start_step(StepType::Llm, input).unwrap();
    request.append("m", ", twice").unwrap();
    let part = request.start_flush().unwrap().unwrap();
    place.hooked.is_full.store(true, Ordering::SeqCst);
    assert_eq!(
        block_on(part.write()).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    // There is room again once the part has been tried for the last time.
    let hooked = place.hooked.clone();
    place.before_the_next_write(move |_| {
        let room = hooked.clone();
        let again = move || room.is_full.store(false, Ordering::SeqCst);
        // The part is tried twice.
        let inner = hooked.clone();
        *hooked.before.lock().unwrap() = Some(Box::new(move || {
            *inner.before.lock().unwrap() = Some(Box::new(again));
        }));
    });
    drop(request);
    assert_eq!(place.status(), RequestStatus::Running);
    assert_eq!(place.texts()[1], r#"{"content":"Once"}"#);
}

#[test]
fn what_is_new_is_written_to_a_chat_that_can_not_be_looked_at() {
    let place = Place::new();
    let mut request = place.begun();
    request.send(named_message("n", "new")).unwrap();
    request.append("m", ", twice").unwrap();
    place.hooked.is_damaged.store(true, Ordering::SeqCst);
    drop(request);
    assert_eq!(
        place.texts()[1..],
        [r#"{"content":"Once"}"#, r#"{"content":"new"}"#]
    );
    assert_eq!(place.status(), RequestStatus::Interrupted);
}
