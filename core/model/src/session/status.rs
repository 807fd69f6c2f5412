//! [`SessionStatus`]: whether a session is in use.

use serde::{Deserialize, Serialize};

/// Whether a session is in use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// In use.
    #[default]
    Active,
    /// Archived; still readable and writable.
    Archived,
}
