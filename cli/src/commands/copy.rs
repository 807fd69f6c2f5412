//! `runlog copy`: copies a session, whole, up to a point or up to a message.

use runlog::{ErrorKind, Session, SessionId, blocking::Store, sessions::CopySession};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find,
    output::{Out, note},
    read, store, text,
};

/// How many of the newest sessions are compared with the copy.
const LOOKED_AT: usize = 100;
/// The most equal copies that are listed.
const SAME_SHOWN: usize = 3;

const AFTER_HELP: &str = "\
A copy shares what it has with its source: nothing is written twice, however long the session is, and what is done \
to one of them later doesn't change the other.

It is there whole or not at all, also when the command is killed. Give it a --name where you may have to repeat the \
command: a second copy of that name is refused.

With --json: {\"session\": {…}, \"copied_from\", \"instances\", \"events\", \"same_copies\": [ids]}, the last \
being copies up to the same point that were made before, and that nothing was added to.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The session to copy
    session: String,
    /// Copy up to this sequence of the session's first agent, and what had been made by then of the others
    #[arg(long, value_name = "N")]
    to_point: Option<u64>,
    /// Copy up to this message of the session's chat, which `runlog chat messages` lists, and what agents had made by then
    #[arg(long, value_name = "ID", conflicts_with = "to_point")]
    to_message: Option<String>,
    /// What to call the copy
    #[arg(long)]
    name: Option<String>,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    check_name(args.name.as_deref())?;
    let store = store::open(global)?;
    let source = find::session(&store, &args.session)?;
    let options = CopySession {
        up_to_sequence: args.to_point,
        up_to_message: args.to_message.clone(),
        name: args.name.clone(),
        ..CopySession::default()
    };
    let copy = copy(&store, &source, &options)?;
    let instances = store.instances(copy.id)?;
    let mut events = 0;
    for instance in &instances {
        events += read::event_count(&store, instance.id)?;
    }
    let same = same_copies(&store, &source, &copy)?;
    if out.is_json() {
        out.value(&serde_json::json!({
            "session": copy, "copied_from": source.id, "instances": instances.len(), "events": events,
            "same_copies": same,
        }))?;
    } else {
        let chat = match copy.chat {
            Some(_) => ", and its chat",
            None => "",
        };
        out.line(format!(
            "copied to {}: {}, {}{chat}",
            copy.id,
            text::count(instances.len() as u64, "agent", "agents"),
            text::count(events, "event", "events")
        ))?;
        note_same(&same);
    }
    Ok(Exit::Ok)
}

/// Refuses a name that would mean another session.
pub(crate) fn check_name(name: Option<&str>) -> Result<()> {
    match name {
        Some("@last") => Err(Failure::usage(
            "--name @last: that is the last session, whatever it is called",
        )),
        _ => Ok(()),
    }
}

/// Copies a session.
pub(crate) fn copy(store: &Store, source: &Session, options: &CopySession) -> Result<Session> {
    if options.up_to_sequence.is_some() {
        check_has_agent(store, source)?;
    }
    match store.copy_session(source.id, options) {
        Ok(copied) => Ok(copied.session),
        Err(error) => {
            let is_taken = error.kind() == ErrorKind::AlreadyExists;
            let failure = point_error(error, source);
            let taken = options
                .name
                .as_deref()
                .filter(|_| is_taken)
                .and_then(|name| store.find_session(name).ok());
            Err(
                match taken.filter(|taken| taken.copied_from == Some(source.id)) {
                    Some(taken) => {
                        failure.and(format!("{} is a copy of this session already", taken.id))
                    }
                    None => failure,
                },
            )
        }
    }
}

/// Copies of a session, among the newest sessions, up to the same point as this one, to which nothing was added: they may come
/// from an earlier attempt of the same command that was killed.
pub(crate) fn same_copies(
    store: &Store,
    source: &Session,
    copy: &Session,
) -> Result<Vec<SessionId>> {
    let length = |session: &Session| -> Result<Option<u64>> {
        let root = store.instances(session.id)?.into_iter().next();
        let inherited = root.map(|root| read::inherited_count(store, root.id));
        Ok(inherited.transpose()?.flatten())
    };
    let own = length(copy)?;
    let mut same = Vec::new();
    for session in find::sessions(store).take(LOOKED_AT) {
        let session = session?;
        if session.copied_from == Some(source.id)
            && session.id != copy.id
            && length(&session)?.is_some_and(|length| Some(length) == own)
        {
            same.push(session.id);
        }
    }
    Ok(same)
}

/// Prints a note about them.
pub(crate) fn note_same(same: &[SessionId]) {
    for id in same.iter().take(SAME_SHOWN) {
        note(
            false,
            format!(
                "{id} is a copy up to the same point, and nothing was added to it: it may be left from a command that was interrupted"
            ),
        );
    }
}

/// Refuses a point in a session that has no agent, such as a chat.
pub(crate) fn check_has_agent(store: &Store, session: &Session) -> Result<()> {
    if !store.instances(session.id)?.is_empty() {
        return Ok(());
    }
    let id = session.id;
    let failure = Failure::not_found(format!("session {id} has no agent, and so no events"));
    Err(match session.chat {
        Some(_) => failure.and(format!(
            "it is a chat, whose messages `runlog chat messages {id}` lists; `runlog copy {id} --to-message` copies it up to one of them"
        )),
        None => failure,
    })
}

/// Reports a point beyond the end as a wrong argument.
pub(crate) fn point_error(error: runlog::Error, session: &Session) -> Failure {
    match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        // It names the session.
        ErrorKind::NotFound => Failure::from(error),
        _ => Failure::from(error).about(format!("session {}", session.id)),
    }
}
