use pollster::block_on;
use runlog::{
    NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId, RunStatus, StoreOptions, blocking,
    retention::{Erase, RetentionPolicy},
    runs::{ListRunMessages, ListRuns, ListToolCalls, ResumeOptions, ToolCallStatus, ToolOutcome},
    sessions::CopySession,
};
use serde::Serialize;

use super::*;

/// Everything that is asked of runs, each with the address it is cached by.
#[derive(Clone, Debug)]
enum Question {
    List(Option<RunStatus>),
    Run(RunId),
    Messages(RunId),
    Message(RunId, u64),
    Calls(RunId, Option<ToolCallStatus>),
    Call(RunId, u64),
}

fn json_of(answer: &impl Serialize) -> Bytes {
    serde_json::to_vec(answer).unwrap().into()
}

impl Question {
    fn address(&self) -> String {
        format!("{self:?}")
    }

    fn answer(&self, store: &Store) -> Result<Bytes> {
        let runs = store.runs();
        Ok(match self {
            Self::List(status) => json_of(&block_on(runs.list(&ListRuns {
                status: *status,
                ..ListRuns::default()
            }))?),
            Self::Run(id) => json_of(&block_on(runs.get(*id))?),
            Self::Messages(id) => {
                json_of(&block_on(runs.messages(*id, &ListRunMessages::default()))?)
            }
            Self::Message(id, message) => json_of(&block_on(runs.message(*id, *message))?),
            Self::Calls(id, status) => json_of(&block_on(runs.tool_calls(
                *id,
                &ListToolCalls {
                    status: *status,
                    ..ListToolCalls::default()
                },
            ))?),
            Self::Call(id, call) => json_of(&block_on(runs.tool_call(*id, *call))?),
        })
    }
}

/// The answer of a cache, or the one that `make` makes for it, as a request has it.
fn get_or_make(
    cache: &AnswerCache,
    question: &Question,
    now: &Store,
    make: impl FnOnce(&Store) -> Result<Bytes>,
) -> Result<Bytes> {
    let address = question.address();
    match cache.look_up(&address, now)? {
        Lookup::Found(json) => Ok(json),
        Lookup::Missing { stands, now } => cache.make(&address, stands, &now, make),
    }
}

/// Everything there is to ask of the runs of a store.
fn questions(store: &Store) -> Vec<Question> {
    let statuses = [RunStatus::Running, RunStatus::Paused, RunStatus::Completed];
    let mut all: Vec<_> = statuses.map(|it| Question::List(Some(it))).into();
    all.push(Question::List(None));
    let runs = store.runs();
    for run in block_on(runs.list(&ListRuns::default())).unwrap().items {
        let id = run.id;
        all.extend([
            Question::Run(id),
            Question::Messages(id),
            Question::Calls(id, None),
        ]);
        all.push(Question::Calls(id, Some(ToolCallStatus::Error)));
        all.push(Question::Calls(id, Some(ToolCallStatus::Pending)));
        if let Ok(page) = block_on(runs.messages(id, &ListRunMessages::default())) {
            all.extend(
                page.items
                    .iter()
                    .take(2)
                    .map(|it| Question::Message(id, it.id)),
            );
        }
        if let Ok(page) = block_on(runs.tool_calls(id, &ListToolCalls::default())) {
            all.extend(
                page.items
                    .iter()
                    .take(2)
                    .map(|it| Question::Call(id, it.id)),
            );
        }
    }
    all
}

/// A small generator of random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// Does something to a store. Refusals, of a run that is over say, are fine.
fn change(store: &blocking::Store, random: &mut Random, at: usize) -> Result<()> {
    let runs = store.runs();
    let known = runs.list(&ListRuns::default())?.items;
    let what = random.below(16);
    if known.is_empty() || what == 0 {
        runs.start(NewRun::in_new_session(NewSession::default(), "coder"))?;
        return Ok(());
    }
    let run = &known[random.below(known.len())];
    let (id, session, instance) = (run.id, run.session_id, run.instance_id);
    match what {
        1..=3 => drop(
            runs.recorder(id)?
                .record_message(NewMessage::user(at.to_string()))?,
        ),
        4..=6 => {
            let call = NewToolCall::new(format!("call-{at}"), "look", "{}");
            let message = NewMessage::assistant("").with_tool_calls([call]);
            let recorder = runs.recorder(id)?;
            recorder.record_message(message)?;
            let status = [ToolCallStatus::Completed, ToolCallStatus::Error][at % 2];
            if !at.is_multiple_of(3) {
                recorder.record_tool_result(&ToolOutcome {
                    tool_call_id: format!("call-{at}"),
                    output: RawJson::null(),
                    status,
                    duration_ms: None,
                })?;
            }
        }
        7 => drop(runs.recorder(id)?.complete(Some("done"))?),
        8 => drop(runs.recorder(id)?.pause("later")?),
        9 => drop(runs.resume(id, &ResumeOptions::default())?),
        10 => {
            let context = store.context(instance)?;
            let last = context.get_last_sequence()?;
            context.truncate_after_sequence(last.saturating_sub(random.below(4) as u64))?;
        }
        11 => drop(store.copy_session(session, &CopySession::default())?),
        12 if at.is_multiple_of(3) => store.delete_session(session)?,
        13 if at.is_multiple_of(4) => drop(store.retain(&RetentionPolicy {
            keep_last: Some(3),
            ..RetentionPolicy::default()
        })?),
        14 => {
            let messages = runs.messages(id, &ListRunMessages::default())?.items;
            let positions = messages.first().map(|it| it.id).into_iter().collect();
            store.erase(&Erase {
                positions,
                reason: "test".to_owned(),
                ..Erase::default()
            })?;
        }
        _ => drop(
            store
                .context(instance)?
                .append_message(NewMessage::user("beside"))?,
        ),
    }
    Ok(())
}

/// Does random things to a store, and compares each answer from a cache with one made anew, by `reader`.
fn compare(store: &blocking::Store, reader: &Store, seed: u64) {
    let cache = AnswerCache::new();
    let mut random = Random(seed);
    let (mut asked, mut made, mut done) = (0, 0, 0);
    for at in 0..100 {
        done += usize::from(change(store, &mut random, at).is_ok());
        let now = block_on(reader.as_of_now()).unwrap();
        for question in questions(&now) {
            let cached = get_or_make(&cache, &question, &now, |store| {
                made += 1;
                question.answer(store)
            });
            asked += 1;
            assert_eq!(
                cached,
                question.answer(&now),
                "seed {seed}, change {at}: {question:?}"
            );
        }
    }
    assert!(done > 40, "{done} changes");
    assert!(made * 2 < asked, "{made} of {asked} answers were made anew");
}

#[test]
fn answers_are_as_if_made_anew_whatever_is_written() {
    for seed in 1..=5 {
        let store = blocking::Store::in_memory();
        compare(&store, &store.to_async(), seed);
    }
}

#[test]
fn answers_beside_another_process_are_as_if_made_anew() {
    for seed in 11..=13 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = StoreOptions::default();
        let store = blocking::Store::open_with(&path, options).unwrap();
        let reader = Store::open_read_only(&path).unwrap();
        compare(&store, &reader, seed);
    }
}

#[test]
fn what_is_recorded_in_a_run_costs_others_no_answer() {
    let store = blocking::Store::in_memory();
    let start = || {
        let new = NewRun::in_new_session(NewSession::default(), "coder");
        store.runs().start(new).unwrap()
    };
    let (first, second) = (start(), start());
    let (cache, now) = (AnswerCache::new(), store.to_async());
    let is_made = |id: RunId| {
        let question = Question::Messages(id);
        let mut is_made = false;
        let answer = get_or_make(&cache, &question, &now, |store| {
            is_made = true;
            question.answer(store)
        });
        assert_eq!(answer, question.answer(&now));
        is_made
    };
    assert!(is_made(first.id()) && is_made(second.id()));
    assert!(!is_made(first.id()) && !is_made(second.id()));
    first.record_message(NewMessage::user("news")).unwrap();
    assert!(is_made(first.id()) && !is_made(second.id()));
    assert!(!is_made(first.id()));
}
