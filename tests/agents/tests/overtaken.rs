//! Questions about chats and runs in a process that keeps no file open, while another writes and compacts: each answer is that of a
//! moment while it was asked.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use runlog::{
    NewMessage, NewRun, NewSession, NewToolCall, RawJson, Result, RunId, RunStatus, StoreOptions,
    blocking::{RunRecorder, Store},
    chats::{
        Chat, ChatFilter, ChatMessage, ChatRole, ListMessages, ListSteps, MessageFilter, Step,
        StepType, Updates,
    },
    log::{Codec, CompactOptions, CompactScope},
    pages::Page,
    retention::RetentionPolicy,
    runs::{ListRunMessages, ListRuns, ListToolCalls, ToolOutcome},
    sessions::ListSessions,
};
use runlog_engine::clear_caches;
use runlog_tests::{budget, forgetful::Forgetful, random::Random};

/// The one that writes, and what it wrote.
struct Writer {
    store: Store,
    random: Random,
    chats: Vec<String>,
    messages: Vec<(String, String)>,
    steps: Vec<String>,
    runs: Vec<RunRecorder>,
    next: u64,
}

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes_max: 64 << 10,
        auto_compact: false,
        ..StoreOptions::default()
    }
}

impl Writer {
    fn any<T: Clone>(random: &mut Random, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[random.place(of.len())].clone())
    }

    fn words(&mut self) -> String {
        self.next += 1;
        format!("{} ", self.next).repeat(1 + self.random.place(400))
    }

    fn compact(&mut self) -> Result<()> {
        let scopes = [CompactScope::Dead, CompactScope::Sparse, CompactScope::All];
        let codecs = [Codec::Plain, Codec::Lz4, Codec::Zstd];
        self.store.compact(CompactOptions {
            scope: scopes[self.random.place(3)],
            codec: codecs[self.random.place(3)],
            ..CompactOptions::default()
        })?;
        clear_caches();
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let chats = self.store.chats();
        let chat = Self::any(&mut self.random, &self.chats);
        let run = Self::any(&mut self.random, &self.runs);
        let words = self.words();
        match (self.random.below(32), chat, run) {
            (0, ..) | (_, None, _) => {
                let chat = format!("chat {}", self.next);
                chats.create_chat(Chat {
                    chat_id: chat.clone(),
                    ..Chat::new("a")
                })?;
                self.chats.push(chat);
            }
            (1, ..) | (_, _, None) => {
                let new = NewRun::in_new_session(NewSession::default(), "coder");
                self.runs.push(self.store.runs().start(new)?);
            }
            (2..=9, Some(chat), _) => {
                let many: Vec<_> = (0..=self.random.place(4))
                    .map(|number| ChatMessage {
                        message_id: format!("message {} {number}", self.next),
                        ..ChatMessage::text(ChatRole::User, &words)
                    })
                    .collect();
                let ids = many.iter().map(|it| (chat.clone(), it.message_id.clone()));
                self.messages.extend(ids);
                chats.save_messages(&chat, many)?;
            }
            (10 | 11, ..) => {
                if let Some((_, id)) = Self::any(&mut self.random, &self.messages) {
                    let json = format!(r#"{{"metadata":{}}}"#, self.next);
                    chats.update_message(&id, &Updates::parse(&json)?)?;
                }
            }
            (12, ..) if !self.messages.is_empty() => {
                let place = self.random.place(self.messages.len());
                let (chat, id) = self.messages.swap_remove(place);
                chats.delete_messages(&chat, &[&id])?;
            }
            (13 | 14, Some(chat), _) => {
                let step = Step {
                    step_id: format!("step {}", self.next),
                    chat_id: chat.clone(),
                    ..Step::new(&chat, "a", format!("stack of {chat}"), StepType::Llm)
                };
                self.steps.push(step.step_id.clone());
                chats.save_steps(vec![step])?;
            }
            (15 | 16, ..) => {
                if let Some(id) = Self::any(&mut self.random, &self.steps) {
                    let status = ["running", "failed", "completed"][self.random.place(3)];
                    let json = format!(r#"{{"status":"{status}"}}"#);
                    chats.update_step(&id, &Updates::parse(&json)?)?;
                }
            }
            (17, Some(chat), _) => {
                chats.delete_chat(&chat)?;
                self.chats.retain(|other| *other != chat);
                self.messages.retain(|(of, _)| *of != chat);
                self.steps.clear();
            }
            (18, ..) => {
                self.store.retain(&RetentionPolicy {
                    deleted: true,
                    ..RetentionPolicy::default()
                })?;
            }
            (19, _, Some(run)) if run.run().status != RunStatus::Running => {
                self.store.delete_session(run.run().session_id)?;
                self.runs.retain(|other| other.id() != run.id());
            }
            (20, _, Some(run)) if run.run().status == RunStatus::Running => {
                run.complete(Some("done"))?;
            }
            (21..=24, _, Some(run)) if run.run().status == RunStatus::Running => {
                run.next_step()?;
                let id = format!("call {}", self.next);
                let asked =
                    NewMessage::assistant("").with_tool_calls([NewToolCall::new(&id, "ls", "{}")]);
                let outcome = ToolOutcome::completed(&id, RawJson::string(&words));
                run.record_tool_call(asked.to_json()?, &[outcome])?;
            }
            (25 | 26, ..) => self.compact()?,
            (_, _, Some(run)) if run.run().status == RunStatus::Running => {
                run.record_message(NewMessage::user(&words))?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Question {
    Chats,
    Messages(String, ListMessages),
    All(String),
    Count(String),
    Steps(ListSteps),
    OfRequest(String),
    Sessions,
    Runs,
    Run(RunId),
    RunMessages(RunId, bool),
    Calls(RunId),
    Context(RunId),
}

impl Question {
    fn any(writer: &mut Writer) -> Self {
        let chat = Writer::any(&mut writer.random, &writer.chats).unwrap_or_default();
        let run = Writer::any(&mut writer.random, &writer.runs);
        let newest_first = writer.random.one_in(2);
        let limit = 1 + writer.random.place(30);
        match (writer.random.below(12), run) {
            (0, _) => Self::Chats,
            (1 | 2, _) => Self::Messages(
                chat,
                ListMessages {
                    newest_first,
                    limit,
                    ..ListMessages::default()
                },
            ),
            (3, _) => Self::All(chat),
            (4, _) => Self::Count(chat),
            // Of several chats, each is as it was at a moment of its own.
            (5, _) => Self::Steps(ListSteps {
                chat_id: Some(chat),
                ..ListSteps::default()
            }),
            (6, _) => Self::OfRequest(chat),
            (7, _) => Self::Sessions,
            (8, Some(run)) => Self::Run(run.id()),
            (9, Some(run)) => Self::RunMessages(run.id(), newest_first),
            (10, Some(run)) => Self::Calls(run.id()),
            (11, Some(run)) => Self::Context(run.id()),
            _ => Self::Runs,
        }
    }

    fn ask(&self, store: &Store) -> String {
        fn told<T: Debug>(answer: Result<T>) -> String {
            match answer {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => format!("{:?} {error}", error.kind()),
            }
        }
        // Where a list goes on is told in a form of its own by who has more of it in memory.
        fn page<T>(page: Page<T>) -> (Vec<T>, bool) {
            (page.items, page.next.is_some())
        }
        let (chats, runs) = (store.chats(), store.runs());
        match self {
            Self::Chats => told(chats.list_chats(&ChatFilter::default())),
            Self::Messages(chat, list) => told(chats.list_messages(chat, list).map(page)),
            Self::All(chat) => told(chats.get_messages(chat, &MessageFilter::default())),
            Self::Count(chat) => told(chats.count_messages(chat, &MessageFilter::default())),
            Self::Steps(list) => told(chats.list_steps(list).map(page)),
            Self::OfRequest(request) => told(chats.get_steps(request)),
            Self::Sessions => told(store.list_sessions(&ListSessions::default()).map(page)),
            Self::Runs => told(runs.list(&ListRuns::default()).map(page)),
            Self::Run(run) => told(runs.get(*run)),
            Self::RunMessages(run, newest_first) => told(
                runs.messages(
                    *run,
                    &ListRunMessages {
                        newest_first: *newest_first,
                        ..ListRunMessages::default()
                    },
                )
                .map(page),
            ),
            Self::Calls(run) => told(runs.tool_calls(*run, &ListToolCalls::default()).map(page)),
            Self::Context(run) => told(runs.get(*run).and_then(|run| match run {
                Some(run) => store.context(run.instance_id)?.get_messages(),
                None => Ok(Vec::new()),
            })),
        }
    }
}

fn history(seed: u64, steps: u64) -> std::result::Result<u64, String> {
    let mut random = Random::new(seed);
    let folder = Forgetful::new();
    let store = Store::open_on(Arc::new(folder.that_remembers()), options()).unwrap();
    let writer = Arc::new(Mutex::new(Writer {
        store,
        random: Random::new(random.next_u64()),
        chats: Vec::new(),
        messages: Vec::new(),
        steps: Vec::new(),
        runs: Vec::new(),
        next: 0,
    }));
    let open = || {
        let there = folder.that_forgets();
        let store = Store::open_on(Arc::new(there.clone()), options().read_only()).unwrap();
        (there, store)
    };
    let (mut there, mut reader) = open();
    let mut asked = 0;
    for _ in 0..steps {
        if random.one_in(3) {
            writer
                .lock()
                .unwrap()
                .step()
                .map_err(|error| format!("writing: {error}"))?;
            continue;
        }
        if random.one_in(40) {
            (there, reader) = open();
        }
        let (question, right) = {
            let mut writer = writer.lock().unwrap();
            let question = Question::any(&mut writer);
            let right = question.ask(&writer.store);
            (question, Arc::new(Mutex::new(vec![right])))
        };
        if random.one_in(3) {
            clear_caches();
        }
        for _ in 0..random.below(4) {
            let (writer, question, right) = (writer.clone(), question.clone(), right.clone());
            let changes = random.below(4);
            there.after(random.below(20), move || {
                let mut writer = writer.lock().unwrap();
                for change in 0..=changes {
                    match change {
                        0 => writer.compact().unwrap(),
                        _ => writer.step().unwrap(),
                    }
                    right.lock().unwrap().push(question.ask(&writer.store));
                }
            });
        }
        let answer = question.ask(&reader);
        there.calm();
        asked += 1;
        let right = right.lock().unwrap();
        if !right.contains(&answer) {
            let after = &right[right.len() - 1];
            let same = answer
                .bytes()
                .zip(after.bytes())
                .take_while(|(one, other)| one == other)
                .count();
            let from = same.saturating_sub(100);
            let near = |text: &str| {
                text.get(from..)
                    .unwrap_or_default()
                    .chars()
                    .take(300)
                    .collect::<String>()
            };
            return Err(format!(
                "{question:?}, of {}:\n  {}\n  {}",
                right.len(),
                near(&answer),
                near(after)
            ));
        }
    }
    Ok(asked)
}

#[test]
fn answers_that_compactions_overtake_are_those_of_a_moment() {
    let budget = budget::of("questions that compactions overtake");
    let first = budget.seed() % 1_000_000;
    for seed in first.. {
        let asked = history(seed, 400).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        budget.add("questions", asked);
        if seed >= first + 4 && !budget.goes_on() {
            break;
        }
    }
}
