//! Sessions and their agent instances, as chats too, and the catalog that lists and finds them.

mod as_chat;
mod catalog;
mod chat;
mod chat_list;
mod description;
mod event;
mod records;
mod status;
mod view;

pub use catalog::{Catalog, Deleted, ListInstances, ListSessions};
pub use chat::{Chat, ChatFields, ChatShare};
pub use chat_list::{ChatFilter, ChatList, ChatOrder, ChatPlace};
pub use description::SessionDescription;
pub use event::{CatalogEvent, SessionChanges};
pub use status::SessionStatus;
pub use view::{AgentInstance, Session};
