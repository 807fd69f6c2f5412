//! Kind bytes: the kind of a model's record, in the one byte that the log stores beside it.
//!
//! All are below 128, so that their stream's sequences count them. The meaning of a byte never changes; 0 isn't used by
//! the model, and those not listed are free.

use std::ops::RangeInclusive;

/// Declares the kind bytes as constants, and `ALL`, the list of them.
macro_rules! kinds {
    ($($(#[$doc:meta])* $NAME:ident = $byte:literal,)*) => {
        $($(#[$doc])* pub const $NAME: u8 = $byte;)*
        const ALL: &[u8] = &[$($NAME),*];
    };
}

kinds! {
    // 1 to 15: a context, in the stream of its instance.
    /// The system prompt.
    SYSTEM_MESSAGE = 1,
    /// What the user or the task said.
    USER_MESSAGE = 2,
    /// What the model answered.
    ASSISTANT_MESSAGE = 3,
    /// A tool call, beside the message that asks for it.
    TOOL_CALL = 4,
    /// The results of tool calls.
    TOOL_RESULT = 5,

    // 16 to 23: the catalog of sessions and instances.
    /// A session was made.
    SESSION_CREATED = 16,
    /// A session was changed.
    SESSION_UPDATED = 17,
    /// A session was deleted.
    SESSION_DELETED = 18,
    /// An agent instance was made.
    INSTANCE_CREATED = 19,
    /// A deleted session was restored.
    SESSION_RESTORED = 20,
    /// What tells of a session's people and subject: its title, its metadata, who made and changed it.
    SESSION_DESCRIBED = 21,
    /// A part of the catalog's checkpoint.
    CATALOG_PART = 23,

    // 24 to 31: the catalog of agents.
    /// An agent was defined.
    AGENT_DEFINED = 24,
    /// The definition of an agent was changed.
    AGENT_UPDATED = 25,
    /// The definition of an agent was deleted.
    AGENT_DELETED = 26,

    // 32 to 39: a run, in its own stream.
    /// The run was made.
    RUN_CREATED = 32,
    /// A step of the run began.
    RUN_STEP_STARTED = 33,
    /// The run paused or ended.
    RUN_STATUS_CHANGED = 34,
    /// Another run resumes this one.
    RUN_RESUMED = 35,
    /// Details of the run were recorded.
    RUN_DESCRIBED = 36,
    /// How the run paused or ended, in words.
    RUN_EXPLAINED = 37,

    // 40 to 47: the catalog of runs.
    /// A run was made.
    LISTED_RUN_CREATED = 40,
    /// A run paused or ended.
    LISTED_RUN_STATUS_CHANGED = 41,
    /// A part of the checkpoint of the catalog of runs.
    RUN_CATALOG_PART = 42,
    /// Details of a run were recorded.
    LISTED_RUN_DESCRIBED = 43,

    // 48 to 63: further records in a run's stream.
    /// The run spawned sub-agents.
    SPAWNED = 48,
    /// The space that the run shares with its sub-agents.
    SPACE_SAVED = 49,
    /// The run took commands that were sent to it.
    COMMANDS_TAKEN = 50,

    // 64 to 79: a chat, in the stream of its session.
    /// A message was saved.
    MESSAGE_SAVED = 64,
    /// A message was changed.
    MESSAGE_UPDATED = 65,
    /// Messages were deleted.
    MESSAGES_DELETED = 66,
    /// A step was saved.
    STEP_SAVED = 67,
    /// A step was changed.
    STEP_UPDATED = 68,
    /// The chat is a copy: the events before this one are the original's.
    CHAT_COPIED = 69,
    /// A request was begun, or has ended.
    REQUEST_SAVED = 70,
    /// A step was saved, with its input or its space as the difference from an earlier step's.
    STEP_DIFF_SAVED = 71,

    // 80 to 95: chats, in the catalog of sessions.
    /// A session was changed as a chat.
    CHAT_UPDATED = 80,
    /// A message was saved in a chat.
    CHAT_TOUCHED = 81,
    /// A request of a chat was begun, or has ended.
    CHAT_REQUEST_CHANGED = 82,
    /// In a chat the messages are in another order than that in which they were saved.
    CHAT_REORDERED = 83,

    // 96 to 111: a flow, in the stream of its run.
    /// An event of an agent.
    FLOW_AGENT = 96,
    /// A piece of what an agent streams.
    FLOW_DELTA = 97,
    /// An event of the flow itself.
    FLOW = 98,
    /// An event of a node.
    FLOW_NODE = 99,
    /// An event of an edge.
    FLOW_EDGE = 100,
    /// A command was received.
    FLOW_COMMAND = 101,
    /// Not of a record, but the last byte of the metadata of a run snapshot that is saved as a difference.
    RUN_SNAPSHOT_DIFF = 110,
    /// Not of a record, but the last byte of the metadata of a run snapshot.
    RUN_SNAPSHOT = 111,

    // 112 to 119: the catalog of flows.
    /// A snapshot of a flow was saved.
    LISTED_FLOW = 112,
    /// A part of the checkpoint of the catalog of flows.
    FLOW_CATALOG_PART = 113,

    // 120 to 127: any of the catalogs.
    /// Stands for an event that is lost, in an import of a catalog that lost it: what doesn't follow without it is passed over.
    LISTED_EVENT_LOST = 120,
}

/// The kind bytes of a chat's events, those of later builds too: in a chat's stream, a fold skips any other.
pub const CHAT_EVENTS: RangeInclusive<u8> = 64..=95;

// Two kinds with one byte would be read as each other: none is twice, for each is larger than the one before.
const _: () = {
    let mut index = 1;
    while index < ALL.len() {
        assert!(ALL[index - 1] < ALL[index], "kind bytes should ascend");
        index += 1;
    }
    assert!(ALL[ALL.len() - 1] < 128, "kind bytes should be below 128");
};
