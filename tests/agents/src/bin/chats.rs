//! A process that writes chats and says so, to be killed: `chats FOLDER SEED`.
//!
//! Whatever it writes, the messages of a chat come in pairs, one behind the other, in a thread of their own: they are saved, and
//! deleted, by one batch. So is every moment of a chat, whoever reads it. Prints `open`, `saved CHAT PAIR` once a pair is durable, and
//! `deleting CHAT PAIR`, or `deleting CHAT`, before one is deleted, or all of a chat.

use std::io::Write;

use runlog::{
    ErrorKind, Result, StoreOptions,
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole, MessageFilter, Step, StepStatus, StepType},
    log::CompactOptions,
    retention::RetentionPolicy,
};
use runlog_tests::random::Random;

/// As many pairs as a chat begins with: more messages than an offset is read through.
const FIRST: u64 = 600;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seed] = arguments.as_slice() else {
        panic!("chats FOLDER SEED");
    };
    let mut random = Random::new(seed.parse().expect("a number"));
    let options = StoreOptions {
        segment_bytes_max: 1 << 20,
        ..StoreOptions::default()
    };
    let store = Store::open_with(folder, options)?;
    say("open");
    for generation in 0.. {
        let chat = format!("{seed}-{generation}");
        write(&store, &chat, &mut random)?;
        if random.one_in(2) {
            say(&format!("deleting {chat}"));
            store.chats().delete_chat(&chat)?;
        }
        if random.one_in(3) {
            let policy = RetentionPolicy {
                deleted: true,
                ..RetentionPolicy::default()
            };
            store.retain(&policy)?;
        }
        if random.one_in(3) {
            store.compact(CompactOptions::default())?;
        }
    }
    Ok(())
}

/// Makes a chat, and says a few hundred things in it.
fn write(store: &Store, chat: &str, random: &mut Random) -> Result<()> {
    let chats = store.chats();
    let new = Chat {
        chat_id: chat.to_owned(),
        ..Chat::new("a")
    };
    match chats.create_chat(new) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    let first: Vec<_> = (0..FIRST)
        .flat_map(|number| pair(chat, number, 0))
        .collect();
    chats.save_messages(chat, first)?;
    let (mut there, mut next): (Vec<u64>, _) = ((0..FIRST).collect(), FIRST);
    for number in 0..FIRST {
        say(&format!("saved {chat} {number}"));
    }
    let count = 50 + random.below(100);
    for round in 0..count {
        match random.below(10) {
            0..3 if there.len() > 1 => {
                let number = there.swap_remove(random.place(there.len()));
                say(&format!("deleting {chat} {number}"));
                let ids = pair(chat, number, 0).map(|message| message.message_id);
                chats.delete_messages(chat, &ids.each_ref().map(String::as_str))?;
                // Its ids are free again.
                if random.one_in(4) {
                    chats.save_messages(chat, pair(chat, number, 0).to_vec())?;
                    there.push(number);
                    say(&format!("saved {chat} {number}"));
                }
            }
            3 => {
                let step = |number: u64| Step {
                    step_id: format!("{chat} {round} {number}"),
                    chat_id: chat.to_owned(),
                    status: StepStatus::Failed,
                    ..Step::new(format!("{chat} {round}"), "a", chat, StepType::Llm)
                };
                chats.save_steps(vec![step(0), step(1)])?;
            }
            4 => drop(chats.count_messages(chat, &MessageFilter::default())?),
            _ => {
                // Towards the end also behind the second message of an earlier pair.
                let at = match round + 20 > count {
                    true => 2 * (1 + random.below(FIRST)),
                    false => 0,
                };
                chats.save_messages(chat, pair(chat, next, at).to_vec())?;
                say(&format!("saved {chat} {next}"));
                there.push(next);
                next += 1;
            }
        }
    }
    Ok(())
}

fn pair(chat: &str, number: u64, sequence: u64) -> [ChatMessage; 2] {
    [0, 1].map(|which| ChatMessage {
        message_id: format!("{chat} {number} {which}"),
        thread_id: Some(format!("{number}")),
        message_type: ["odd", "even"][which].to_owned(),
        sequence,
        ..ChatMessage::text(ChatRole::User, "words")
    })
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more when the parent is gone; whoever kills this listens to the end.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
