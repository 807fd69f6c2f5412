//! Every bound of the model, in one place. Checked when an event is made and when it is read back.

/// The largest metadata part of one event: 32 KiB, what the engine allows.
pub const META_BYTES_MAX: usize = 32 << 10;
/// The longest tool call id: 1 KiB.
pub const TOOL_CALL_ID_BYTES_MAX: usize = 1 << 10;
/// The longest agent name: 256 bytes.
pub const AGENT_NAME_BYTES_MAX: usize = 256;
/// The longest external name of a session: 512 bytes.
pub const SESSION_NAME_BYTES_MAX: usize = 512;
/// The longest title of a session: 4 KiB.
pub const TITLE_BYTES_MAX: usize = 4 << 10;
/// The longest project name: 256 bytes.
pub const PROJECT_BYTES_MAX: usize = 256;
/// The largest metadata of a session: 1 MiB of JSON.
pub const SESSION_METADATA_BYTES_MAX: usize = 1 << 20;
/// The most tool calls, or tool results, of one message: 1,024.
pub const MESSAGE_TOOLS_MAX: usize = 1 << 10;
/// The longest summary, error message or reason of a run: 1 MiB.
pub const RUN_TEXT_BYTES_MAX: usize = 1 << 20;
/// The longest id of a flow's node: 256 bytes.
pub const NODE_ID_BYTES_MAX: usize = 256;
/// The largest part of the runs catalog's checkpoint: 8 MiB.
pub const RUN_PART_BYTES_MAX: usize = 8 << 20;
