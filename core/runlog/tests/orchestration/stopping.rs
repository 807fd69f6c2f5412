//! The scenarios of resuming, through `spawn_agents`.
