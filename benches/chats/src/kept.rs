//! Chats as Runlog keeps them.

use std::{io, path::Path};

use runlog::{
    Durability, StoreOptions,
    blocking::{Chats as Kept, Store},
    chats::{
        Chat, ChatFilter, ChatMessage, ChatRole, ListMessages, ListSteps, MessageFilter, Step,
        StepStatus, StepType, Updates,
    },
};
use runlog_benches::request::in_two_writes;

use crate::{CHATS, Chats, LONG, MESSAGES, PAGE, Query, REQUEST, USERS, changed, message};

pub struct Ours(Kept);

pub fn open(path: &Path) -> io::Result<Ours> {
    let store = Store::open(path).map_err(io::Error::other)?;
    Ok(Ours(store.chats()))
}

fn named(id: String, user: usize) -> Chat {
    Chat {
        chat_id: id,
        created_by: Some(format!("user_{user}")),
        ..Chat::new("weather")
    }
}

pub fn fill(path: &Path) -> io::Result<()> {
    let options = StoreOptions {
        durability: Durability::Os,
        ..StoreOptions::default()
    };
    let store = Store::open_with(path, options).map_err(io::Error::other)?;
    let chats = store.chats();
    let filled = || {
        chats.create_chat(named(LONG.to_owned(), 0))?;
        for first in (0..MESSAGES).step_by(1000) {
            let messages = (first..first + 1000).map(|number| {
                let (request, message_type, text) = message(number);
                ChatMessage {
                    message_id: format!("m{number}"),
                    request_id: Some(request),
                    message_type: message_type.to_owned(),
                    ..ChatMessage::text(ChatRole::Assistant, &text)
                }
            });
            chats.save_messages(LONG, messages.collect())?;
            let steps = (first..first + 1000).step_by(REQUEST).map(|number| Step {
                chat_id: LONG.to_owned(),
                status: if number % 1000 == 0 {
                    StepStatus::Failed
                } else {
                    StepStatus::Completed
                },
                ..Step::new(
                    message(number).0,
                    "weather",
                    message(number).0,
                    StepType::Llm,
                )
            });
            chats.save_steps(steps.collect())?;
        }
        for number in 0..CHATS {
            let id = format!("chat_{number}");
            chats.create_chat(named(id.clone(), number % USERS))?;
            chats.save_messages(&id, vec![ChatMessage::text(ChatRole::User, "Oslo?")])?;
        }
        store.close()
    };
    filled().map_err(io::Error::other)
}

impl Chats for Ours {
    fn ask(&self, query: Query) -> io::Result<usize> {
        let Self(chats) = self;
        let listed = |options: &ListMessages| Ok(chats.list_messages(LONG, options)?.items.len());
        let page = ListMessages {
            limit: PAGE,
            ..ListMessages::default()
        };
        let rows = || match query {
            Query::First => listed(&page),
            Query::Last => listed(&ListMessages {
                newest_first: true,
                ..page
            }),
            Query::Request => listed(&ListMessages {
                request_id: Some("req_5000".into()),
                ..page
            }),
            Query::Type => listed(&ListMessages {
                message_type: Some("image".into()),
                ..page
            }),
            Query::Offset => {
                let filter = MessageFilter {
                    offset: MESSAGES / 2,
                    limit: PAGE,
                    ..MessageFilter::default()
                };
                Ok(chats.get_messages(LONG, &filter)?.len())
            }
            Query::Count => chats.count_messages(LONG, &MessageFilter::default()),
            Query::Chats => {
                let filter = ChatFilter {
                    user_id: Some("user_7".into()),
                    pagesize: 20,
                    ..ChatFilter::default()
                };
                Ok(chats.list_chats(&filter)?.items.len())
            }
            Query::Steps => {
                let failed = ListSteps {
                    status: Some(StepStatus::Failed),
                    limit: PAGE,
                    ..ListSteps::default()
                };
                Ok(chats.list_steps(&failed)?.items.len())
            }
            Query::Save => {
                let saved =
                    chats.save_messages(LONG, vec![ChatMessage::text(ChatRole::User, "Oslo?")]);
                Ok(saved?.len())
            }
            Query::Update => {
                let liked = Updates::parse(r#"{"metadata":{"liked":true}}"#)?;
                chats.update_message(&changed(), &liked).map(|_| 1)
            }
        };
        let rows: runlog::Result<usize> = rows();
        rows.map_err(io::Error::other)
    }

    fn record(&self, writer: usize) -> io::Result<()> {
        in_two_writes(&self.0, &format!("chat_{writer}")).map_err(io::Error::other)
    }

    fn save(&self, writer: usize) -> io::Result<()> {
        let message =
            ChatMessage::text(ChatRole::User, "What will the weather be in Oslo tomorrow?");
        let saved = self
            .0
            .save_messages(&format!("chat_{writer}"), vec![message]);
        saved.map(drop).map_err(io::Error::other)
    }
}
