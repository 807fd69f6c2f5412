//! `runlog chat`: one chat: its fields and messages, deleting and restoring it.

use runlog::chats::{
    ChatMessage, ChatRole, ListMessages, ListRequests, RequestStatus, UnfinishedRequest,
};

use super::chats::named;
use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    filters::Page,
    find,
    output::Out,
    store, table, text, view,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Sub,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Show the fields of a chat
    Show(OneArgs),
    /// List the messages of a chat, from either end
    Messages(MessagesArgs),
    /// List the requests that aren't over, in every chat: running, interrupted, failed, never answered
    Requests(RequestsArgs),
    /// Delete a chat, softly: it is no longer found, listed or written to
    Delete(OneArgs),
    /// Make a chat that was deleted be there again
    Restore(OneArgs),
}

#[derive(clap::Args)]
#[command(after_help = "With --json one document: the chat with its fields.")]
struct OneArgs {
    /// The chat
    #[arg(value_name = "CHAT")]
    chat: String,
}

#[derive(clap::Args)]
#[command(
    after_help = "With --json one document: {\"items\": [the messages, with their fields], \"next\": the cursor of the next page or null}."
)]
struct MessagesArgs {
    /// The chat
    #[arg(value_name = "CHAT")]
    chat: String,
    /// From the last message back to the first
    #[arg(long)]
    newest_first: bool,
    /// Only messages that come after this one in the list
    #[arg(long, value_name = "ID")]
    start_after: Option<String>,
    /// Only messages of this request
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only messages from this side: user, assistant
    #[arg(long, value_name = "ROLE", value_parser = named::<ChatRole, _>(["user", "assistant"]))]
    role: Option<ChatRole>,
    /// Only messages of this type
    #[arg(long = "type", value_name = "TYPE")]
    message_type: Option<String>,
    /// Only messages of this block
    #[arg(long, value_name = "ID")]
    block: Option<String>,
    /// Only messages of this thread
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    #[command(flatten)]
    page: Page,
}

#[derive(clap::Args)]
#[command(
    after_help = "One that is `running` while no process writes the store was never answered: its process died. With --json \
    one document: {\"items\": [the requests, with their fields], \"next\": the cursor of the next page or null}."
)]
struct RequestsArgs {
    /// Only requests of this chat
    #[arg(value_name = "CHAT")]
    chat: Option<String>,
    /// Only requests for this assistant
    #[arg(long, value_name = "NAME")]
    assistant: Option<String>,
    /// Only requests of this status: running, interrupted, failed
    #[arg(long, value_name = "STATUS")]
    status: Option<RequestStatus>,
    #[command(flatten)]
    page: Page,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    match &args.command {
        Sub::Show(args) => show(global, args, out),
        Sub::Messages(args) => messages(global, args, out),
        Sub::Requests(args) => requests(global, args, out),
        Sub::Delete(args) => delete(global, args, out),
        Sub::Restore(args) => restore(global, args, out),
    }
}

fn show(global: &Global, args: &OneArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let chats = store.chats();
    let id = find::chat(&store, &args.chat)?;
    let chat = chats.get_chat(&id)?;
    let chat = chat.ok_or_else(|| Failure::not_found(format!("no chat {:?}", args.chat)))?;
    let count = chats.count_messages(&id, &Default::default())?;
    let utc = |ms| format!("{} UTC", text::time(ms));
    let named =
        |name: &str, value: &Option<String>| value.as_ref().map(|it| format!("{name} {it}"));
    let owners = [
        named("user", &chat.created_by),
        named("team", &chat.team_id),
        named("tenant", &chat.tenant_id),
    ];
    let owners: Vec<String> = owners.into_iter().flatten().collect();
    let fields = [
        ("chat", Some(chat.chat_id.clone())),
        ("title", chat.title.clone()),
        ("assistant", Some(chat.assistant_id.clone())),
        (
            "of",
            Some(owners.join(", ")).filter(|owners| !owners.is_empty()),
        ),
        ("public", chat.public.then(|| "yes".to_owned())),
        ("messages", Some(text::thousands(count as u64))),
        ("last message", chat.last_message_at_ms.map(utc)),
        ("made", Some(utc(chat.created_at_ms))),
    ];
    table::one(&chat, &fields, out)
}

fn messages(global: &Global, args: &MessagesArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let chat = find::chat(&store, &args.chat)?;
    let options = ListMessages {
        request_id: args.request.clone(),
        role: args.role,
        block_id: args.block.clone(),
        thread_id: args.thread.clone(),
        message_type: args.message_type.clone(),
        newest_first: args.newest_first,
        start_after: args.start_after.clone(),
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let page = store.chats().list_messages(&chat, &options);
    let page = page.map_err(Failure::of_argument)?;
    let columns: [table::Cells<'_, ChatMessage>; 5] = [
        (table::right("number"), &|message| {
            message.sequence.to_string()
        }),
        (table::left("message", 36), &|message| {
            message.message_id.clone()
        }),
        (table::left("from", 9), &|message| {
            view::chat_role(message).to_owned()
        }),
        (table::left("type", 10), &|message| {
            message.message_type.clone()
        }),
        (table::left("what it shows", 120), &|message| {
            view::chat_content(message)
        }),
    ];
    table::page(&page, "no messages", &columns, out)
}

fn requests(global: &Global, args: &RequestsArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let chat = args.chat.as_ref().map(|chat| find::chat(&store, chat));
    let options = ListRequests {
        status: args.status,
        chat_id: chat.transpose()?,
        assistant_id: args.assistant.clone(),
        unattended: false,
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let page = store.chats().list_requests(&options);
    let page = page.map_err(Failure::of_argument)?;
    let columns: [table::Cells<'_, UnfinishedRequest>; 4] = [
        (table::left("request", 36), &|request| {
            request.request_id.clone()
        }),
        (table::left("status", 11), &|request| {
            request.status.to_string()
        }),
        (table::left("assistant", 14), &|request| {
            request.assistant_id.clone()
        }),
        (table::left("chat", 64), &|request| request.chat_id.clone()),
    ];
    table::page(&page, "no unfinished requests", &columns, out)
}

fn delete(global: &Global, args: &OneArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open(global)?;
    let id = find::chat(&store, &args.chat)?;
    let chat = store.chats().get_chat(&id)?;
    store.chats().delete_chat(&id)?;
    let restored = format!("deleted; `runlog chat restore {id}` has it back");
    table::one(&chat, &[("chat", Some(id)), ("is", Some(restored))], out)
}

fn restore(global: &Global, args: &OneArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open(global)?;
    let chat = store.chats().restore_chat(&args.chat)?;
    let id = Some(chat.chat_id.clone());
    table::one(
        &chat,
        &[("chat", id), ("is", Some("there again".to_owned()))],
        out,
    )
}
