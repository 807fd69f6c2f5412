//! [`all_calls`]: the tables of every object, for code generation.

use crate::{
    agents, archives, chats, contexts, flows, open_store, orchestrator, recorder, requests, root,
    run_context, runs, schema::Calls, sessions, space, spawn, streams,
};

/// Adds the calls of one table.
type Table = fn(&mut Calls);

/// The tables of an open store.
const STORE: [Table; 10] = [
    open_store::schema,
    contexts::schema,
    streams::schema,
    sessions::schema,
    runs::schema,
    flows::schema,
    chats::schema,
    agents::schema,
    orchestrator::schema,
    archives::schema,
];

/// Every call that JavaScript can make.
pub fn all_calls() -> Calls {
    let mut calls = Calls::none();
    calls.object("RootCalls", &[root::schema]);
    calls.object("StoreCalls", &STORE);
    calls.object("RecorderCalls", &[recorder::schema]);
    calls.object("RunContextCalls", &[run_context::schema]);
    calls.object(
        "OrchestratorCalls",
        &[orchestrator::calls_of_orchestrator::schema],
    );
    calls.object("RunHandleCalls", &[orchestrator::calls_of_handle::schema]);
    calls.object("SpawnedCalls", &[spawn::schema]);
    calls.object("RequestCalls", &[requests::schema]);
    calls.object("SpaceCalls", &[space::schema]);
    calls.object("ResumptionCalls", &[chats::calls_of_resumption::schema]);
    calls.object("FlowCalls", &[flows::calls_of_flow::schema]);
    calls.object("PlaybackCalls", &[flows::calls_of_playback::schema]);
    calls.object("ExportCalls", &[archives::calls_of_export::schema]);
    calls.object("ImportCalls", &[archives::calls_of_import::schema]);
    calls
}
