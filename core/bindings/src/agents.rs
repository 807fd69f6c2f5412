//! The definitions of agents.

use std::rc::Rc;

use runlog::{
    AgentDefinition,
    agents::{AgentSummary, ListAgents},
    pages::Page,
};

use crate::{
    answers::change,
    calls::calls,
    changes::Key,
    given::{Given, GivenUpdates},
    store::StoreObject,
};

/// What all definitions are changed by: they are few, and one may be changed by several calls.
const AGENTS: &str = "agents";

calls! {
    (of: &Rc<StoreObject>, _scope, input) { let agents = of.store()?.agents(); }

    defineAgent(definition: Given<AgentDefinition>) -> AgentDefinition =>
        change(Key::of(AGENTS), async move { agents.define(definition.0).await });
    putAgent(definition: Given<AgentDefinition>) -> AgentDefinition =>
        change(Key::of(AGENTS), async move { agents.put(definition.0).await });
    updateAgent {
        project: Option<String>,
        name: String,
        updates: GivenUpdates<AgentDefinition>,
    } -> AgentDefinition =>
        change(Key::of(AGENTS), async move { agents.update(project.as_deref(), &name, &updates.updates).await });
    deleteAgent { project: Option<String>, name: String } -> () =>
        change(Key::of(AGENTS), async move { agents.delete(project.as_deref(), &name).await });
    getAgent { project: Option<String>, name: String } -> Option<AgentDefinition> =>
        of.read(async move { agents.get(project.as_deref(), &name).await });
    listAgents(options: ListAgents) -> Page<AgentDefinition> =>
        of.read(async move { agents.list(&options).await });
    listAvailableAgents { project: Option<String> } -> Vec<AgentSummary> =>
        of.read(async move { agents.list_available_agents(project.as_deref()).await });
}
