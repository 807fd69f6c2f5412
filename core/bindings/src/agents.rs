//! The definitions of agents. Their JSON has the names of the model.

use std::rc::Rc;

use runlog::{
    AgentDefinition,
    agents::{AgentVisibility, ListAgents},
    chats::Updates,
};
use serde::{Deserialize, Serialize};

use crate::{Reply, Result, arguments::Input, object::Scope, store::StoreObject, tasks::Answer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    project: Option<String>,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    project: Option<String>,
    name: String,
    updates: Updates,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    project: Option<String>,
    visibility: Option<AgentVisibility>,
    limit: Option<usize>,
    after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfProject {
    project: Option<String>,
}

#[derive(Serialize)]
struct PageReply {
    agents: Vec<AgentDefinition>,
    next: Option<String>,
}

/// Answers a call about the definitions of agents.
pub(crate) fn call(of: &Rc<StoreObject>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
    let agents = of.store()?.agents();
    Ok(Some(match input.method {
        "defineAgent" => {
            let definition: AgentDefinition = input.read()?;
            Answer::write(async move { Reply::json(&agents.define(definition).await?) })
        }
        "putAgent" => {
            let definition: AgentDefinition = input.read()?;
            Answer::write(async move { Reply::json(&agents.put(definition).await?) })
        }
        "updateAgent" => {
            let Update {
                project,
                name,
                updates,
            } = input.read()?;
            Answer::write(async move {
                Reply::json(&agents.update(project.as_deref(), &name, &updates).await?)
            })
        }
        "deleteAgent" => {
            let Named { project, name } = input.read()?;
            Answer::write(
                async move { Reply::json(&agents.delete(project.as_deref(), &name).await?) },
            )
        }
        "getAgent" => {
            let Named { project, name } = input.read()?;
            of.offload(async move { Reply::json(&agents.get(project.as_deref(), &name).await?) })
        }
        "listAgents" => {
            let List {
                project,
                visibility,
                limit,
                after,
            } = input.read()?;
            let limit = limit.unwrap_or(ListAgents::of(None).limit);
            let options = ListAgents {
                project,
                visibility,
                limit,
                after,
            };
            of.offload(async move {
                let page = agents.list(&options).await?;
                Reply::json(&PageReply {
                    agents: page.agents,
                    next: page.next,
                })
            })
        }
        "listAvailableAgents" => {
            let OfProject { project } = input.read()?;
            of.offload(async move {
                Reply::json(&agents.list_available_agents(project.as_deref()).await?)
            })
        }
        _ => return Ok(None),
    }))
}
