//! [`RunContextObject`]: what an agent's function holds of the run that it works on.

use std::{cell::RefCell, rc::Rc};

use runlog::{
    RawJson,
    agents::{AgentEnd, RunContext},
    flows::{RunSnapshot, RuntimeEvent},
};
use serde::{Deserialize, Serialize};

use crate::{
    Reply, Result,
    arguments::Input,
    contexts::{AppendArgument, pack_messages},
    object::{Object, Scope},
    orchestrator::spawn_request,
    packed::Contents,
    recorder::{CallArgument, OutcomeArgument},
    remote::Done,
    space,
    tasks::Answer,
};

/// The run that an agent's function works on.
pub(crate) struct RunContextObject {
    run: RunContext,
    done: RefCell<Option<Done>>,
}

/// How the function ended: with a summary, or paused, or failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    summary: Option<String>,
    paused: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Events {
    lengths: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spawn {
    requests: Vec<serde_json::Value>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToolCallArgument {
    tool_call_id: String,
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolReplyOut {
    output: RawJson,
    is_error: bool,
}

impl RunContextObject {
    pub(crate) fn new(run: RunContext, done: Done) -> Self {
        Self {
            run,
            done: RefCell::new(Some(done)),
        }
    }

    fn end(&self, input: Input<'_>) -> Result<Reply> {
        let End {
            summary,
            paused,
            error,
        } = input.read()?;
        let end = match (error, paused) {
            (Some(error), _) => Err(error.into()),
            (None, Some(reason)) => Ok(AgentEnd::Paused(reason)),
            (None, None) => Ok(AgentEnd::Completed(summary)),
        };
        if let Some(done) = self.done.take() {
            // Whoever stopped the run doesn't wait for it any more.
            let _ = done.send(end);
        }
        Ok(Reply::DONE)
    }
}

impl Object for RunContextObject {
    fn name(&self) -> &'static str {
        "an agent's context"
    }

    fn call(self: Rc<Self>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        let run = self.run.clone();
        Ok(Some(match input.method {
            "end" => Answer::known(self.end(input)),
            "run" => Answer::known(Reply::json(&run.run())),
            "getMessages" => Answer::wait(async move {
                let mut contents = Contents::new();
                for message in run.messages().await? {
                    contents.add(message.json.as_bytes());
                }
                Ok(Reply::bytes(contents.into_array()))
            }),
            "getRawMessages" => {
                Answer::wait(
                    async move { Ok(Reply::bytes(pack_messages(&run.messages().await?)?)) },
                )
            }
            "nextStep" => Answer::write(async move { Reply::json(&run.next_step().await?) }),
            "recordMessage" => {
                let (json, options) = (input.json()?, input.read::<AppendArgument>()?.options());
                Answer::write(async move {
                    Reply::json(&run.record_raw_message_with(json, &options).await?)
                })
            }
            "recordToolResult" => {
                let outcome = input.read::<OutcomeArgument>()?.outcome(input.json()?);
                Answer::write(async move { Reply::json(&run.record_tool_result(&outcome).await?) })
            }
            "recordToolCall" => {
                let (message, outcomes) = CallArgument::read(input)?;
                Answer::write(async move {
                    Reply::json(&run.record_tool_call(message, &outcomes).await?)
                })
            }
            "recordEvents" => {
                let Events { lengths } = input.read()?;
                let events = input
                    .json_list(&lengths)?
                    .into_iter()
                    .map(RuntimeEvent::of_json);
                let events = events.collect::<std::result::Result<Vec<_>, _>>()?;
                Answer::write(async move {
                    run.record_events(&events).await?;
                    Ok(Reply::DONE)
                })
            }
            "saveSnapshot" => {
                let state: RunSnapshot = input.json()?.to_value()?;
                Answer::write(async move {
                    run.save_snapshot(&state).await?;
                    Ok(Reply::DONE)
                })
            }
            "snapshot" => Answer::wait(async move { Reply::json(&run.snapshot().await?) }),
            "nextCommand" => Answer::wait(async move { Reply::json(&run.next_command().await) }),
            "takeCommand" => Answer::known(Reply::json(&run.take_command())),
            "spawnAgents" => {
                let Spawn {
                    requests,
                    tool_call_id,
                } = input.read()?;
                let requests = requests.iter().map(spawn_request).collect();
                Answer::wait(async move {
                    Reply::json(&match tool_call_id {
                        Some(id) => run.spawn_agents_for(id, requests).await?,
                        None => run.spawn_agents(requests).await?,
                    })
                })
            }
            "answerToolCall" => {
                let ToolCallArgument { tool_call_id, name } = input.read()?;
                let arguments = input.json()?;
                Answer::wait(async move {
                    let reply = run
                        .answer_tool_call(&tool_call_id, &name, &arguments)
                        .await?;
                    Reply::json(&reply.map(|reply| ToolReplyOut {
                        output: reply.output,
                        is_error: reply.is_error,
                    }))
                })
            }
            "listAvailableAgents" => {
                Answer::wait(async move { Reply::json(&run.list_available_agents().await?) })
            }
            "cancelled" => Answer::wait(async move {
                run.cancelled().await;
                Ok(Reply::DONE)
            }),
            _ => match space::call(&mut run.space(), input)? {
                Some(reply) => Answer::known(Ok(reply)),
                None => return Ok(None),
            },
        }))
    }
}
