//! Runs that another process works on: it is asked to stop them, or to give them a command.

use std::{future::Future, time::Duration};

use runlog::{
    ErrorKind, Orchestrator, RawJson, Result as RunlogResult, RunId,
    agents::{OrchestratorOptions, TokioRuntime},
    blocking::Store,
};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    store,
};

/// How long another process is waited for before it is looked whether it still writes the store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is asked.
const ATTEMPTS: u32 = 3;

/// Does something with a run of a store that is open for writing, or that another process writes. A process that writes
/// when the store is opened may have closed it before it takes a request: then it is done here.
pub(crate) fn by_who_writes<T>(
    global: &Global,
    find: impl Fn(&Store) -> Result<RunId>,
    work: impl Fn(&Store, RunId) -> Result<T>,
) -> Result<T> {
    let mut global = global.clone();
    let mut attempt = 1;
    let mut found = None;
    loop {
        let store = store::open_or_ask(&global)?;
        // Found once: a name such as `@last` may be that of another run later.
        let id = match found {
            Some(id) => id,
            None => *found.insert(find(&store)?),
        };
        match work(&store, id) {
            Err(failure) if store.is_read_only() && failure.kind() == ErrorKind::Locked.name() => {
                if attempt == ATTEMPTS {
                    return Err(Failure::new(
                        Exit::Conflict,
                        ErrorKind::Locked.name(),
                        format!("another process has the store open for writing: {failure}"),
                    ));
                }
                attempt += 1;
                // It was waited for as long as asked already.
                global.lock_timeout = 0;
            }
            done => {
                let done = done?;
                store.close()?;
                return Ok(done);
            }
        }
    }
}

/// Leaves a command for a run or flow, which the process that works on it gets at once.
pub(crate) fn send(store: &Store, run: RunId, command: &RawJson) -> Result<()> {
    if !store.is_read_only() {
        let left = store.flows().command(run, command);
        return left.map(drop).map_err(Failure::of_argument);
    }
    orchestrate(store, |orchestrator| async move {
        orchestrator.send(run, command).await
    })
}

/// Executes a call of an orchestrator: here, or in the process that writes, where the store is open for reading.
pub(crate) fn orchestrate<T, F: Future<Output = RunlogResult<T>>>(
    store: &Store,
    call: impl FnOnce(Orchestrator) -> F,
) -> Result<T> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io(&error, "can't start"))?;
    tokio.block_on(async {
        let runtime = TokioRuntime::current()
            .ok_or_else(|| Failure::other("there is no runtime for orchestration"))?;
        let options = OrchestratorOptions {
            answer_timeout: ANSWER_TIMEOUT,
            ..OrchestratorOptions::default()
        };
        let orchestrator = Orchestrator::new(store.to_async(), runtime, options);
        call(orchestrator).await.map_err(Failure::of_argument)
    })
}
