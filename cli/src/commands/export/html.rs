//! `runlog export --html`: the viewer with a recording inside, as one file.

use std::collections::HashSet;

use runlog::{
    ErrorKind, Session, SessionId,
    archive::What,
    blocking::Store,
    runs::{ListRuns, Run},
};

use super::subject::{Sink, Subject, not_found};
use crate::{
    failure::{Failure, Result},
    find,
};

#[cfg(feature = "viewer")]
pub(super) use with_viewer::Page;
#[cfg(not(feature = "viewer"))]
pub(super) use without_viewer::Page;

/// How many runs are asked for at a time.
const RUNS_AT_ONCE: usize = 500;

/// The runs and sessions with these names, with the sessions of all runs that their runs spawned.
pub(super) fn subject(store: &Store, names: &[String]) -> Result<Subject> {
    let (mut sessions, mut agent) = (Vec::new(), None);
    for (index, name) in names.iter().enumerate() {
        let (session, run) = named(store, name)?;
        if index == 0 {
            agent = run.map(|run| run.instance_id);
        }
        sessions.push(session);
    }
    let mut known: HashSet<SessionId> = sessions.iter().map(|session| session.id).collect();
    let mut at = 0;
    while let Some(session) = sessions.get(at) {
        for id in spawned_by(store, session.id)? {
            if known.insert(id) {
                sessions.extend(store.get_session(id)?);
            }
        }
        at += 1;
    }
    Ok(Subject { sessions, agent })
}

/// The session with a name, and the run if it is a run's name.
fn named(store: &Store, name: &str) -> Result<(Session, Option<Run>)> {
    let session = none_if_missing(find::session(store, name))?;
    let run = none_if_missing(find::run(store, name))?;
    let run = run.map(|id| store.runs().get(id)).transpose()?.flatten();
    let of_run = run.as_ref().map(|run| store.get_session(run.session_id));
    match (session, of_run.transpose()?.flatten()) {
        (Some(session), Some(of_run)) if session.id != of_run.id => {
            Err(Failure::ambiguous(format!(
                "{name:?} fits the session {}, and a run of the session {}; say more of it",
                session.id, of_run.id
            )))
        }
        (_, Some(of_run)) => Ok((of_run, run)),
        (Some(session), None) => Ok((session, None)),
        (None, None) => {
            let failure = Failure::not_found(format!(
                "there is no run and no session {name:?}; `runlog runs` and `runlog ls` list them"
            ));
            Err(not_found(store, name, failure))
        }
    }
}

fn none_if_missing<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(failure) if failure.kind() == ErrorKind::NotFound.name() => Ok(None),
        found => found.map(Some),
    }
}

/// The sessions of the runs that a session's runs spawned.
fn spawned_by(store: &Store, session: SessionId) -> Result<Vec<SessionId>> {
    let mut spawned = Vec::new();
    for run in find::walk(|cursor| {
        let options = ListRuns {
            session_id: Some(session),
            limit: RUNS_AT_ONCE,
            cursor,
            ..ListRuns::default()
        };
        let page = store.runs().list(&options)?;
        Ok((page.items, page.next))
    }) {
        let parent = run?.id;
        for child in find::walk(|cursor| {
            let page = store.runs().children(parent, RUNS_AT_ONCE, cursor)?;
            Ok((page.items, page.next))
        }) {
            spawned.push(child?.session_id);
        }
    }
    Ok(spawned)
}

#[cfg(not(feature = "viewer"))]
mod without_viewer {
    use super::{Failure, Result, SessionId, Sink, Store, Subject, What};
    use crate::failure::Exit;

    /// This build has no viewer.
    pub(in super::super) enum Page {}

    impl Page {
        pub(in super::super) fn of_this_build() -> Result<Self> {
            let message = "this runlog was built without the viewer, which the page consists of; in a clone, \
                           `cargo xtask viewer && cargo install --locked --path cli --bin runlog --features viewer` builds it with the viewer";
            Err(Failure::new(Exit::Failure, "unsupported", message))
        }

        pub(in super::super) fn write(
            self,
            _: &Store,
            _: What<'_>,
            _: &Subject,
            _: Sink<'_>,
        ) -> Result<Vec<SessionId>> {
            match self {}
        }
    }
}

#[cfg(feature = "viewer")]
mod with_viewer {
    use std::io::Write;

    use base64::{Engine, engine::general_purpose::STANDARD};
    use flate2::{Compression, write::GzEncoder};
    use runlog::archive;

    use super::{Failure, Result, SessionId, Sink, Store, Subject, What};
    use crate::{failure::Exit, text, viewer_files::Files};

    /// The placeholders for the recording, and for the agent that is shown first.
    const RECORDING: &str = "{{RUNLOG_RECORDING}}";
    const AGENT: &str = "{{RUNLOG_AGENT}}";
    const TITLE: &str = "<title>Runlog</title>";
    /// More of a recording than this isn't held in a page's memory.
    const RECORDING_BYTES_MAX: usize = 256 << 20;
    /// Longer titles are cut.
    const TITLE_CHARS_MAX: usize = 120;

    /// The viewer as one file, in three parts: what comes before the recording, between it and the agent, and after.
    pub(in super::super) struct Page {
        before: String,
        between: String,
        after: String,
    }

    impl Page {
        pub(in super::super) fn of_this_build() -> Result<Self> {
            let file = Files::get("runlog-viewer.html");
            let whole = file.and_then(|file| String::from_utf8(file.data.into_owned()).ok());
            let parts = whole.as_deref().and_then(|whole| {
                let (before, rest) = whole.split_once(RECORDING)?;
                let (between, after) = rest.split_once(AGENT)?;
                Some([before, between, after].map(str::to_owned))
            });
            let [before, between, after] = parts.ok_or_else(|| {
                let message = "the viewer that this runlog was built with has no place for a recording; \
                               build both again: `cargo xtask viewer`, then this command";
                Failure::new(Exit::Failure, "unsupported", message)
            })?;
            Ok(Self {
                before,
                between,
                after,
            })
        }

        /// Writes the page, and returns the sessions in it.
        pub(in super::super) fn write(
            self,
            store: &Store,
            what: What<'_>,
            subject: &Subject,
            write: Sink<'_>,
        ) -> Result<Vec<SessionId>> {
            let title = format!("<title>{}</title>", title_of(subject));
            write(self.before.replacen(TITLE, &title, 1).as_bytes())?;
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            let mut bytes = 0;
            let export = |piece: &[u8]| {
                bytes += piece.len();
                if bytes > RECORDING_BYTES_MAX {
                    return Err(Failure::new(
                        Exit::Failure,
                        "too_large",
                        "the recording has more than 256 MiB, too much for a page; `runlog serve --open` shows it",
                    ));
                }
                packed.write_all(piece).map_err(|error| unpacked(&error))?;
                write_whole_groups(packed.get_mut(), write)
            };
            let written = archive::export(store, what, &mut { export })?;
            let rest = packed.finish().map_err(|error| unpacked(&error))?;
            write(STANDARD.encode(rest).as_bytes())?;
            write(self.between.as_bytes())?;
            let agent = subject.agent.map(|agent| agent.to_string());
            write(agent.unwrap_or_default().as_bytes())?;
            write(self.after.as_bytes())?;
            Ok(written.sessions)
        }
    }

    /// Writes bytes as base64 in whole groups of three, and keeps the rest in `bytes`.
    fn write_whole_groups(bytes: &mut Vec<u8>, write: Sink<'_>) -> Result<()> {
        let whole = bytes.len() - bytes.len() % 3;
        if whole == 0 {
            return Ok(());
        }
        write(STANDARD.encode(&bytes[..whole]).as_bytes())?;
        bytes.drain(..whole);
        Ok(())
    }

    fn unpacked(error: &std::io::Error) -> Failure {
        Failure::io(error, "can't pack the recording")
    }

    /// The page's title, escaped for HTML.
    fn title_of(subject: &Subject) -> String {
        let session = subject.sessions.first();
        let title = session.and_then(|it| it.title.as_deref().or(it.name.as_deref()));
        text::one_line(title.unwrap_or("Runlog"), TITLE_CHARS_MAX)
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    }
}
