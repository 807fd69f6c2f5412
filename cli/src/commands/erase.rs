//! `runlog erase`: takes contents out of the store, and their bytes off the disk.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use runlog::{
    RunId, Session,
    blocking::Store,
    chats::ChatFilter,
    retention::{Erase, Erased},
};

use crate::{
    args::{Global, at_least},
    failure::{Exit, Failure, Result},
    find,
    output::{Out, Report, note},
    progress::Compacting,
    store, text,
};

const AFTER_HELP: &str = "\
What is named is empty in every read from then on, also in copies that share it, and the store is compacted, so that its bytes are \
gone from the disk. The sessions and the places of what was erased stay. It can't be undone: on a terminal the command asks first, \
elsewhere it needs --yes.

With a session go its title and its metadata, and of its runs the details, the flows, and how they ended in words. That there were such \
runs, when, and how they ended stays. Not erased are a session's name, by which it is found, which is printed when it is done; \
backups and exports. \
Stopped half-way, call it again. `runlog search` finds positions.

Where a segment couldn't be rewritten, so that the bytes may be on the disk still, it ends with exit code 6.

Of a --user of whom there is no chat a warning tells; where nothing else is named, it ends with exit code 3, and the store is \
compacted only if an erasure that was stopped left something to do.

With --json: {\"store\", \"dry_run\": false, \"records\", \"is_gone\", \"unknown_users\", \"compaction\"}, with the users of whom \
there is no chat, and the fields of `runlog compact` in the last.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// All that was said in these sessions, and about them
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// All chats that this user made, deleted ones too; may be given several times
    #[arg(long = "user", value_name = "USER")]
    users: Vec<String>,
    /// All that this flow recorded and saved, also one of no run; may be given several times
    #[arg(long = "flow", value_name = "FLOW")]
    flows: Vec<String>,
    /// The record at this position of the log; may be given several times
    #[arg(long = "position", value_name = "N", value_parser = at_least::<u64>(1))]
    positions: Vec<u64>,
    /// The message of a chat with this id; may be given several times
    #[arg(long = "message", value_name = "ID")]
    messages: Vec<String>,
    /// Why, for those who find it empty; it must not say what was erased
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Don't ask
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    out.continue_for_exit_code();
    let is_nothing = args.sessions.is_empty() && args.users.is_empty() && args.flows.is_empty();
    if is_nothing && args.positions.is_empty() && args.messages.is_empty() {
        return Err(Failure::usage(
            "nothing is named to be erased; give a SESSION, --user USER, --flow FLOW, --position N or --message ID",
        ));
    }
    // Other processes may write until there is an answer, which is for the sessions that were named then: `@last` is another one
    // once somebody has begun one.
    let asked = match args.yes {
        true => None,
        false => Some(ask(args, &store::open_read_only(global)?, out.is_json())?),
    };
    let store = store::open(global)?;
    let (sessions, flows) = match asked {
        Some(asked) => asked,
        None => (sessions_of(args, &store)?, flows_of(args, &store)?),
    };
    let what = Erase {
        sessions: sessions.iter().map(|session| session.id).collect(),
        users: args.users.clone(),
        flows,
        messages: args.messages.clone(),
        positions: args.positions.clone(),
        reason: args.reason.clone(),
        ..Erase::default()
    };
    let done = erase(&store, &what, out.is_json())?;
    store.close()?;
    let is_gone = done.is_gone;
    if is_gone && has_found_nothing(&what, &done) {
        let unknown: Vec<String> = done.unknown_users.iter().map(|it| unknown(it)).collect();
        return Err(Failure::not_found(unknown.join("; ")).and("nothing was erased"));
    }
    for user in &done.unknown_users {
        note(out.is_json(), format!("warning: {}", unknown(user)));
    }
    out.report(global, false, done, print)?;
    for session in &sessions {
        note_kept(session, out.is_json());
    }
    Ok(if is_gone { Exit::Ok } else { Exit::Partial })
}

fn flows_of(args: &Args, store: &Store) -> Result<Vec<RunId>> {
    let named = args.flows.iter();
    named.map(|text| find::flow_id(store, text)).collect()
}

fn sessions_of(args: &Args, store: &Store) -> Result<Vec<Session>> {
    let found = args.sessions.iter();
    found
        .map(|text| find::session_or_deleted(store, text))
        .collect()
}

/// How many chats a user made.
fn made_by(store: &Store, user: &str) -> Result<String> {
    let count = |deleted| {
        let made = ChatFilter {
            user_id: Some(user.to_owned()),
            sessions: true,
            deleted,
            ..ChatFilter::default()
        };
        Ok::<_, Failure>(store.chats().list_chats(&made)?.total as u64)
    };
    let (there, deleted) = (count(false)?, count(true)?);
    Ok(format!(
        "all of {} of {}, of which {deleted} deleted",
        text::count(there + deleted, "chat", "chats"),
        text::name(user),
    ))
}

/// Tells of the text of a session that an erasure leaves.
fn note_kept(session: &Session, is_json: bool) {
    if let Some(name) = &session.name {
        let name = text::one_line(name, 100);
        note(
            is_json,
            format!("not erased of session {}: its name, {name:?}", session.id),
        );
    }
}

/// The sessions and flows that are named; an error unless somebody at a terminal says yes.
fn ask(args: &Args, store: &Store, is_json: bool) -> Result<(Vec<Session>, Vec<RunId>)> {
    if is_json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(
            "what is erased is gone for good, from copies too; give --yes where nobody can be asked",
        ));
    }
    let asked = sessions_of(args, store)?;
    let named = |session: &Session| match &session.title {
        Some(title) => format!("{} ({})", session.id, text::one_line(title, 60)),
        None => session.id.to_string(),
    };
    let sessions = asked
        .iter()
        .map(|session| format!("all of session {}", named(session)));
    let users = args.users.iter();
    let users: Vec<String> = users
        .map(|user| made_by(store, user))
        .collect::<Result<_>>()?;
    let asked_flows = flows_of(args, store)?;
    let flows = asked_flows.iter().map(|id| format!("all of flow {id}"));
    let messages = args
        .messages
        .iter()
        .map(|id| format!("message {}", text::name(id)));
    let positions = args
        .positions
        .iter()
        .map(|position| format!("the record at position {position}"));
    let all: Vec<String> = sessions
        .chain(users)
        .chain(flows)
        .chain(messages)
        .chain(positions)
        .collect();
    let unasked = |error: &io::Error| Failure::io(error, "asking whether to erase");
    let mut stderr = io::stderr();
    write!(
        stderr,
        "{}\nErase this for good, from copies too? [y/N] ",
        all.join("\n")
    )
    .and_then(|()| stderr.flush())
    .map_err(|error| unasked(&error))?;
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| unasked(&error))?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok((asked, asked_flows));
    }
    Err(Failure::other("nothing was erased"))
}

fn erase(store: &Store, what: &Erase, is_json: bool) -> Result<Erased> {
    let mut progress = Compacting::new(is_json);
    let done = store.erase_with(what, |at| progress.at(at));
    progress.finish();
    done.map_err(Failure::of_argument)
}

/// Whether only users were named, and none of them is known. One whose erasure was stopped before its end isn't known either; then
/// there was something to erase on the disk.
fn has_found_nothing(what: &Erase, done: &Erased) -> bool {
    let named = what.sessions.len() + what.flows.len() + what.messages.len() + what.positions.len();
    let is_known = |user| !done.unknown_users.contains(user);
    named == 0
        && done.records + done.compaction.payloads_erased == 0
        && !what.users.iter().any(is_known)
}

fn unknown(user: &str) -> String {
    format!(
        "no chat of the user {user:?} was found: the name may be misspelt, or what they made was erased before"
    )
}

fn print(report: &Report<Erased>, out: &mut Out) -> Result<()> {
    let done = &report.done;
    let records = text::count(done.records, "record", "records");
    if done.is_gone {
        return out.line(format!("erased {records}, from the disk too"));
    }
    let left = text::count(done.compaction.segments_left, "segment", "segments");
    out.line(format!(
        "erased {records} from every read, but {left} may have the bytes still: a repair made it, a newer build wrote to it, or it is \
         damaged, so that it can't be rewritten"
    ))
}
