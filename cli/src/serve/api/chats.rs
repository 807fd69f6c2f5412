//! Chats: sessions as their users see them.

use runlog::{
    Store,
    chats::{
        Chat, ChatFilter, ChatList, ChatMessage, ChatRequest, ListMessages, ListRequests,
        ListSteps, SearchMessages, Step, UnfinishedRequest,
    },
    pages::Page,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::pages::bounded;
use crate::serve::{
    endpoint::{Endpoint, NoPath, NoQuery, get},
    problem::{Answer, Problem},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/chats", "Lists chats, in pages.", list).example_query("status=active&page_size=10"),
        get(
            "/v1/requests",
            "Lists the requests of chats that aren't over, in every chat, in pages: running, interrupted, failed, never answered.",
            requests,
        )
        .example_query("limit=10"),
        get("/v1/chats/{chat_id}", "Gives a chat.", chat),
        get(
            "/v1/chats/{chat_id}/messages",
            "Lists the messages of a chat, the oldest first unless `newest_first`, in pages.",
            messages,
        )
        .example_query("limit=10"),
        get(
            "/v1/chats/{chat_id}/steps",
            "Lists the steps of a chat in the order in which they were saved, in pages.",
            steps,
        )
        .said_by_path("chat_id")
        .example_query("limit=10"),
        get(
            "/v1/chats/{chat_id}/requests",
            "Lists the requests of a chat in the order in which they were begun, all at once: how each ended, and what it took.",
            requests_of_chat,
        ),
        get(
            "/v1/messages",
            "Searches the messages of chats, in pages: those of the chat that was made last first, and of each chat the newest first. \
             A page may have none, and yet a `next`.",
            search,
        )
        .example_query("text=oslo&limit=10"),
        get(
            "/v1/steps",
            "Lists the steps of all chats, such as those of a status or an assistant, in pages.",
            found_steps,
        )
        .example_query("status=failed&limit=10"),
    ]
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct OfChat {
    /// The chat.
    pub(super) chat_id: String,
}

async fn list(store: Store, _: NoPath, filter: ChatFilter) -> Answer<ChatList> {
    Ok(store.chats().list_chats(&filter).await?)
}

async fn requests(
    store: Store,
    _: NoPath,
    options: ListRequests,
) -> Answer<Page<UnfinishedRequest>> {
    Ok(store.chats().list_requests(&options).await?)
}

async fn search(store: Store, _: NoPath, search: SearchMessages) -> Answer<Page<ChatMessage>> {
    // It ends by itself after so many bytes that it looked at.
    Ok(store.chats().search_messages(&search).await?)
}

async fn requests_of_chat(store: Store, of: OfChat, _: NoQuery) -> Answer<Page<ChatRequest>> {
    let items = store.chats().get_requests(&of.chat_id).await?;
    Ok(Page { items, next: None })
}

async fn chat(store: Store, of: OfChat, _: NoQuery) -> Answer<Chat> {
    let chat = store.chats().get_chat(&of.chat_id).await?;
    chat.ok_or_else(|| Problem::not_found(format!("no chat {:?}", of.chat_id)))
}

async fn messages(store: Store, of: OfChat, options: ListMessages) -> Answer<Page<ChatMessage>> {
    let chats = store.chats();
    let list = async |options: ListMessages| chats.list_messages(&of.chat_id, &options).await;
    let bytes = |message: &ChatMessage| message.props.as_bytes().len();
    bounded(&options, list, bytes).await
}

async fn steps(store: Store, of: OfChat, options: ListSteps) -> Answer<Page<Step>> {
    if options.chat_id.is_some_and(|chat| chat != of.chat_id) {
        return Err(Problem::invalid(
            "`chat_id` is another one than that of the address; leave it out",
        ));
    }
    let chat_id = Some(of.chat_id);
    found_steps(store, NoPath {}, ListSteps { chat_id, ..options }).await
}

async fn found_steps(store: Store, _: NoPath, options: ListSteps) -> Answer<Page<Step>> {
    let chats = store.chats();
    let list = async |options: ListSteps| chats.list_steps(&options).await;
    // The large parts of a step are its input, its output and its space.
    let bytes = |step: &Step| {
        let parts = [&step.input, &step.output, &step.space_snapshot];
        let parts = parts.into_iter().flatten();
        parts.map(|part| part.as_bytes().len()).sum()
    };
    bounded(&options, list, bytes).await
}
