//! Agents: [`AgentDefinition`], and [`AgentCatalog`], the fold that lists and finds them.

mod catalog;
mod definition;
mod event;
pub mod max_steps;
mod spawn;

pub use catalog::{AgentCatalog, ListAgents};
pub use definition::{AgentDefinition, AgentSummary, AgentVisibility};
pub use event::{AgentCatalogEvent, DeletedAgent};
pub use spawn::{SpaceRecord, SpawnRecord, SpawnedAgent, TakenRecord, run_labels, space_label};
