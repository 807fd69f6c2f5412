//! The definitions of agents.

use std::rc::Rc;

use runlog::{
    AgentDefinition, Page,
    agents::{AgentSummary, ListAgents},
};

use crate::{
    answers::write,
    calls::calls,
    given::{Given, GivenUpdates},
    store::StoreObject,
};

calls! {
    (of: &Rc<StoreObject>, _scope, input) { let agents = of.store()?.agents(); }

    defineAgent(definition: Given<AgentDefinition>) -> AgentDefinition =>
        write(async move { agents.define(definition.0).await });
    putAgent(definition: Given<AgentDefinition>) -> AgentDefinition =>
        write(async move { agents.put(definition.0).await });
    updateAgent {
        project: Option<String>,
        name: String,
        updates: GivenUpdates<AgentDefinition>,
    } -> AgentDefinition =>
        write(async move { agents.update(project.as_deref(), &name, &updates.updates).await });
    deleteAgent { project: Option<String>, name: String } -> () =>
        write(async move { agents.delete(project.as_deref(), &name).await });
    getAgent { project: Option<String>, name: String } -> Option<AgentDefinition> =>
        of.read(async move { agents.get(project.as_deref(), &name).await });
    listAgents(options: ListAgents) -> Page<AgentDefinition> =>
        of.read(async move { agents.list(&options).await });
    listAvailableAgents { project: Option<String> } -> Vec<AgentSummary> =>
        of.read(async move { agents.list_available_agents(project.as_deref()).await });
}
