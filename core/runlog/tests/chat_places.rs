//! Long chats that aren't in memory: what is asked of them by offset, by field and by count costs what it answers, and is what the
//! whole chat says.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use runlog::{
    ErrorKind,
    backend::{Backend, BackendFuture, Decorator},
    blocking::{Chats, Store},
    chats::{
        Chat, ChatMessage, ChatRole, ListMessages, ListSteps, MessageFilter, NewRequest, Step,
        StepStatus, StepType, Updates,
    },
    log::{
        Batch, FindOptions, Label, Op, Page, Position, ReadOptions, Sequence, StreamId, StreamInfo,
    },
};

/// Counts the records that are read.
struct Counted {
    inner: Arc<dyn Backend>,
    records: AtomicUsize,
}

impl Counted {
    fn count<'a, T: Send + 'a>(
        &'a self,
        read: BackendFuture<'a, Page<T>>,
    ) -> BackendFuture<'a, Page<T>> {
        Box::pin(async move {
            let page = read.await?;
            self.records
                .fetch_add(page.records.len(), Ordering::Relaxed);
            Ok(page)
        })
    }
}

impl Decorator for Counted {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        self.count(self.inner.read(stream, options))
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        self.count(self.inner.find(label, options))
    }
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()].clone()
    }
}

const CHAT: &str = "c";

/// A store with an empty chat.
fn with_chat() -> (Store, Chats) {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat = Chat {
        chat_id: CHAT.into(),
        ..Chat::new("a")
    };
    chats.create_chat(chat).unwrap();
    (store, chats)
}

/// A handle of the same log that has nothing in memory.
fn cold(store: &Store) -> Chats {
    Store::with_backend(store.backend().clone()).chats()
}

/// All messages, of the chat's fold.
fn told(store: &Store) -> Vec<ChatMessage> {
    let all = MessageFilter::default();
    cold(store).get_messages(CHAT, &all).unwrap()
}

fn message(numbers: &mut Numbers) -> ChatMessage {
    let some = |value: &str| Some(value.to_owned());
    ChatMessage {
        message_type: (numbers.of(&["text", "text", "text", "image", "tool"])).to_owned(),
        thread_id: some(numbers.of(&["t1", "t2", "t3"])).filter(|_| numbers.below(3) == 0),
        block_id: some(numbers.of(&["b1", "b2", "b3"])).filter(|_| numbers.below(20) == 0),
        ..ChatMessage::text(numbers.of(&[ChatRole::User, ChatRole::Assistant]), "words")
    }
}

/// The filters that lists are asked with.
fn filters() -> Vec<MessageFilter> {
    let some = |value: &str| Some(value.to_owned());
    let none = MessageFilter::default;
    vec![
        none(),
        MessageFilter {
            message_type: some("image"),
            ..none()
        },
        MessageFilter {
            message_type: some("text"),
            ..none()
        },
        MessageFilter {
            message_type: some("none has it"),
            ..none()
        },
        MessageFilter {
            thread_id: some("t2"),
            ..none()
        },
        MessageFilter {
            block_id: some("b1"),
            ..none()
        },
        MessageFilter {
            block_id: some("b1"),
            thread_id: some("t1"),
            ..none()
        },
        MessageFilter {
            message_type: some("tool"),
            role: Some(ChatRole::User),
            ..none()
        },
        MessageFilter {
            role: Some(ChatRole::Assistant),
            ..none()
        },
    ]
}

fn listed(
    store: &Store,
    filter: &MessageFilter,
    newest_first: bool,
    start_after: Option<String>,
) -> Vec<ChatMessage> {
    let mut options = ListMessages {
        role: filter.role,
        block_id: filter.block_id.clone(),
        thread_id: filter.thread_id.clone(),
        message_type: filter.message_type.clone(),
        newest_first,
        start_after,
        limit: 400,
        ..ListMessages::default()
    };
    let mut found = Vec::new();
    loop {
        let page = cold(store).list_messages(CHAT, &options).unwrap();
        found.extend(page.items);
        options.cursor = page.next;
        if options.cursor.is_none() {
            return found;
        }
    }
}

/// Asks everything of handles that have nothing in memory, and of one that was asked before.
fn check(store: &Store, known: &Chats, numbers: &mut Numbers, what: &str) {
    let all = told(store);
    for filter in filters() {
        let of_filter: Vec<_> = all.iter().filter(|it| filter.admits(it)).cloned().collect();
        let what = format!("{what}: {filter:?}");
        assert_eq!(
            cold(store).count_messages(CHAT, &filter).unwrap(),
            of_filter.len(),
            "{what}"
        );
        assert_eq!(
            known.count_messages(CHAT, &filter).unwrap(),
            of_filter.len(),
            "{what}"
        );
        assert_eq!(listed(store, &filter, false, None), of_filter, "{what}");
        let mut backwards = listed(store, &filter, true, None);
        backwards.reverse();
        assert_eq!(backwards, of_filter, "{what}, the newest first");
        for offset in [
            0,
            1_100,
            all.len() - 1,
            all.len(),
            1_025 + usize::try_from(numbers.below(200)).unwrap(),
        ] {
            let filter = MessageFilter {
                limit: 7,
                offset,
                ..filter.clone()
            };
            let wanted: Vec<_> = of_filter.iter().skip(offset).take(7).cloned().collect();
            assert_eq!(
                cold(store).get_messages(CHAT, &filter).unwrap(),
                wanted,
                "{what}, at {offset}"
            );
            assert_eq!(
                known.get_messages(CHAT, &filter).unwrap(),
                wanted,
                "{what}, at {offset}"
            );
        }
        let Some(after) = (!of_filter.is_empty()).then(|| numbers.of(&of_filter)) else {
            continue;
        };
        let at = of_filter.iter().position(|it| *it == after).unwrap();
        let id = Some(after.message_id);
        assert_eq!(
            listed(store, &filter, false, id.clone()),
            of_filter[at + 1..],
            "{what}"
        );
        let mut before = listed(store, &filter, true, id);
        before.reverse();
        assert_eq!(before, of_filter[..at], "{what}");
    }
}

fn change(store: &Store, numbers: &mut Numbers, round: u64) -> &'static str {
    let chats = store.chats();
    let all = told(store);
    let one = numbers.of(&all);
    match round % 5 {
        0 => {
            let ids: Vec<_> = (0..4)
                .map(|_| numbers.of(&all).message_id.clone())
                .collect();
            let mut ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            ids.sort_unstable();
            ids.dedup();
            chats.delete_messages(CHAT, &ids).unwrap();
            "deleted"
        }
        1 => {
            let updates = Updates::parse(r#"{"content":"others"}"#).unwrap();
            chats.update_message(&one.message_id, &updates).unwrap();
            "changed"
        }
        2 => {
            let messages = (0..50).map(|_| message(numbers)).collect();
            chats.save_messages(CHAT, messages).unwrap();
            "resumed"
        }
        3 => {
            let redact = Op::Redact {
                position: Position(one.id.unwrap()),
                reason: "asked for",
            };
            pollster::block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
            "redacted"
        }
        // Its record has the label of another type.
        _ => {
            let updates = Updates::parse(r#"{"type":"image"}"#).unwrap();
            chats.update_message(&one.message_id, &updates).unwrap();
            "of another type"
        }
    }
}

#[test]
fn what_a_long_chat_says_cold_is_what_its_fold_says() {
    for seed in 0..3 {
        let mut numbers = Numbers(seed);
        let (store, chats) = with_chat();
        for round in 0..13 {
            let messages = (0..100).map(|_| message(&mut numbers)).collect();
            chats.save_messages(CHAT, messages).unwrap();
            let step = Step {
                chat_id: CHAT.into(),
                ..Step::new(format!("r{round}"), "a", "s", StepType::Llm)
            };
            chats.save_steps(vec![step]).unwrap();
        }
        let known = cold(&store);
        check(&store, &known, &mut numbers, "new");
        for round in 0..6 {
            let what = change(&store, &mut numbers, round + 2 * seed);
            check(
                &store,
                &known,
                &mut numbers,
                &format!("seed {seed}, round {round}, {what}"),
            );
        }
    }
}

#[test]
fn a_question_about_a_long_chat_reads_what_it_answers() {
    let (store, chats) = with_chat();
    for at in 0..50 {
        let of_type = |rare: bool| if rare { "rare" } else { "text" };
        let messages = (0..200).map(|more| ChatMessage {
            message_type: of_type(more == 7).into(),
            message_id: format!("{at}-{more}"),
            ..ChatMessage::text(ChatRole::User, "words")
        });
        chats.save_messages(CHAT, messages.collect()).unwrap();
    }
    chats.delete_messages(CHAT, &["3-7", "40-1"]).unwrap();
    let reads = |ask: &dyn Fn(&Chats)| {
        let counted = Arc::new(Counted {
            inner: store.backend().clone(),
            records: AtomicUsize::new(0),
        });
        let chats = Store::with_backend(counted.clone()).chats();
        // The catalog of chats.
        chats.get_chat(CHAT).unwrap();
        counted.records.store(0, Ordering::Relaxed);
        ask(&chats);
        let first = counted.records.swap(0, Ordering::Relaxed);
        ask(&chats);
        (first, counted.records.load(Ordering::Relaxed))
    };
    let rare = MessageFilter {
        message_type: Some("rare".into()),
        limit: 10,
        ..MessageFilter::default()
    };
    let (first, again) =
        reads(&|chats| assert_eq!(chats.get_messages(CHAT, &rare).unwrap().len(), 10));
    assert!(
        first < 50 && again < 50,
        "{first}, {again} for a page of a type"
    );
    let (first, again) = reads(&|chats| assert_eq!(chats.count_messages(CHAT, &rare).unwrap(), 49));
    assert!(
        first < 200 && again < 200,
        "{first}, {again} to count a type"
    );
    let behind = ListMessages {
        start_after: Some("25-100".into()),
        limit: 10,
        ..ListMessages::default()
    };
    let (first, again) = reads(&|chats| {
        assert_eq!(
            chats.list_messages(CHAT, &behind).unwrap().items[0].message_id,
            "25-101"
        );
    });
    assert!(
        first < 50 && again < 50,
        "{first}, {again} behind a message"
    );
    // Where the messages lie is looked up once.
    let far = MessageFilter {
        offset: 5_000,
        limit: 10,
        ..MessageFilter::default()
    };
    let (_, again) = reads(&|chats| {
        assert_eq!(
            chats.get_messages(CHAT, &far).unwrap()[0].message_id,
            "25-1"
        );
        assert_eq!(
            chats
                .count_messages(CHAT, &MessageFilter::default())
                .unwrap(),
            9_998
        );
    });
    assert!(again < 50, "{again} at an offset, asked again");
}

#[test]
fn steps_that_were_listed_before_are_told_as_they_are_now() {
    for seed in 0..6 {
        let mut numbers = Numbers(seed);
        let store = Store::in_memory();
        let writer = store.chats();
        for chat in ["one", "two"] {
            let chat = Chat {
                chat_id: chat.into(),
                ..Chat::new("a")
            };
            writer.create_chat(chat).unwrap();
        }
        let known = cold(&store);
        let mut ids: Vec<String> = Vec::new();
        for round in 0..60 {
            let chat = numbers.of(&["one", "two"]);
            let status = numbers.of(&[StepStatus::Pending, StepStatus::Failed]);
            match numbers.below(4) {
                0 | 1 => {
                    let step = Step {
                        step_id: format!("step {round}"),
                        chat_id: chat.into(),
                        status,
                        ..Step::new(
                            format!("{chat} {}", numbers.below(3)),
                            "a",
                            format!("stack of {chat}"),
                            StepType::Llm,
                        )
                    };
                    ids.push(step.step_id.clone());
                    writer.save_steps(vec![step]).unwrap();
                }
                2 if !ids.is_empty() => {
                    let updates =
                        Updates::parse(&format!(r#"{{"status":"{}"}}"#, status.name())).unwrap();
                    writer.update_step(&numbers.of(&ids), &updates).unwrap();
                }
                _ => {
                    let Some(id) = ids.pop().filter(|_| numbers.below(3) == 0) else {
                        continue;
                    };
                    let step = known.list_steps(&ListSteps::default()).unwrap();
                    let step = step
                        .items
                        .into_iter()
                        .find(|step| step.step_id == id)
                        .unwrap();
                    let redact = Op::Redact {
                        position: Position(step.id.unwrap()),
                        reason: "asked for",
                    };
                    pollster::block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
                    // Changes of one that isn't there any more change nothing.
                    ids.clear();
                }
            }
            for status in [None, Some(StepStatus::Failed), Some(StepStatus::Pending)] {
                let options = ListSteps {
                    status,
                    ..ListSteps::default()
                };
                let listed = |chats: &Chats| chats.list_steps(&options).unwrap().items;
                assert_eq!(
                    listed(&known),
                    listed(&cold(&store)),
                    "seed {seed}, round {round}, {status:?}"
                );
            }
        }
    }
}

fn named(id: &str) -> ChatMessage {
    ChatMessage {
        message_id: id.into(),
        thread_id: Some("t1".into()),
        ..ChatMessage::text(ChatRole::User, "words")
    }
}

/// A chat with the messages `a`, `b` and `d`.
fn of_three() -> Store {
    let store = Store::in_memory();
    let chat = Chat {
        chat_id: CHAT.into(),
        ..Chat::new("a")
    };
    store.chats().create_chat(chat).unwrap();
    let messages = ["a", "b", "d"].map(named).to_vec();
    store.chats().save_messages(CHAT, messages).unwrap();
    store
}

#[test]
fn a_message_that_has_the_id_of_a_deleted_one_is_told_as_it_is_now() {
    let store = of_three();
    let (chats, known) = (store.chats(), cold(&store));
    let all = MessageFilter::default();
    let count = || known.count_messages(CHAT, &all).unwrap();
    chats.delete_messages(CHAT, &["a"]).unwrap();
    assert_eq!(count(), 2);
    chats.save_messages(CHAT, vec![named("a")]).unwrap();
    assert_eq!(count(), 3);
    let updates = Updates::parse(r#"{"thread_id":"t2"}"#).unwrap();
    chats.update_message("a", &updates).unwrap();
    let of_thread = MessageFilter {
        thread_id: Some("t2".into()),
        limit: 5,
        ..MessageFilter::default()
    };
    let found = cold(&store).get_messages(CHAT, &of_thread).unwrap();
    assert_eq!(found.len(), 1, "its record has the label of another thread");
    assert_eq!(cold(&store).count_messages(CHAT, &of_thread).unwrap(), 1);
    chats.delete_messages(CHAT, &["a"]).unwrap();
    assert_eq!(count(), 2);
}

#[test]
fn a_message_that_has_the_id_of_a_redacted_one_is_counted() {
    let store = of_three();
    let chats = store.chats();
    chats.redact_message("a", "asked for").unwrap();
    chats.save_messages(CHAT, vec![named("a")]).unwrap();
    let all = MessageFilter::default();
    assert_eq!(cold(&store).count_messages(CHAT, &all).unwrap(), 3);
}

#[test]
fn no_message_is_behind_the_largest_offset() {
    let store = of_three();
    store.chats().delete_messages(CHAT, &["a"]).unwrap();
    let far = MessageFilter {
        offset: usize::MAX,
        limit: usize::MAX,
        ..MessageFilter::default()
    };
    assert_eq!(cold(&store).get_messages(CHAT, &far).unwrap(), []);
}

/// What is asked of a chat, after which something else is done first; before it where the chat ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Asked {
    WhereItWillEnd,
    WhereItEnds,
    ForALabel,
    /// The whole store was asked, for a label.
    ForALabelElsewhere,
    ForItsRecords,
}

/// Does something once, when a chat was asked.
struct Meanwhile {
    inner: Arc<dyn Backend>,
    chat: StreamId,
    after: Asked,
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Meanwhile {
    fn asked(&self, stream: Option<StreamId>, what: Asked) {
        if stream == Some(self.chat) && what == self.after {
            let work = self.work.lock().unwrap().take();
            work.into_iter().for_each(|work| work());
        }
    }
}

impl Decorator for Meanwhile {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move {
            self.asked(Some(stream), Asked::WhereItWillEnd);
            let info = self.inner.stream(stream).await;
            self.asked(Some(stream), Asked::WhereItEnds);
            info
        })
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            let page = self.inner.read(stream, options).await;
            self.asked(Some(stream), Asked::ForItsRecords);
            page
        })
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move {
            let stream = options.stream;
            let page = self.inner.find(label, options).await;
            match stream {
                Some(_) => self.asked(stream, Asked::ForALabel),
                None => self.asked(Some(self.chat), Asked::ForALabelElsewhere),
            }
            page
        })
    }
}

/// A handle that has nothing in memory, beside which something is done once a chat was asked.
fn beside(store: &Store, after: Asked, work: impl FnOnce() + Send + 'static) -> Chats {
    let (chats, meanwhile) = beside_later(store, after);
    *meanwhile.work.lock().unwrap() = Some(Box::new(work));
    chats
}

/// The same, with what is done given later.
fn beside_later(store: &Store, after: Asked) -> (Chats, Arc<Meanwhile>) {
    let meanwhile = Arc::new(Meanwhile {
        inner: store.backend().clone(),
        chat: StreamId(store.find_session(CHAT).unwrap().id.0),
        after,
        work: Mutex::new(None),
    });
    (Store::with_backend(meanwhile.clone()).chats(), meanwhile)
}

#[test]
fn what_is_written_meanwhile_is_told_of_whole_or_not_at_all() {
    let ids = |messages: Vec<ChatMessage>| -> Vec<String> {
        messages.into_iter().map(|it| it.message_id).collect()
    };
    for after in [Asked::WhereItEnds, Asked::ForALabel] {
        let store = of_three();
        let chats = store.chats();
        let known = beside(&store, after, move || {
            chats.save_messages(CHAT, vec![named("e")]).unwrap();
            chats.delete_messages(CHAT, &["a"]).unwrap();
        });
        let count = known
            .count_messages(CHAT, &MessageFilter::default())
            .unwrap();
        assert!(count >= 3, "{count}, {after:?}: there never were fewer");
        for of_thread in [None, Some("t1".to_owned())] {
            let store = of_three();
            let chats = store.chats();
            let known = beside(&store, after, move || {
                chats.delete_messages(CHAT, &["a"]).unwrap();
                chats.save_messages(CHAT, vec![named("e")]).unwrap();
            });
            let page = MessageFilter {
                thread_id: of_thread,
                limit: 10,
                ..MessageFilter::default()
            };
            let found = ids(known.get_messages(CHAT, &page).unwrap());
            let moments: [&[&str]; 3] = [&["a", "b", "d"], &["b", "d"], &["b", "d", "e"]];
            assert!(
                moments.iter().any(|it| *it == found),
                "{found:?}, {after:?}"
            );
        }
    }
}

#[test]
fn what_is_redacted_while_its_chat_is_read_is_not_told_again() {
    let store = of_three();
    let all = MessageFilter::default();
    let a = told(&store).remove(0);
    let backend = store.backend().clone();
    let other = store.chats().create_chat(Chat::new("a")).unwrap().chat_id;
    let same = Arc::new(OnceLock::<Chats>::new());
    let of_other = Arc::clone(&same);
    let known = beside(&store, Asked::ForItsRecords, move || {
        let redact = Op::Redact {
            position: Position(a.id.unwrap()),
            reason: "asked for",
        };
        pollster::block_on(backend.commit(Batch::new(vec![redact]))).unwrap();
        // The same handle hears of the redaction before the first chat is read.
        let chats = of_other.get().unwrap();
        chats
            .save_messages(&other, vec![ChatMessage::text(ChatRole::User, "words")])
            .unwrap();
        let all = MessageFilter::default();
        assert_eq!(chats.get_messages(&other, &all).unwrap().len(), 1);
    });
    same.set(known.clone()).unwrap();
    known.get_messages(CHAT, &all).unwrap();
    assert_eq!(known.get_messages(CHAT, &all).unwrap(), told(&store));
}

#[test]
fn a_list_of_steps_that_has_a_later_one_leaves_no_earlier_one_out() {
    fn failed(request: &str, names: std::ops::Range<usize>) -> Vec<Step> {
        let step = |at| Step {
            step_id: format!("{request}_{at}"),
            chat_id: CHAT.to_owned(),
            status: StepStatus::Failed,
            ..Step::new(request, "assistant", request, StepType::Llm)
        };
        names.map(step).collect()
    }
    let options = ListSteps {
        status: Some(StepStatus::Failed),
        limit: 1_000,
        ..ListSteps::default()
    };
    for after in [Asked::WhereItEnds, Asked::ForALabel] {
        let store = of_three();
        let chats = store.chats();
        chats.save_steps(failed("old", 0..100)).unwrap();
        let known = beside(&store, after, move || {
            chats.save_steps(failed("old", 100..101)).unwrap();
            chats.save_steps(failed("new", 0..1)).unwrap();
        });
        let names = |steps: Vec<Step>| -> Vec<String> {
            steps.into_iter().map(|step| step.step_id).collect()
        };
        let all = names(store.chats().list_steps(&options).unwrap().items);
        assert_eq!(all.len(), 100);
        let told = names(known.list_steps(&options).unwrap().items);
        let all = names(store.chats().list_steps(&options).unwrap().items);
        assert_eq!(all.len(), 102);
        assert_eq!(told, all[..told.len()], "{after:?}");
        // What is cached by now is as old as the list: it isn't what the next one is made of.
        assert_eq!(names(known.list_steps(&options).unwrap().items), all);
    }
}

#[test]
fn a_page_at_an_offset_is_of_the_moment_that_its_beginning_is_of() {
    let store = of_three();
    let chats = store.chats();
    let more = (0..1_100).map(|at| named(&format!("{at}"))).collect();
    chats.save_messages(CHAT, more).unwrap();
    let before = told(&store);
    let known = beside(&store, Asked::ForItsRecords, move || {
        chats.delete_messages(CHAT, &["a"]).unwrap();
        chats.save_messages(CHAT, vec![named("e")]).unwrap();
    });
    let far = MessageFilter {
        offset: 1_050,
        limit: 100,
        ..MessageFilter::default()
    };
    assert_eq!(known.get_messages(CHAT, &far).unwrap(), before[1_050..]);
    assert_eq!(
        known.get_messages(CHAT, &far).unwrap(),
        told(&store)[1_050..]
    );
}

#[test]
fn what_is_asked_while_messages_are_put_in_another_order_is_told_in_one_of_both() {
    type Question = fn(&Chats) -> Vec<String>;
    fn ids(messages: Vec<ChatMessage>) -> Vec<String> {
        messages.into_iter().map(|it| it.message_id).collect()
    }
    fn listed(chats: &Chats, options: ListMessages) -> Vec<String> {
        ids(chats.list_messages(CHAT, &options).unwrap().items)
    }
    let questions: [(&str, Question); 8] = [
        ("a page", |chats| {
            let page = MessageFilter {
                limit: 2,
                ..MessageFilter::default()
            };
            ids(chats.get_messages(CHAT, &page).unwrap())
        }),
        ("the page of a thread", |chats| {
            let page = MessageFilter {
                thread_id: Some("t1".into()),
                limit: 2,
                ..MessageFilter::default()
            };
            ids(chats.get_messages(CHAT, &page).unwrap())
        }),
        ("the first page", |chats| {
            listed(
                chats,
                ListMessages {
                    limit: 2,
                    ..ListMessages::default()
                },
            )
        }),
        ("the last page", |chats| {
            let newest_first = true;
            listed(
                chats,
                ListMessages {
                    limit: 2,
                    newest_first,
                    ..ListMessages::default()
                },
            )
        }),
        ("behind a message", |chats| {
            let start_after = Some("b".into());
            listed(
                chats,
                ListMessages {
                    start_after,
                    ..ListMessages::default()
                },
            )
        }),
        ("far behind", |chats| {
            let page = MessageFilter {
                offset: 1_050,
                limit: 2,
                ..MessageFilter::default()
            };
            ids(chats.get_messages(CHAT, &page).unwrap())
        }),
        ("of a request", |chats| {
            let request_id = Some("r".into());
            listed(
                chats,
                ListMessages {
                    request_id,
                    ..ListMessages::default()
                },
            )
        }),
        ("of a request, from its end", |chats| {
            let (request_id, newest_first) = (Some("r".into()), true);
            listed(
                chats,
                ListMessages {
                    request_id,
                    newest_first,
                    ..ListMessages::default()
                },
            )
        }),
    ];
    for (what, question) in questions {
        let store = of_three();
        let chats = store.chats();
        let more = (0..1_100).map(|at| ChatMessage {
            request_id: Some("r".into()).filter(|_| at < 3),
            ..named(&format!("{at}"))
        });
        chats.save_messages(CHAT, more.collect()).unwrap();
        let before = question(&cold(&store));
        let known = beside(&store, Asked::WhereItWillEnd, move || {
            for id in ["a", "1", "1080"] {
                let last = Updates::parse(r#"{"sequence":5000}"#).unwrap();
                chats.update_message(id, &last).unwrap();
            }
            let first = ChatMessage {
                sequence: 1,
                request_id: Some("r".into()),
                ..named("e")
            };
            chats.save_messages(CHAT, vec![first]).unwrap();
        });
        let told = question(&known);
        let after = question(&cold(&store));
        assert_ne!(before, after, "{what}");
        assert!(told == before || told == after, "{what}: {told:?}");
    }
}

#[test]
fn a_message_that_is_saved_while_another_is_put_in_front_of_all_is_the_last() {
    let store = of_three();
    let chats = store.chats();
    let known = beside(&store, Asked::WhereItWillEnd, move || {
        let first = ChatMessage {
            sequence: 1,
            ..named("first")
        };
        chats.save_messages(CHAT, vec![first]).unwrap();
    });
    let saved = known.save_messages(CHAT, vec![named("e")]).unwrap();
    assert_eq!(saved[0].sequence, 4);
    let ids: Vec<_> = told(&store).into_iter().map(|it| it.message_id).collect();
    assert_eq!(ids, ["a", "first", "b", "d", "e"]);
}

#[test]
fn an_id_that_is_taken_while_a_request_is_written_into_a_chat_of_another_order_is_refused() {
    let store = of_three();
    let chats = store.chats();
    let numbered = |id: &str, sequence| ChatMessage {
        sequence,
        ..named(id)
    };
    chats
        .save_messages(CHAT, vec![numbered("first", 1)])
        .unwrap();
    let (known, meanwhile) = beside_later(&store, Asked::ForALabelElsewhere);
    let asked = ChatMessage::text(ChatRole::User, "Oslo?");
    let mut request = known
        .begin_request(CHAT, NewRequest::new("weather"), asked)
        .unwrap();
    request.send(numbered("taken", 9)).unwrap();
    *meanwhile.work.lock().unwrap() = Some(Box::new(move || {
        chats.save_messages(CHAT, vec![named("taken")]).unwrap();
    }));
    let error = request.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(meanwhile.work.lock().unwrap().is_none());
    let ids = told(&store).into_iter().map(|it| it.message_id);
    assert_eq!(ids.filter(|id| id.starts_with("taken")).count(), 1);
}
