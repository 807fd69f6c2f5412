//! [`RunContextObject`]: the handle of the run that an agent's function executes.

use std::{cell::RefCell, rc::Rc};

use runlog::{
    RawJson, Run, RunId, Store,
    agents::{AgentEnd, AgentSummary, RunContext, StopReason, ToolReply},
    contexts::AppendOptions,
    flows::{RunSnapshot, RuntimeCommand, RuntimeEvent},
    runs::{Recorded, RunDetails, ToolOutcome},
};
use serde_json::Value;

use crate::{
    Failure, Result,
    answers::{Made, Packed, known, read, wait, write},
    arguments::Input,
    calls::calls,
    contexts::{MessageHead, message_array, pack_messages, replay},
    object::{Object, Scope},
    reads::Reads,
    recorder::{with_output, with_outputs},
    remote::Done,
    space,
    spawn::{SpawnedObject, spawn_requests},
    tasks::Answer,
};

/// The run that an agent's function executes.
pub(crate) struct RunContextObject {
    run: RunContext,
    /// The run's store; the run itself can't be sent to where reads run.
    store: Store,
    reads: Reads,
    done: RefCell<Option<Done>>,
}

impl RunContextObject {
    pub(crate) fn new(run: RunContext, (store, reads): (Store, Reads), done: Done) -> Self {
        Self {
            run,
            store,
            reads,
            done: RefCell::new(Some(done)),
        }
    }

    /// Ends the execution: with a summary, or paused, or failed.
    fn end(&self, summary: Option<String>, paused: Option<String>, error: Option<String>) {
        let end = match (error, paused) {
            (Some(error), _) => Err(error.into()),
            (None, Some(reason)) => Ok(AgentEnd::Paused(reason)),
            (None, None) => Ok(AgentEnd::Completed(summary)),
        };
        if let Some(done) = self.done.take() {
            // An error means that the run was stopped, and no longer waits.
            let _ = done.send(end);
        }
    }
}

impl Object for RunContextObject {
    fn name(&self) -> &'static str {
        "an agent's context"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        match call(&self, scope, input)? {
            Some(answer) => Ok(Some(answer)),
            None => space::call(&mut self.run.space(), scope, input),
        }
    }
}

calls! {
    (of: &Rc<RunContextObject>, scope, input) {
        let (run, scope) = (of.run.clone(), scope.clone());
    }

    end { summary: Option<String>, paused: Option<String>, error: Option<String> } -> () =>
        {
            of.end(summary, paused, error);
            known(Ok::<_, Failure>(()))
        };
    run {} -> Run => known(Ok::<_, Failure>(run.run()));
    getMessages {} -> Packed<RawJson> =>
        {
            let (store, instance) = (of.store.clone(), run.run().instance_id);
            read(&of.reads, async move {
                Ok::<_, Failure>(message_array(&replay(store, instance, 0).await?))
            })
        };
    getRawMessages {} -> Packed<Vec<MessageHead>> =>
        {
            let (store, instance) = (of.store.clone(), run.run().instance_id);
            read(&of.reads, async move { pack_messages(&replay(store, instance, 0).await?) })
        };
    nextStep {} -> u32 => write(async move { run.next_step().await });
    describe(details: RunDetails) -> Run => write(async move { run.describe(details).await });
    recordMessage(options: AppendOptions) -> Recorded => {
        let message = input.json()?;
        write(async move { run.record_raw_message_with(message, &options).await })
    };
    recordMessages { lengths: Vec<usize>, #[serde(default)] options: AppendOptions } -> Recorded => {
        let messages = input.json_list(&lengths)?;
        write(async move { run.record_raw_messages(messages, &options).await })
    };
    checkToolCall { tool_call_id: String } -> usize =>
        wait(async move { run.check_tool_call(&tool_call_id).await });
    recordToolResult(outcome: ToolOutcome) -> Recorded => {
        let outcome = ToolOutcome { output: input.json()?, ..outcome };
        write(async move { run.record_tool_result(&outcome).await })
    };
    recordToolResults { outcomes: Vec<ToolOutcome>, lengths: Vec<usize> } -> Recorded => {
        let outcomes = with_output(outcomes, input.json_list(&lengths)?);
        write(async move { run.record_tool_results(&outcomes).await })
    };
    recordToolCall { outcomes: Vec<ToolOutcome>, lengths: Vec<usize> } -> Recorded => {
        let (message, outcomes) = with_outputs(input, &lengths, outcomes)?;
        write(async move { run.record_tool_call(message, &outcomes).await })
    };
    recordEvents { lengths: Vec<usize> } -> () => {
        let events = input.json_list(&lengths)?.into_iter().map(RuntimeEvent::of_json);
        let events = events.collect::<std::result::Result<Vec<_>, _>>()?;
        write(async move { run.record_events(&events).await.map(drop) })
    };
    saveSnapshot {} -> () => {
        let state: RunSnapshot = input.json()?.to_value()?;
        write(async move { run.save_snapshot(&state).await.map(drop) })
    };
    snapshot {} -> Option<RunSnapshot> => wait(async move { run.snapshot().await });
    nextCommand {} -> RuntimeCommand =>
        wait(async move { Ok::<_, Failure>(run.next_command().await) });
    takeCommand {} -> Option<RuntimeCommand> => known(Ok::<_, Failure>(run.take_command()));
    spawn {
            #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::spawn::GivenSpawn>"))]
            requests: Vec<Value>,
            tool_call_id: Option<String>,
        } -> Made<Vec<Option<RunId>>> => {
        let requests = spawn_requests(&requests);
        wait(async move {
            let spawned = match tool_call_id {
                Some(id) => run.spawn_for(id, requests).await,
                None => run.spawn(requests).await,
            };
            SpawnedObject::made(&scope, run.orchestrator(), spawned?)
        })
    };
    answerToolCall { tool_call_id: String, name: String } -> Option<ToolReply> => {
        let arguments = input.json()?;
        wait(async move { run.answer_tool_call(&tool_call_id, &name, &arguments).await })
    };
    listAvailableAgents {} -> Vec<AgentSummary> =>
        wait(async move { run.list_available_agents().await });
    cancelled {} -> Option<StopReason> => wait(async move {
        run.cancelled().await;
        Ok::<_, Failure>(run.stop_reason())
    });
}
