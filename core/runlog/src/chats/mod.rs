//! Chats over a backend: sessions as their users see them, the messages and steps in them, the buffer of a
//! request, and resuming one that was interrupted.
//!
//! A chat's messages and steps are events of its session's stream. Their fold is cached in memory, in bounded space. A
//! save is one batch; it also records the time of the chat's last message in the catalog.

mod begin;
mod beside;
mod buffered;
mod cache;
mod copy;
mod copy_end;
mod delegation;
mod draft;
mod dropped;
mod ending;
mod flush;
mod import;
mod lookup;
mod message_fold;
mod messages;
mod open_steps;
mod pages;
mod parts;
mod places;
mod redact;
mod request;
mod requests;
mod resume;
mod save;
mod save_among;
mod saved_reader;
mod search;
mod sizes;
mod stack;
mod steps;
mod steps_found;
mod store;
mod taken_ids;
mod versions;
mod write;

pub use begin::NewRequest;
pub(crate) use copy::CopiedChat;
pub(crate) use copy_end::{ChatEnd, Point};
pub use delegation::DelegateOptions;
pub use draft::RequestDraft;
pub use ending::RequestEnd;
pub use flush::RequestFlush;
pub use import::{ImportIssue, ImportOptions, ImportReport, Table};
pub use messages::ListMessages;
pub use request::RequestBuffer;
pub use requests::{ListRequests, UnfinishedRequest};
pub use resume::{ResumeAction, Resumption, StackLevel};
pub use runlog_model::{
    Chat, ChatFilter, ChatList, ChatMessage, ChatOrder, ChatRequest, ChatRole, ChatShare,
    MessageFilter, RequestDetails, RequestStatus, Space, Step, StepStatus, StepType, Updates,
};
pub use search::SearchMessages;
pub use steps_found::ListSteps;
pub use store::Chats;
pub(crate) use versions::Version;
