//! Chats: what a session is to its users. Messages, steps, the space they share, and the fold of their events.
//!
//! A chat is a [`Session`](crate::Session); [`Chat`] is the view of it with every field of a chat. Its messages
//! and steps are [`ChatEvent`]s in the session's own stream, folded by [`ChatFold`].

mod check;
mod copied;
mod event;
mod fold;
mod message;
mod space;
mod step;
mod updates;
mod view;

pub use copied::id_in_copy;
pub use event::{ChatEvent, EncodedChatEvent};
pub use fold::{ChatFold, KeptMessage, MessageFilter, Touched};
pub use message::{ChatMessage, ChatRole};
pub use space::Space;
pub use step::{Step, StepStatus, StepType};
pub use updates::Updates;
pub use view::{Chat, ChatFields, ChatShare};

pub(crate) use updates::overlay;
