//! `runlog truncate`: removes a session's events after a point.

use runlog::{Session, blocking::Store};

use crate::{
    args::Global,
    failure::{Exit, Result},
    find,
    output::Out,
    store, text,
};

const AFTER_HELP: &str = "\
Later events go on at N + 1. Copies of the session keep what they share. What the sub-agents of \
the session's root wrote since goes too; give an instance instead of a session to truncate that one alone.

With --json: {\"session_id\", \"instance_id\", \"after\", \"deleted\"}, those of sub-agents counted too.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The session, or the agent instance
    #[arg(value_name = "SESSION|INSTANCE")]
    subject: String,
    /// The last sequence that stays; 0 forgets everything
    #[arg(long, value_name = "N")]
    after: u64,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open(global)?;
    let subject = find::subject(&store, &args.subject)?;
    let session = subject.session();
    let (instance, deleted) = match &subject {
        find::Subject::Session(session, _) => {
            let deleted = truncate(&store, session, args.after)?;
            (store.root_instance(session.id)?, deleted)
        }
        find::Subject::Instance(session, instance) => {
            let deleted = store
                .contexts()
                .delete_events_after(instance.id, args.after);
            (
                instance.clone(),
                deleted.map_err(|error| super::copy::point_error(error, session))?,
            )
        }
    };
    if out.is_json() {
        out.value(&serde_json::json!({
            "session_id": session.id, "instance_id": instance.id, "after": args.after, "deleted": deleted,
        }))?;
    } else {
        let what = text::count(deleted, "event", "events");
        out.line(format!(
            "forgot {what} of session {} after sequence {}",
            session.id, args.after
        ))?;
    }
    Ok(Exit::Ok)
}

/// Truncates a session's first agent, and its aside after that point.
pub(crate) fn truncate(store: &Store, session: &Session, after: u64) -> Result<u64> {
    super::copy::check_has_agent(store, session)?;
    store
        .truncate_session(session.id, after)
        .map_err(|error| super::copy::point_error(error, session))
}
