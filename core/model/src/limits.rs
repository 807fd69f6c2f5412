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

/// The longest usage, and the longest metadata, of a run in bytes: 64 KiB.
pub const RUN_DETAIL_BYTES_MAX: usize = 64 << 10;

/// The longest usage, and the longest metadata, of a chat's request in bytes: 64 KiB.
pub const REQUEST_DETAIL_BYTES_MAX: usize = 64 << 10;

/// The most open requests of one chat that are listed: 256, the newest ones.
pub const OPEN_REQUESTS_MAX: usize = 256;
/// The most tool calls, or tool results, of one message: 1,024.
pub const MESSAGE_TOOLS_MAX: usize = 1 << 10;
/// The longest summary, error message or reason of a run: 1 MiB.
pub const RUN_TEXT_BYTES_MAX: usize = 1 << 20;
/// The longest id of a flow's node: 256 bytes.
pub const NODE_ID_BYTES_MAX: usize = 256;
/// The largest part of a catalog's checkpoint: 32 MiB. Most are about 1 MiB.
pub const PART_BYTES_MAX: usize = 32 << 20;
/// The longest id of a chat, message, request, block, thread, step or stack: 64 characters.
pub const CHAT_ID_CHARS_MAX: usize = 64;
/// The longest title of a chat: 500 characters.
pub const CHAT_TITLE_CHARS_MAX: usize = 500;
/// The longest assistant, user, team or tenant id of a chat: 200 characters.
pub const CHAT_OWNER_CHARS_MAX: usize = 200;
/// The longest mode of a chat, and the longest type of a message: 50 characters.
pub const CHAT_WORD_CHARS_MAX: usize = 50;
/// The largest JSON of one chat event, message or step: 16 MiB.
pub const CHAT_EVENT_BYTES_MAX: usize = 16 << 20;
/// The most chats of one page: 1,000.
pub const CHAT_PAGE_MAX: usize = 1_000;
/// The deepest call stack of a request: 1,024 assistants.
pub const STACK_DEPTH_MAX: usize = 1 << 10;
/// The deepest that JSON which is kept as a value is nested: 100 levels. JSON that is kept byte for byte may be nested
/// as deep as it likes.
pub const JSON_DEPTH_MAX: usize = 100;
/// The largest sequence that a message or a step has: 2⁵³ − 1, the largest integer that JavaScript counts.
pub const CHAT_SEQUENCE_MAX: u64 = (1 << 53) - 1;
/// The largest sequence that a caller gives a message or a step: 2⁵². Those that come after it have as much room again.
pub const CHAT_SEQUENCE_GIVEN_MAX: u64 = 1 << 52;
/// The largest JSON of one flow event or run snapshot: 16 MiB; that of a snapshot beside the commands in its inbox.
pub const FLOW_EVENT_BYTES_MAX: usize = 16 << 20;
/// The most JSON of the commands that wait in one inbox: 16 MiB.
pub const INBOX_BYTES_MAX: usize = 16 << 20;
/// The longest description of an agent: 64 KiB.
pub const AGENT_DESCRIPTION_BYTES_MAX: usize = 64 << 10;
/// The longest system prompt of an agent: 1 MiB.
pub const AGENT_PROMPT_BYTES_MAX: usize = 1 << 20;
/// The most tools of an agent: 1,024.
pub const AGENT_TOOLS_MAX: usize = 1 << 10;
/// The longest name of a tool: 256 bytes.
pub const TOOL_NAME_BYTES_MAX: usize = 256;
/// The longest flow type of an agent: 64 bytes.
pub const AGENT_FLOW_TYPE_BYTES_MAX: usize = 64;
/// The largest metadata of an agent: 1 MiB of JSON.
pub const AGENT_METADATA_BYTES_MAX: usize = 1 << 20;
