//! The subject of an export, and its destination.

use runlog::{ErrorKind, InstanceId, Session, blocking::Store};

use crate::{
    failure::{Exit, Failure, Result},
    find,
    output::{Out, note},
    read, text,
};

/// The sessions named on the command line.
pub(super) struct Subject {
    pub(super) sessions: Vec<Session>,
    /// The agent of the first run that is named, which a page shows first.
    #[cfg_attr(
        not(feature = "viewer"),
        expect(dead_code, reason = "pages are made where the build has the viewer")
    )]
    pub(super) agent: Option<InstanceId>,
}

/// The destination of the lines.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// Reports the sessions that are only chats, of which transcripts have nothing; an error if there is no other.
pub(super) fn note_chats(store: &Store, sessions: &[Session], out: &Out) -> Result<Exit> {
    let mut chats = Vec::new();
    for session in sessions {
        if read::is_only_chat(store, session)? {
            chats.push(session.id);
        }
    }
    let told = |id| {
        format!(
            "session {id} is a chat, in which no agent has a context, so a transcript has nothing of it; `runlog export {id}`, \
             without --format, has its messages"
        )
    };
    match chats.first() {
        None => Ok(Exit::Ok),
        Some(first) if chats.len() == sessions.len() => Err(Failure::usage(told(*first))),
        Some(_) => {
            for id in chats {
                note(out.is_json(), format!("left out: {}", told(id)));
            }
            Ok(Exit::Partial)
        }
    }
}

/// The failure to find what is named; of a flow by itself one that says how it is exported.
pub(super) fn not_found(store: &Store, name: &str, failure: Failure) -> Failure {
    if failure.kind() != ErrorKind::NotFound.name() {
        return failure;
    }
    let flow = find::flow_id(store, name).and_then(|id| Ok(store.flows().get(id)?));
    match flow {
        Ok(Some(flow)) if flow.run_status.is_none() => Failure::not_found(format!(
            "{name} is the flow {}, which is of no run and in no session; `runlog export --all` has it, `runlog flow show {name}` shows it",
            flow.run_id
        )),
        _ => failure,
    }
}

/// How many sessions were written, and flows by themselves, which an export of the whole store has too.
pub(super) fn extent(store: &Store, sessions: usize, is_all: bool) -> Result<String> {
    let sessions = text::count(sessions as u64, "session", "sessions");
    let mut flows = 0;
    if is_all {
        for flow in find::flows(store) {
            flows += u64::from(flow?.run_status.is_none());
        }
    }
    Ok(match flows {
        0 => sessions,
        flows => {
            let flows = text::count(flows, "flow", "flows");
            format!("{sessions} and {flows} of no run")
        }
    })
}
