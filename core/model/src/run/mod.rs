//! Runs: one stretch of an agent's work each, and the catalog that lists them.

mod catalog;
mod event;
mod fold;
mod history;
mod listed;
mod view;

pub use catalog::{ListRuns, PlacedRun, RunCatalog, RunsPage};
pub use event::{RunEvent, StatusChange};
pub use fold::RunFold;
pub use history::{RunMessage, ToolCall, ToolCallFold, tool_calls};
pub use listed::RunCatalogEvent;
pub use view::{Run, RunStatus, RunSummary, ToolCallStatus, pause_reason};
