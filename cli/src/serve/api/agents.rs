//! The definitions of agents.

use runlog::{
    AgentDefinition, Store,
    agents::{AgentSummary, ListAgents},
    pages::Page,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::serve::{
    endpoint::{Endpoint, NoPath, get},
    problem::{Answer, Problem},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/v1/agents",
            "Lists the definitions of a project's agents by name, in pages; without a project, those of none.",
            list,
        )
        .example_query("limit=10"),
        get(
            "/v1/agents/{name}",
            "Gives the definition of an agent.",
            agent,
        ),
        get(
            "/v1/available-agents",
            "Lists the agents of a project as their models see them: by name, without their prompts, in pages.",
            available,
        )
        .example_query("limit=10"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct OfAgent {
    /// The agent's name.
    name: String,
}

/// Of which project.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InProject {
    /// The project; agents of none when left out.
    project: Option<String>,
}

async fn list(store: Store, _: NoPath, options: ListAgents) -> Answer<Page<AgentDefinition>> {
    Ok(store.agents().list(&options).await?)
}

async fn agent(store: Store, of: OfAgent, asked: InProject) -> Answer<AgentDefinition> {
    let agent = store
        .agents()
        .get(asked.project.as_deref(), &of.name)
        .await?;
    agent.ok_or_else(|| Problem::not_found(format!("no agent {:?} in this project", of.name)))
}

async fn available(store: Store, _: NoPath, options: ListAgents) -> Answer<Page<AgentSummary>> {
    let page = store.agents().list(&options).await?;
    Ok(Page {
        items: page.items.iter().map(AgentDefinition::to_summary).collect(),
        next: page.next,
    })
}
