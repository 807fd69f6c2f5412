//! [`Spawner`]: spawns agents on a program's request, while recording of the program continues.

use runlog::{
    ErrorKind, Orchestrator, Run, RunId,
    agents::{AgentSummary, RunContext, SpawnResult},
};
use tokio::{runtime::Handle, task::JoinHandle};

use super::{
    ask::{Ask, Asked},
    child::LineSender,
    protocol::{Refusal, ToAgent},
};

/// The parent of spawned agents.
#[derive(Clone)]
enum Parent {
    /// A run of the orchestrator.
    Inside(RunContext),
    /// A run that is recorded outside of it.
    Outside(Orchestrator, RunId, Option<String>),
}

/// Spawns agents for one run. Dropping it cancels the agents that are still running.
pub(crate) struct Spawner {
    tokio: Handle,
    parent: Parent,
    asked: Vec<JoinHandle<()>>,
}

impl Spawner {
    /// For a run of the orchestrator.
    pub(crate) fn inside(tokio: Handle, run: RunContext) -> Self {
        Self {
            tokio,
            parent: Parent::Inside(run),
            asked: Vec::new(),
        }
    }

    /// For a run that is recorded outside of the orchestrator.
    pub(crate) fn outside(tokio: Handle, orchestrator: Orchestrator, run: &Run) -> Self {
        Self {
            tokio,
            parent: Parent::Outside(orchestrator, run.id, run.project.clone()),
            asked: Vec::new(),
        }
    }

    /// Forwards commands sent to the run to its program from now on. A run recorded outside of the orchestrator gets
    /// none, because it can't be addressed.
    pub(crate) fn deliver(&mut self, sender: LineSender) {
        let Parent::Inside(run) = self.parent.clone() else {
            return;
        };
        self.asked.push(self.tokio.spawn(async move {
            loop {
                let command = run.next_command().await;
                sender.send(ToAgent::Command { command: &command }.line());
            }
        }));
    }

    /// Executes an agent's request concurrently with its further lines, and writes the result to it.
    pub(crate) fn ask(&mut self, ask: Ask, sender: LineSender) {
        let parent = self.parent.clone();
        self.asked.retain(|asked| !asked.is_finished());
        self.asked.push(self.tokio.spawn(async move {
            let Ask { id, line, what } = ask;
            let answer = match parent.answer(what).await {
                Ok(Answer::Agents(agents)) => ToAgent::Agents {
                    id: id.as_ref(),
                    agents: &agents,
                }
                .line(),
                Ok(Answer::Spawned(results)) => ToAgent::Spawned {
                    id: id.as_ref(),
                    results: &results,
                }
                .line(),
                Err(error) => {
                    let code = if error.kind() == ErrorKind::WrongStatus {
                        "run_over"
                    } else {
                        "spawn_refused"
                    };
                    ToAgent::Error(&Refusal::new(id, line, code, error.to_string())).line()
                }
            };
            sender.send(answer);
        }));
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.asked.iter().for_each(JoinHandle::abort);
    }
}

enum Answer {
    Agents(Vec<AgentSummary>),
    Spawned(Vec<SpawnResult>),
}

impl Parent {
    async fn answer(&self, asked: Asked) -> runlog::Result<Answer> {
        Ok(match (self, asked) {
            (Self::Inside(run), Asked::List) => Answer::Agents(run.list_available_agents().await?),
            (Self::Outside(orchestrator, _, project), Asked::List) => {
                let mut agents = orchestrator
                    .list_available_agents(project.as_deref())
                    .await?;
                // The store may have definitions of agents that the file doesn't name any more, for which there is no
                // executor.
                agents.retain(|agent| orchestrator.has_executor(&agent.name));
                Answer::Agents(agents)
            }
            (
                Self::Inside(run),
                Asked::Spawn {
                    tool_call_id: Some(call),
                    requests,
                },
            ) => Answer::Spawned(run.spawn_agents_for(call, requests).await?),
            (
                Self::Inside(run),
                Asked::Spawn {
                    tool_call_id: None,
                    requests,
                },
            ) => Answer::Spawned(run.spawn_agents(requests).await?),
            (
                Self::Outside(orchestrator, run, _),
                Asked::Spawn {
                    tool_call_id: Some(call),
                    requests,
                },
            ) => Answer::Spawned(orchestrator.spawn_agents_for(*run, call, requests).await?),
            (
                Self::Outside(orchestrator, run, _),
                Asked::Spawn {
                    tool_call_id: None,
                    requests,
                },
            ) => Answer::Spawned(orchestrator.spawn_agents(*run, requests).await?),
        })
    }
}

/// The answer to a request for agents if none can be spawned.
pub(crate) fn none(ask: &Ask) -> Vec<u8> {
    let message = "there are no agents to spawn; start runlog with --agents FILE".to_owned();
    let refusal = Refusal::new(ask.id.clone(), ask.line, "no_agents", message);
    ToAgent::Error(&refusal).line()
}
