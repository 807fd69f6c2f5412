//! Sessions and their agent instances, as chats too, and the catalog that lists and finds them.

mod catalog;
mod chat;
mod event;
mod view;

pub use catalog::{
    Catalog, ChatFilter, ChatList, ChatOrder, ChatPlace, Deleted, ListSessions, SessionPage,
};
pub use chat::{Chat, ChatFields, ChatShare};
pub use event::{
    CatalogEvent, ChatTouched, ChatUpdated, SessionChanges, SessionDeleted, SessionUpdated,
};
pub use view::{AgentInstance, Session, SessionStatus};
