//! [`CommandAgent`]: an agent that is a program that speaks the agent protocol.

use std::{
    ffi::OsString,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use tokio::runtime::{Handle, Runtime};

use runlog::{
    RawJson, Role, RunId,
    agents::{AgentEnd, AgentError, Execution, Executor, RunContext},
    blocking::Store,
};

use crate::{
    agent::{Child, Conclusion, Recorded, Recorder, Spawner, Stopper, opening, record, reply},
    failure::{Failure, Result},
};

/// The most bytes of an agent's last message that are used as its summary, if it gives none.
const SUMMARY_BYTES_MAX: usize = 64 << 10;

/// The most agents that are begun and not ended at one time. Each has a thread that waits for its program's output, also while
/// it waits for agents of its own: with fewer threads those could never begin.
pub(crate) const AGENTS_MAX: usize = 65_536;

/// A runtime with a thread for each of them, and a few for all else that blocks.
pub(crate) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .max_blocking_threads(AGENTS_MAX + 8)
        .build()
        .map_err(|error| Failure::io(&error, "can't start"))
}

/// Runs a program for each run of an agent.
pub(crate) struct CommandAgent {
    store: Store,
    command: Vec<OsString>,
}

impl CommandAgent {
    /// An agent that runs this program.
    pub(crate) fn new(store: Store, command: Vec<OsString>) -> Self {
        Self { store, command }
    }
}

impl Executor for CommandAgent {
    fn execute(&self, run: RunContext) -> Execution {
        let (store, command) = (self.store.clone(), self.command.clone());
        Box::pin(async move {
            let stop = Arc::new(Stop::default());
            // Dropped with this future after the grace period; the program is killed then.
            let _on_drop = StopOnDrop(Arc::clone(&stop));
            let (stopped, of) = (Arc::clone(&stop), (run.run_id(), run.task().to_owned()));
            let spawner = Spawner::inside(Handle::current(), run.clone());
            let mut played =
                tokio::task::spawn_blocking(move || play(&store, &command, &of, &stopped, spawner));
            let played = tokio::select! {
                played = &mut played => played,
                () = run.cancelled() => {
                    stop.stop();
                    played.await
                }
            };
            played?.map_err(|failure| AgentError::from(failure.message().to_owned()))
        })
    }
}

/// Stops a program that may not have started yet.
#[derive(Default)]
struct Stop {
    state: Mutex<StopState>,
}

#[derive(Default)]
struct StopState {
    stopper: Option<Stopper>,
    asked: u32,
}

impl Stop {
    /// Asks the program to end; kills it if it was asked before.
    fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked += 1;
        if let Some(stopper) = &state.stopper {
            stopper.stop();
        }
    }

    /// Registers the started program.
    fn begun(&self, stopper: Stopper) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (0..state.asked).for_each(|_| stopper.stop());
        state.stopper = Some(stopper);
    }
}

struct StopOnDrop(Arc<Stop>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
        self.0.stop();
    }
}

/// Runs the program to its end, on this thread.
fn play(
    store: &Store,
    command: &[OsString],
    (id, task): &(RunId, String),
    stop: &Stop,
    mut spawner: Spawner,
) -> Result<AgentEnd> {
    let missing = || Failure::other(format!("what run {id} stands on is not there"));
    let (program, arguments) = command.split_first().ok_or_else(missing)?;
    let recorder = store.runs().recorder(*id)?;
    let run = recorder.run();
    let instance = store.get_instance(run.instance_id)?.ok_or_else(missing)?;
    let last_sequence = store.context(instance.id)?.get_last_sequence()?;
    let mut child = Child::start_one_of_many(program, arguments)?;
    stop.begun(child.stopper());
    let how = if run.resumed_from.is_some() {
        "resumed"
    } else {
        "new"
    };
    child.open(opening(
        store,
        &instance,
        &run,
        (how, Some(task)),
        last_sequence,
    )?);
    let mut recorder = Recorder::new(recorder);
    let mut answer = |child: &mut Child, lines: Vec<Recorded>| {
        lines
            .iter()
            .try_for_each(|line| reply(child, line, Some(&mut spawner)))
    };
    let (ended, stopped_by) = record(child, &mut recorder, &mut answer)?;
    match Conclusion::of(&recorder, ended, stopped_by) {
        Conclusion::Completed(Some(summary)) => Ok(AgentEnd::completed(summary)),
        Conclusion::Completed(None) => Ok(AgentEnd::Completed(last_words(store, &recorder)?)),
        Conclusion::Paused(stop) => Ok(AgentEnd::paused(stop.reason)),
        Conclusion::Failed(why) => Err(Failure::other(why)),
    }
}

/// A message of the agent.
#[derive(Deserialize)]
struct Said {
    content: Option<RawJson>,
}

/// The text of the agent's last message, if it is text.
fn last_words(store: &Store, recorder: &Recorder) -> Result<Option<String>> {
    let messages = store
        .context(recorder.run().run().instance_id)?
        .get_messages()?;
    let Some(last) = messages
        .iter()
        .rfind(|message| message.role == Role::Assistant)
    else {
        return Ok(None);
    };
    // Its other fields may be such as no value can hold, like 1e400.
    let said: Option<Said> = last.json.to_value().ok();
    let text: Option<String> = said.and_then(|said| said.content?.to_value().ok());
    Ok(text.filter(|text| !text.is_empty() && text.len() <= SUMMARY_BYTES_MAX))
}
