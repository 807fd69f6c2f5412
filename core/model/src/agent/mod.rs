//! Agents: [`AgentDefinition`], what an agent is, and [`AgentCatalog`], the fold that lists and finds them.

mod catalog;
mod definition;
pub mod max_steps;
mod spawn;

pub use catalog::{AgentCatalog, AgentCatalogEvent, DeletedAgent, ListAgents};
pub use definition::{AgentDefinition, AgentSummary, AgentVisibility};
pub use spawn::{SPACE_SAVED, SPAWNED, SpaceRecord, SpawnRecord, SpawnedAgent};
