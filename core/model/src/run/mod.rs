//! Runs, each an uninterrupted period of an agent's work, and the catalog that lists them.

pub(crate) mod catalog;
mod details;
mod event;
mod fold;
mod history;
mod listed;
mod stop;
mod view;

pub use catalog::{ListRuns, PlacedRun, RunCatalog};
pub use details::RunDetails;
pub use event::{RunDescription, RunEvent, RunWords, StatusChange};
pub use fold::RunFold;
pub use history::{RunMessage, ToolCall, ToolCallFold, tool_calls};
pub use listed::RunCatalogEvent;
pub use stop::{Stop, StopKind, pause_reason};
pub use view::{Run, RunStatus, RunSummary, ToolCallStatus};
