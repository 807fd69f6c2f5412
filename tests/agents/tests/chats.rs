//! Chats that one process writes, which is killed again and again, and others read: every answer is of one moment of the chat, and
//! what was acknowledged is there.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use runlog::{
    Error, ErrorKind, Result,
    blocking::{Chats, Store},
    chats::{ChatFilter, ChatMessage, ListMessages, ListSteps, MessageFilter, StepStatus},
};
use runlog_tests::{budget, random::Random};

/// How often the writer is killed in the test command.
const KILLS: u64 = 8;

/// A pair of messages of a chat.
type Pair = (String, u64);

/// What the writer said.
#[derive(Default)]
struct Said {
    saved: BTreeSet<Pair>,
    /// What may have been deleted, and chats that may have been.
    deleting: BTreeSet<Pair>,
    chats_deleting: BTreeSet<String>,
}

impl Said {
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let pair = |chat: &str, number: &str| (chat.to_owned(), number.parse().unwrap());
        match words.as_slice() {
            ["saved", chat, number] => {
                self.deleting.remove(&pair(chat, number));
                self.saved.insert(pair(chat, number));
            }
            ["deleting", chat, number] => drop(self.deleting.insert(pair(chat, number))),
            ["deleting", chat] => drop(self.chats_deleting.insert((*chat).to_owned())),
            _ => {}
        }
    }
}

fn writer(folder: &Path, seed: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_chats"))
        .arg(folder)
        .arg(seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Listens to the writer until it has said so many lines, then kills it, and hears what was on its way.
fn kill_after(mut child: Child, lines: u64, said: &mut Said) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for count in 0.. {
        if count == lines {
            child.kill().unwrap();
        }
        let mut line = String::new();
        // A line that was cut off says nothing.
        if out.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            break;
        }
        said.take(line.trim_end());
    }
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "the writer failed: {status}");
}

/// Messages of a chat are whole pairs, one behind the other.
fn in_pairs(messages: &[ChatMessage], what: &str) {
    let names: Vec<_> = messages.iter().map(|it| &it.message_id).collect();
    assert!(messages.len().is_multiple_of(2), "{what}: {names:?}");
    for pair in messages.chunks(2) {
        let is_pair =
            pair[0].thread_id == pair[1].thread_id && pair[0].message_id != pair[1].message_id;
        assert!(is_pair, "{what}: {names:?}");
    }
    let sequences: Vec<_> = messages.iter().map(|message| message.sequence).collect();
    assert!(sequences.is_sorted(), "{what}: {sequences:?}");
}

/// Asks one question of a chat.
fn ask(chats: &Chats, chat: &str, random: &mut Random, is_whole: bool) -> Result<()> {
    let all = MessageFilter::default();
    match random.below(if is_whole { 8 } else { 7 }) {
        0 => {
            let count = chats.count_messages(chat, &all)?;
            assert!(count.is_multiple_of(2), "{count}");
        }
        1 => {
            let of_thread = MessageFilter {
                thread_id: Some(random.below(700).to_string()),
                limit: 5,
                ..all
            };
            in_pairs(&chats.get_messages(chat, &of_thread)?, "a thread");
            let count = chats.count_messages(chat, &of_thread)?;
            assert!(count.is_multiple_of(2), "{count} of a thread");
        }
        2 => {
            let page = MessageFilter {
                offset: 2 * random.place(700),
                limit: 2 * (1 + random.place(20)),
                ..all
            };
            in_pairs(&chats.get_messages(chat, &page)?, "at an offset");
        }
        3 => {
            let page = ListMessages {
                newest_first: true,
                limit: 2 * (1 + random.place(20)),
                ..ListMessages::default()
            };
            let mut last = chats.list_messages(chat, &page)?.items;
            last.reverse();
            in_pairs(&last, "the last page");
        }
        4 => {
            // The second of a pair, which may be deleted.
            let id = format!("{chat} {} 1", random.below(620));
            let page = ListMessages {
                start_after: Some(id),
                limit: 2 * (1 + random.place(20)),
                ..ListMessages::default()
            };
            in_pairs(&chats.list_messages(chat, &page)?.items, "behind a message");
        }
        5 => {
            let of_type = MessageFilter {
                message_type: Some("even".into()),
                limit: 20,
                ..all
            };
            let page = chats.get_messages(chat, &of_type)?;
            assert!(page.iter().all(|it| it.message_type == "even"));
        }
        6 => {
            let failed = ListSteps {
                status: Some(StepStatus::Failed),
                limit: 500,
                ..ListSteps::default()
            };
            let steps = chats.list_steps(&failed)?.items;
            assert!(steps.iter().all(|step| step.status == StepStatus::Failed));
        }
        _ => in_pairs(&chats.get_messages(chat, &all)?, "the whole chat"),
    }
    Ok(())
}

/// Asks a store that stays open, until the others are done.
fn read(store: &Store, seed: u64, is_over: &AtomicBool, asked: &AtomicU64) -> Result<()> {
    let mut random = Random::new(seed);
    let chats = store.chats();
    while !is_over.load(Ordering::Relaxed) {
        let list = chats.list_chats(&ChatFilter::default())?.items;
        let Some(chat) = list.get(random.place(list.len().clamp(1, 3))) else {
            continue;
        };
        match ask(&chats, &chat.chat_id, &mut random, seed.is_multiple_of(2)) {
            // Deleted meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            answered => answered?,
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn chats_of_a_writer_that_is_killed_are_of_one_moment_to_who_reads_them_and_keep_what_was_acknowledged()
 {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    drop(Store::open(folder.path()).unwrap().close());
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let wrong: Mutex<Vec<Error>> = Mutex::default();
    let (mut said, mut kills) = (Said::default(), 0);
    let budget = budget::of("chats of a killed writer");
    let mut random = Random::new(budget.seed());
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (is_over, asked, wrong) = (&is_over, &asked, &wrong);
            let store = Store::open_read_only(folder.path()).unwrap();
            scope.spawn(move || {
                if let Err(error) = read(&store, seed, is_over, asked) {
                    wrong.lock().unwrap().push(error);
                }
            });
        }
        while kills < KILLS || budget.goes_on() {
            kills += 1;
            let lines = random.below(3_000);
            kill_after(writer(folder.path(), kills), lines, &mut said);
            let is_wrong = check(folder.path(), &said);
            if is_wrong.is_err() || !wrong.lock().unwrap().is_empty() {
                is_over.store(true, Ordering::Relaxed);
            }
            is_wrong.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
    budget.add("kills", kills);
    budget.add("questions", asked.into_inner());
}

/// Everything that was acknowledged is there.
fn check(folder: &Path, said: &Said) -> std::result::Result<(), String> {
    let store = Store::open_read_only(folder).map_err(|error| error.to_string())?;
    let chats: BTreeSet<&String> = said.saved.iter().map(|(chat, _)| chat).collect();
    for chat in chats {
        if said.chats_deleting.contains(chat) {
            continue;
        }
        let messages = store.chats().get_messages(chat, &MessageFilter::default());
        let messages = messages.map_err(|error| format!("{chat}: {error}"))?;
        in_pairs(&messages, chat);
        let there: BTreeSet<_> = messages
            .into_iter()
            .map(|it| it.thread_id.unwrap())
            .collect();
        let of_chat = said.saved.iter().filter(|(of, _)| of == chat);
        for pair in of_chat.filter(|pair| !said.deleting.contains(pair)) {
            if !there.contains(&pair.1.to_string()) {
                return Err(format!("{pair:?} was acknowledged"));
            }
        }
    }
    Ok(())
}
