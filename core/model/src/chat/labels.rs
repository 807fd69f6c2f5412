//! The labels of chat records: the ids in them, and the fields that lists over all chats are filtered by.

use runlog_log::Label;

use super::{ChatEvent, ChatMessage, Step, StepStatus, StepType};
use crate::{SessionId, Updates};

/// The kind of object that an id in a chat names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChatIdOf {
    /// A message.
    Message,
    /// A step.
    Step,
    /// A request.
    Request,
    /// A node of the call stack.
    Stack,
}

impl ChatIdOf {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Step => "step",
            Self::Request => "request",
            Self::Stack => "stack",
        }
    }

    /// The label of the records that an id is found by: those that save, change or delete a message or a step; those that
    /// tell of a request, its steps among them; those of the steps of a node.
    ///
    /// ```
    /// use runlog_model::ChatIdOf;
    /// assert_ne!(ChatIdOf::Message.label("a"), ChatIdOf::Step.label("a"));
    /// ```
    pub fn label(self, id: &str) -> Label {
        let name = match self {
            Self::Message => "chat_message",
            Self::Step => "chat_step",
            Self::Request => "chat_request",
            Self::Stack => "chat_stack",
        };
        Label::of(name, id)
    }
}

/// The label of the steps of an assistant, in all chats.
pub fn assistant_steps_label(assistant_id: &str) -> Label {
    Label::of("chat_step_assistant", assistant_id)
}

/// The label of the steps that have a status, or had it, in all chats.
pub fn status_steps_label(status: StepStatus) -> Label {
    Label::of("chat_step_status", status.name())
}

/// The label of the steps that are of a type, or were, in all chats.
pub fn type_steps_label(step_type: StepType) -> Label {
    Label::of("chat_step_type", step_type.name())
}

/// The label of the messages of a request that were saved with it, or moved to it.
pub fn request_messages_label(request_id: &str) -> Label {
    Label::of("chat_message_request", request_id)
}

/// A field that the messages of a chat are found by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageField {
    /// Their block.
    Block,
    /// Their thread.
    Thread,
    /// Their type.
    Type,
}

impl MessageField {
    /// All of them, with those first that fewer messages share.
    pub const ALL: [Self; 3] = [Self::Block, Self::Thread, Self::Type];

    /// The name of the field, as updates have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block_id",
            Self::Thread => "thread_id",
            Self::Type => "type",
        }
    }

    /// The label of the messages of a chat that were saved with a value of it. Those that were given it later have no label.
    pub fn label(self, chat: SessionId, value: &str) -> Label {
        let name = match self {
            Self::Block => "chat_message_block",
            Self::Thread => "chat_message_thread",
            Self::Type => "chat_message_type",
        };
        let mut of_chat = chat.0.as_bytes().to_vec();
        of_chat.extend_from_slice(value.as_bytes());
        Label::of(name, of_chat)
    }

    fn of(self, message: &ChatMessage) -> Option<&str> {
        match self {
            Self::Block => message.block_id.as_deref(),
            Self::Thread => message.thread_id.as_deref(),
            Self::Type => Some(&message.message_type),
        }
    }
}

/// The label of what changed or deleted messages of a chat.
pub fn changed_messages_label(chat: SessionId) -> Label {
    Label::of("chat_changed", chat.0.as_bytes())
}

impl ChatEvent {
    /// The labels of its record, in the stream of a chat.
    pub fn labels(&self, chat: SessionId) -> Vec<Label> {
        match self {
            Self::MessageSaved(message) => {
                let request = message.request_id.as_deref().map(request_messages_label);
                let fields = MessageField::ALL
                    .into_iter()
                    .filter_map(|field| Some(field.label(chat, field.of(message)?)));
                std::iter::once(ChatIdOf::Message.label(&message.message_id))
                    .chain(request)
                    .chain(fields)
                    .collect()
            }
            Self::MessageUpdated {
                message_id,
                updates,
                ..
            } => {
                let request = text(updates, "request_id");
                [
                    ChatIdOf::Message.label(message_id),
                    changed_messages_label(chat),
                ]
                .into_iter()
                .chain(request.as_deref().map(request_messages_label))
                .collect()
            }
            Self::MessagesDeleted { message_ids, .. } => {
                let ids = message_ids.iter().take(Self::DELETED_TOGETHER_MAX);
                std::iter::once(changed_messages_label(chat))
                    .chain(ids.map(|id| ChatIdOf::Message.label(id)))
                    .collect()
            }
            Self::StepSaved(step) => labels_of_step(step),
            Self::StepDiffSaved(diff) => labels_of_step(&diff.step),
            Self::StepUpdated {
                step_id, updates, ..
            } => labels_of_changed_step(step_id, updates),
            Self::RequestSaved(request) => vec![ChatIdOf::Request.label(&request.request_id)],
            Self::Copied { .. } => Vec::new(),
        }
    }

    /// The most messages that one event deletes: each is a label of its record.
    pub const DELETED_TOGETHER_MAX: usize = runlog_log::limits::LABELS_MAX - 1;

    /// Whether it concerns the object that an id names.
    pub fn is_of(&self, of: ChatIdOf, id: &str) -> bool {
        let updated = |updates: &Updates, field| text(updates, field).as_deref() == Some(id);
        if let Some(step) = self.saved_step() {
            return match of {
                ChatIdOf::Message => false,
                ChatIdOf::Step => step.step_id == id,
                ChatIdOf::Request => step.request_id == id,
                ChatIdOf::Stack => step.stack_id == id,
            };
        }
        match (of, self) {
            (ChatIdOf::Message, Self::MessageSaved(message)) => message.message_id == id,
            (ChatIdOf::Message, Self::MessageUpdated { message_id, .. }) => message_id == id,
            (ChatIdOf::Message, Self::MessagesDeleted { message_ids, .. }) => {
                message_ids.iter().any(|other| other == id)
            }
            (ChatIdOf::Step, Self::StepUpdated { step_id, .. }) => step_id == id,
            (ChatIdOf::Request, Self::RequestSaved(request)) => request.request_id == id,
            (ChatIdOf::Request, Self::StepUpdated { updates, .. }) => {
                updated(updates, "request_id")
            }
            (ChatIdOf::Stack, Self::StepUpdated { updates, .. }) => updated(updates, "stack_id"),
            _ => false,
        }
    }
}

/// The labels of a chat's record, for code that copies it from another store; empty if it isn't a chat's record.
pub fn chat_labels(chat: SessionId, kind: u8, meta: &[u8], payload: &[u8]) -> Vec<Label> {
    if !ChatEvent::KINDS.contains(&kind) {
        return Vec::new();
    }
    ChatEvent::decode(kind, meta, payload)
        .map(|event| event.labels(chat))
        .unwrap_or_default()
}

fn labels_of_step(step: &Step) -> Vec<Label> {
    vec![
        ChatIdOf::Step.label(&step.step_id),
        ChatIdOf::Request.label(&step.request_id),
        ChatIdOf::Stack.label(&step.stack_id),
        assistant_steps_label(&step.assistant_id),
        status_steps_label(step.status),
        type_steps_label(step.step_type),
    ]
}

fn labels_of_changed_step(step_id: &str, updates: &Updates) -> Vec<Label> {
    let changed = |field: &str, label: &dyn Fn(&str) -> Option<Label>| {
        text(updates, field).and_then(|value| label(&value))
    };
    std::iter::once(ChatIdOf::Step.label(step_id))
        .chain(changed("request_id", &|id| {
            Some(ChatIdOf::Request.label(id))
        }))
        .chain(changed("stack_id", &|id| Some(ChatIdOf::Stack.label(id))))
        .chain(changed("assistant_id", &|id| {
            Some(assistant_steps_label(id))
        }))
        .chain(changed("status", &|it| {
            let status = StepStatus::ALL
                .into_iter()
                .find(|status| status.name() == it);
            status.map(status_steps_label)
        }))
        .chain(changed("type", &|it| {
            let step_type = StepType::ALL.into_iter().find(|kind| kind.name() == it);
            step_type.map(type_steps_label)
        }))
        .collect()
}

/// The text that updates give a field.
fn text(updates: &Updates, field: &str) -> Option<String> {
    updates.get(field)?.to_value().ok()
}
