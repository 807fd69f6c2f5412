//! Chats: the messages and steps of a session, the space they share, and the fold of their events.
//!
//! A chat is a [`Session`](crate::Session), and [`Chat`](crate::Chat) is the view of it with every field of a chat. Its messages
//! and steps are [`ChatEvent`]s in the session's own stream, folded by [`ChatFold`].

mod copied;
mod event;
mod filter;
mod fold;
mod labels;
mod message;
mod request;
mod space;
mod step;
mod step_diff;
mod step_diffs;

pub use copied::{id_in_copy, is_in_copy};
pub use event::ChatEvent;
pub use filter::MessageFilter;
pub use fold::{ChatFold, FoldedStep, KeptMessage, MessagePlace};
pub use labels::{
    ChatIdOf, MessageField, assistant_steps_label, changed_messages_label, chat_labels,
    request_messages_label, status_steps_label, type_steps_label,
};
pub use message::{ChatMessage, ChatRole, ContentEnd};
pub use request::{ChatRequest, OpenRequest, RequestDetails, RequestStatus};
pub use space::Space;
pub use step::{Step, StepStatus, StepType};
pub use step_diff::StepDiff;
pub use step_diffs::{StepDiffs, StepTexts};
