//! `runlog copy`: a session once more, whole or up to a point.

use runlog::engine::{Batch, Expected, Op, Sequence};
use runlog::{CopySession, ErrorKind, Session, Store, transcript::keep::aside_stream};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::Out,
    store, text,
};

const AFTER_HELP: &str = "\
A copy shares what it has with its source: nothing is written twice, however long the session is, and what is done \
to one of them later doesn't change the other.

With --json: {\"session\": {…}, \"copied_from\", \"instances\", \"events\"}.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The session to copy
    session: String,
    /// Copy up to this sequence of the session's first agent, and what had been made by then of the others
    #[arg(long, value_name = "N")]
    to_point: Option<u64>,
    /// What to call the copy
    #[arg(long)]
    name: Option<String>,
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    check_name(args.name.as_deref())?;
    let store = store::open(global)?;
    let source = store::session(&store, &args.session)?;
    let copy = copy(&store, &source, args.to_point, args.name.clone())?;
    let instances = store.instances(copy.id)?;
    let mut events = 0;
    for instance in &instances {
        events += store::event_count(&store, instance.id)?;
    }
    if out.is_json() {
        out.value(&serde_json::json!({
            "session": copy, "copied_from": source.id, "instances": instances.len(), "events": events,
        }))?;
    } else {
        out.line(format!(
            "copied to {}: {}, {}",
            copy.id,
            text::count(instances.len() as u64, "agent", "agents"),
            text::count(events, "event", "events")
        ))?;
    }
    Ok(Exit::Ok)
}

/// A name that would stand for another session can't be given.
pub(crate) fn check_name(name: Option<&str>) -> Result<()> {
    match name {
        Some("@last") => Err(Failure::usage("--name @last: that is the newest session, whatever it is called")),
        _ => Ok(()),
    }
}

/// Copies a session with what is kept beside its messages.
pub(crate) fn copy(store: &Store, source: &Session, to_point: Option<u64>, name: Option<String>) -> Result<Session> {
    let options = CopySession { up_to_sequence: to_point, name, title: None };
    let copied = store.copy_session(source.id, &options).map_err(|error| point_error(error, source))?;
    let at = match to_point {
        None => Sequence::MAX,
        Some(point) => store::aside_at(store, source, point)?,
    };
    let (parent, child) = (aside_stream(source.id), aside_stream(copied.session.id));
    let info = pollster::block_on(store.backend().stream(parent))?;
    if let Some(at) = info.map(|info| info.last_sequence.min(at)).filter(|at| at.0 > 0) {
        let fork = Op::Fork { parent, expected: Expected::Any, at, child };
        pollster::block_on(store.backend().commit(Batch::new(vec![fork])))?;
    }
    Ok(copied.session)
}

/// A point that is beyond the end is the caller's mistake.
pub(crate) fn point_error(error: runlog::Error, session: &Session) -> Failure {
    match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => Failure::from(error).about(format!("session {}", session.id)),
    }
}
