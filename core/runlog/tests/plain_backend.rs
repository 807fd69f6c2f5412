//! A backend that can read and write streams, and nothing else, is enough for everything but maintenance.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use pollster::block_on;
use runlog::{
    Error, ErrorKind, NewMessage, NewRun, NewSession, RunStatus,
    archive::{self, What},
    backend::{Backend, Decorator, Maintenance, if_supported},
    blocking::Store,
    engine::{Embedded, SystemHost, Wait},
    log::{Batch, Expected, NewRecord, Op, Position, StreamId},
    runs::ListRuns,
    sessions::ListSessions,
};

/// Reads and writes, and has no [`Maintenance`].
struct Plain(Embedded);

impl Decorator for Plain {
    fn inner(&self) -> &dyn Backend {
        &self.0
    }
}

fn plain() -> Store {
    let embedded = Embedded::in_memory(Arc::new(SystemHost), Wait::Block);
    Store::with_backend(Arc::new(Plain(embedded)))
}

#[test]
fn sessions_runs_and_archives_need_no_maintenance() {
    let store = plain();
    let (session, agent) = store
        .start_session(NewSession::named("trip"), "planner")
        .unwrap();
    let recorder = store.runs().start(NewRun::new(agent.id)).unwrap();
    recorder.record_message(NewMessage::user("Oslo.")).unwrap();
    recorder.complete(None).unwrap();
    let listed = store.runs().list(&ListRuns::default()).unwrap();
    assert_eq!(listed.items[0].status, RunStatus::Completed);

    let mut lines = Vec::new();
    archive::export(&store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    })
    .unwrap();
    let copy = plain();
    let mut source = || Ok(Box::new(std::io::Cursor::new(lines.clone())) as _);
    archive::import(&copy, None, false, &mut source).unwrap();
    let found = copy.list_sessions(&ListSessions::default()).unwrap();
    assert_eq!(found.sessions[0].id, session.id);
    assert_eq!(
        copy.context(agent.id).unwrap().get_messages().unwrap(),
        store.context(agent.id).unwrap().get_messages().unwrap()
    );
    copy.close().unwrap();
}

#[test]
fn a_call_that_the_backend_lacks_is_refused_by_its_name() {
    let store = plain();
    let plain = store.backend().maintenance();
    let folder = tempfile::tempdir().unwrap();
    let batch = Batch::new(vec![Op::Append {
        stream: StreamId(store.backend().new_id()),
        expected: Expected::Any,
        records: vec![NewRecord::data(b"1")],
    }]);
    let refused = |call: &str, refused: Result<(), Error>| {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{call}: {error}");
        assert!(error.to_string().contains(&format!("`{call}`")), "{error}");
    };
    refused("last_position", block_on(plain.last_position()).map(drop));
    refused("record", block_on(plain.record(Position::FIRST)).map(drop));
    refused("streams", block_on(plain.streams()).map(drop));
    refused("stage", plain.stage(&batch).map(drop));
    refused("flush", block_on(plain.flush()));
    refused("recovery", plain.recovery().map(drop));
    refused("stat", block_on(plain.stat()).map(drop));
    refused("verify", block_on(plain.verify()).map(drop));
    refused("backup", store.backup(folder.path()).map(drop));
    assert_eq!(if_supported(block_on(plain.last_position())).unwrap(), None);
}

#[test]
fn the_embedded_engine_has_all_of_it() {
    let store = Store::in_memory();
    let embedded: &dyn Maintenance = store.backend().maintenance();
    let stream = StreamId(store.backend().new_id());
    let batch = Batch::new(vec![Op::Append {
        stream,
        expected: Expected::Absent,
        records: vec![NewRecord::data(b"1")],
    }]);
    let staged = embedded.stage(&batch).unwrap();
    block_on(embedded.flush()).unwrap();
    let position = block_on(staged).unwrap().last_position;
    assert_eq!(block_on(embedded.last_position()).unwrap(), position);
    let record = block_on(embedded.record(position)).unwrap().unwrap();
    assert_eq!((record.stream, &record.payload[..]), (stream, &b"1"[..]));
    let streams = block_on(embedded.streams()).unwrap();
    assert!(streams.iter().any(|info| info.id == stream));
    assert!(embedded.recovery().unwrap().clean);
    let stat = block_on(embedded.stat()).unwrap();
    assert_eq!(stat.last_position, position);
    let found = block_on(embedded.verify()).unwrap();
    assert!(found.is_sound() && found.records == position.0, "{found:?}");
    let folder = tempfile::tempdir().unwrap();
    let done = store.backup(folder.path().join("backup")).unwrap();
    assert_eq!(done.last_position, position);
}
