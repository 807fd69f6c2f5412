//! `runlog chats`, `runlog steps`: sessions as their users see them, and what assistants did in them.

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use runlog::{
    chats::{Chat, ChatFilter, ChatOrder, ChatShare, ListSteps, Step, StepStatus, StepType},
    sessions::SessionStatus,
};
use serde::de::DeserializeOwned;

use crate::{
    args::{Global, at_least, from_to},
    failure::{Exit, Failure, Result},
    filters::Page,
    find,
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
With --json one document: {\"items\": [the chats, with their fields], \"page\", \"pagesize\", \"pagecount\", \"total\", \
\"next\": the cursor of the next page, not there on the last one}.";

const AFTER_HELP_STEPS: &str = "\
With --json one document: {\"items\": [the steps, with their fields], \"next\": the cursor of the next page or null}.";

/// The most chats that the store lists at a time.
const PAGE_MAX: u64 = 1_000;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only chats that this user made
    #[arg(long)]
    user: Option<String>,
    /// Only chats of this team
    #[arg(long)]
    team: Option<String>,
    /// Only chats of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only chats that this user may see: his own, those that one of his teams shares, and public ones
    #[arg(long, value_name = "USER")]
    visible_to: Option<String>,
    /// A team of the user of --visible-to; may be given several times
    #[arg(long, value_name = "TEAM", requires = "visible_to")]
    in_team: Vec<String>,
    /// Only chats that are shared so: private, team
    #[arg(long, value_name = "HOW", value_parser = named::<ChatShare, _>(["private", "team"]))]
    share: Option<ChatShare>,
    /// Only chats that are public (true), or that aren't (false)
    #[arg(long, value_name = "BOOL")]
    public: Option<bool>,
    /// Only chats with this assistant
    #[arg(long, value_name = "NAME")]
    assistant: Option<String>,
    /// Only chats of this status
    #[arg(long)]
    status: Option<Status>,
    /// Only chats whose title has all these words
    #[arg(long, value_name = "WORDS")]
    keywords: Option<String>,
    /// Chats that were deleted, instead of those that weren't
    #[arg(long)]
    deleted: bool,
    /// Sessions too that nothing was saved in as a chat
    #[arg(long)]
    sessions: bool,
    /// The order: last_message, created, sort
    #[arg(long, value_name = "ORDER", default_value = "last_message",
        value_parser = named::<ChatOrder, _>(["last_message", "created", "sort"]))]
    order: ChatOrder,
    /// The page, from 1
    #[arg(long, value_name = "N", conflicts_with = "cursor",
        value_parser = at_least::<usize>(1))]
    page: Option<usize>,
    /// How many chats a page has
    #[arg(short = 'n', long = "limit", visible_aliases = ["page-size", "pagesize"], default_value = "20", value_name = "N",
        value_parser = from_to::<usize>(1..=PAGE_MAX))]
    pagesize: usize,
    /// Go on where the page before ended, with the same filters
    #[arg(long, value_name = "C")]
    cursor: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Status {
    Active,
    Archived,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP_STEPS)]
pub(crate) struct StepsArgs {
    /// The chat; all chats if it is left out
    #[arg(value_name = "CHAT")]
    chat: Option<String>,
    /// Only steps of this assistant
    #[arg(long, value_name = "ID")]
    assistant: Option<String>,
    /// Only steps of this request
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only steps of this node of the call stack
    #[arg(long, value_name = "ID")]
    stack: Option<String>,
    /// Only steps of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = named::<StepType, _>(StepType::ALL.map(StepType::name)))]
    step_type: Option<StepType>,
    /// Only steps of this status
    #[arg(long, value_name = "STATUS", value_parser = named::<StepStatus, _>(StepStatus::ALL.map(StepStatus::name)))]
    status: Option<StepStatus>,
    #[command(flatten)]
    page: Page,
}

/// Parses one of these names as JSON has it.
pub(super) fn named<T, const COUNT: usize>(
    names: [&'static str; COUNT],
) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| serde_json::from_value::<T>(name.into()))
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let filter = ChatFilter {
        user_id: args.user.clone(),
        team_id: args.team.clone(),
        assistant_id: args.assistant.clone(),
        status: args.status.map(|status| match status {
            Status::Active => SessionStatus::Active,
            Status::Archived => SessionStatus::Archived,
        }),
        tenant_id: args.tenant.clone(),
        visible_to: args.visible_to.clone(),
        teams: args.in_team.clone(),
        share: args.share,
        public: args.public,
        keywords: args.keywords.clone(),
        deleted: args.deleted,
        sessions: args.sessions,
        order: args.order,
        page: args.page.unwrap_or_default(),
        pagesize: args.pagesize,
        cursor: args.cursor.clone(),
    };
    let list = store
        .chats()
        .list_chats(&filter)
        .map_err(Failure::of_argument)?;
    if out.is_json() {
        out.value(&list)?;
        return Ok(Exit::Ok);
    }
    let empty = match list.total {
        0 => "no chats",
        _ => "no chats on this page",
    };
    let columns: [table::Cells<'_, Chat>; 4] = [
        (table::left("chat", 36), &|chat| chat.chat_id.clone()),
        (table::left("assistant", 14), &|chat| {
            chat.assistant_id.clone()
        }),
        (table::left("created (UTC)", 24), &|chat| {
            text::time_of_year(chat.created_at_ms)
        }),
        (table::left("title", 80), &|chat| {
            let archived = match chat.status {
                SessionStatus::Archived => "[archived] ",
                SessionStatus::Active => "",
            };
            format!("{archived}{}", chat.title.as_deref().unwrap_or_default())
        }),
    ];
    table::items(&list.items, empty, &columns, out)?;
    table::next(list.next, out)?;
    Ok(Exit::Ok)
}

pub(crate) fn steps(global: &Global, args: &StepsArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let chat = args.chat.as_deref().map(|chat| find::chat(&store, chat));
    let chat = chat.transpose()?;
    let options = ListSteps {
        chat_id: chat.clone(),
        request_id: args.request.clone(),
        stack_id: args.stack.clone(),
        assistant_id: args.assistant.clone(),
        step_type: args.step_type,
        status: args.status,
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let page = store
        .chats()
        .list_steps(&options)
        .map_err(Failure::of_argument)?;
    if let (Some(request), true) = (&args.request, page.items.is_empty()) {
        let of_request = ListSteps {
            chat_id: chat.clone(),
            request_id: Some(request.clone()),
            limit: 1,
            ..ListSteps::default()
        };
        if store.chats().list_steps(&of_request)?.items.is_empty() {
            let message = match chat {
                Some(chat) => format!("the chat {chat:?} has no step of a request {request:?}"),
                None => format!("no chat has a step of a request {request:?}"),
            };
            return Err(Failure::not_found(message));
        }
    }
    let columns: [table::Cells<'_, Step>; 6] = [
        (table::right("step"), &|step| step.sequence.to_string()),
        (table::left("request", 14), &|step| step.request_id.clone()),
        (table::left("type", 11), &|step| {
            let name = serde_json::to_value(step.step_type).unwrap_or_default();
            name.as_str().unwrap_or_default().to_owned()
        }),
        (table::left("status", 11), &|step| step.status.to_string()),
        (table::left("assistant", 14), &|step| {
            "  ".repeat(step.stack_depth.min(8) as usize) + &step.assistant_id
        }),
        (
            table::left("error or input", 120),
            &|step| match (&step.error, &step.input) {
                (Some(error), _) => format!("error: {error}"),
                (None, Some(input)) => input.as_str().to_owned(),
                (None, None) => String::new(),
            },
        ),
    ];
    table::page(&page, "no steps", &columns, out)
}
