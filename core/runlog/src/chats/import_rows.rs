//! Importing the tables `agent_message` and `agent_step`, as JSON lines: rows with the columns of [`ChatMessage`] and
//! [`Step`], and chats made for them where there are none.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex},
};

use runlog_model::{
    CatalogEvent, Chat, ChatEvent, ChatFold, ChatMessage, RawJson, Session, SessionId, Step,
    Timestamp, read_json,
};
use serde::de::DeserializeOwned;

use super::{
    Chats, ImportOptions, ImportReport,
    import::{BATCH_RECORDS, is_no_time, object_lines},
};
use crate::{
    Error, ErrorKind, Result,
    kernel::{
        catalog::{Change, Guard},
        lookup::check_free,
    },
};

/// Rows of about so many bytes are written in one batch.
const BATCH_BYTES: usize = 16 << 20;

/// Columns that have ids, which some databases keep as numbers.
const IDS: [&str; 9] = [
    "message_id",
    "step_id",
    "chat_id",
    "request_id",
    "assistant_id",
    "block_id",
    "thread_id",
    "stack_id",
    "stack_parent_id",
];
/// Columns that have JSON, which some exports write as text.
const JSON: [&str; 5] = ["props", "metadata", "input", "output", "space_snapshot"];
/// Columns that have numbers, which some exports write as text.
const NUMBERS: [&str; 2] = ["sequence", "stack_depth"];

/// A row, with each value as it is written.
type Row = BTreeMap<String, RawJson>;

/// What a row of a table becomes.
trait Record: DeserializeOwned + Clone {
    /// The column with its id.
    const ID: &'static str;
    /// What it is, for messages.
    const NAME: &'static str;

    fn chat_id(&self) -> &str;
    fn assistant_id(&self) -> Option<&str>;
    fn created_at(&self) -> Timestamp;
    fn extra(&mut self) -> &mut serde_json::Map<String, serde_json::Value>;
    /// As it is saved in a chat.
    fn completed(self, chats: &Chats, chat_id: &str) -> Result<Self>;
    /// Its event; `None` where the chat has it, or had it.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) where another has its sequence.
    fn event<'r>(&'r self, chat: &mut Sequences<'r>) -> Result<Option<ChatEvent>>;
    fn id(&self) -> &str;
}

impl Record for ChatMessage {
    const ID: &'static str = "message_id";
    const NAME: &'static str = "message";

    fn chat_id(&self) -> &str {
        &self.chat_id
    }

    fn assistant_id(&self) -> Option<&str> {
        self.assistant_id.as_deref()
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn extra(&mut self) -> &mut serde_json::Map<String, serde_json::Value> {
        &mut self.extra
    }

    fn completed(self, chats: &Chats, chat_id: &str) -> Result<Self> {
        chats.complete_message(self, chat_id)
    }

    fn event<'r>(&'r self, chat: &mut Sequences<'r>) -> Result<Option<ChatEvent>> {
        if chat.fold.had_message(&self.message_id) {
            return Ok(None);
        }
        chat.take(&self.message_id, self.sequence)?;
        Ok(Some(ChatEvent::MessageSaved(Box::new(self.clone()))))
    }

    fn id(&self) -> &str {
        &self.message_id
    }
}

impl Record for Step {
    const ID: &'static str = "step_id";
    const NAME: &'static str = "step";

    fn chat_id(&self) -> &str {
        &self.chat_id
    }

    fn assistant_id(&self) -> Option<&str> {
        Some(&self.assistant_id)
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn extra(&mut self) -> &mut serde_json::Map<String, serde_json::Value> {
        &mut self.extra
    }

    fn completed(self, chats: &Chats, chat_id: &str) -> Result<Self> {
        chats.complete_step(self, chat_id)
    }

    fn event<'r>(&'r self, chat: &mut Sequences<'r>) -> Result<Option<ChatEvent>> {
        let is_new = chat.fold.step(&self.step_id).is_none();
        Ok(is_new.then(|| ChatEvent::StepSaved(Box::new(self.clone()))))
    }

    fn id(&self) -> &str {
        &self.step_id
    }
}

/// The rows of one chat.
struct OfChat<T> {
    chat_id: String,
    rows: Vec<ReadRow<T>>,
}

/// A row as it was read.
struct ReadRow<T> {
    line: usize,
    record: T,
    /// How long the line is.
    bytes: usize,
}

/// The sequences of a chat's messages, with those of the rows that were looked at.
struct Sequences<'r> {
    fold: &'r ChatFold,
    taken: HashMap<u64, &'r str>,
    last: u64,
}

impl<'r> Sequences<'r> {
    fn new(fold: &'r ChatFold) -> Self {
        Self {
            fold,
            taken: HashMap::new(),
            last: fold.last_message_sequence(),
        }
    }

    /// Gives a message its sequence as the chat will: the one that it has, or for 0 the next.
    fn take(&mut self, id: &'r str, sequence: u64) -> Result<()> {
        let sequence = if sequence == 0 {
            self.last + 1
        } else {
            sequence
        };
        let there = || {
            self.fold
                .message_with_sequence(sequence)
                .map(|message| message.message_id.as_str())
        };
        if let Some(other) = self.taken.get(&sequence).copied().or_else(there) {
            let what = format!(
                "message {id:?} has sequence {sequence}, which message {other:?} of the chat has already; give it another, or \
                 none to get the next"
            );
            return Err(Error::new(ErrorKind::AlreadyExists, what));
        }
        self.taken.insert(sequence, id);
        self.last = self.last.max(sequence);
        Ok(())
    }
}

/// What is to be written of some rows, and the lines that are left out.
#[derive(Default)]
struct Chosen {
    events: Vec<ChatEvent>,
    issues: Vec<(usize, Error)>,
}

impl Chosen {
    fn of<T: Record>(rows: &[ReadRow<T>], fold: &ChatFold) -> Self {
        let (mut chosen, mut ids, mut chat) =
            (Self::default(), HashSet::new(), Sequences::new(fold));
        for ReadRow { line, record, .. } in rows.iter().filter(|row| ids.insert(row.record.id())) {
            match record.event(&mut chat) {
                Ok(event) => chosen.events.extend(event),
                Err(error) => chosen.issues.push((*line, error)),
            }
        }
        chosen
    }
}

impl Chats {
    /// Imports the table `agent_message`, one JSON object a line with the columns of a [`ChatMessage`]: ids, sequences and
    /// times stay, the row's own `id` is kept as `old_id`, and columns that aren't known are kept. A chat that isn't there
    /// is made, with the assistant of its first row that has one, and its first time: import `agent_chat` first where
    /// there is one. A row that was deleted is passed over, a message that is there, or was deleted since, left as it is,
    /// and so is a chat that was deleted. A line that can't be read is reported, and the others go on; so is one whose sequence
    /// another message of the chat has, since which of them comes first isn't told by the table.
    /// [`save_messages`](Self::save_messages) takes such messages.
    ///
    /// # Errors
    /// Those of the storage; what was imported so far stays.
    pub async fn import_agent_message(&self, lines: &str) -> Result<ImportReport> {
        self.import_agent_message_with(lines, ImportOptions::default())
            .await
    }

    /// [`import_agent_message`](Self::import_agent_message) with options.
    ///
    /// # Errors
    /// As [`import_agent_message`](Self::import_agent_message).
    pub async fn import_agent_message_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        self.import_rows::<ChatMessage>(lines, options).await
    }

    /// Imports the table `agent_step`, one JSON object a line with the columns of a [`Step`]; else as
    /// [`import_agent_message`](Self::import_agent_message).
    ///
    /// # Errors
    /// As [`import_agent_message`](Self::import_agent_message).
    pub async fn import_agent_step(&self, lines: &str) -> Result<ImportReport> {
        self.import_agent_step_with(lines, ImportOptions::default())
            .await
    }

    /// [`import_agent_step`](Self::import_agent_step) with options.
    ///
    /// # Errors
    /// As [`import_agent_message`](Self::import_agent_message).
    pub async fn import_agent_step_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        self.import_rows::<Step>(lines, options).await
    }

    async fn import_rows<T: Record>(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        let mut chats: Vec<OfChat<T>> = Vec::new();
        let mut places = HashMap::new();
        let mut deleted = Vec::new();
        for (line, text) in object_lines(lines) {
            if report.is_over(options) {
                break;
            }
            let read = record_of::<T>(text)
                .and_then(|record| record.map(|record| self.checked(record)).transpose());
            match read {
                Ok(None) => deleted.push(line),
                Ok(Some(record)) => {
                    let chat_id = record.chat_id().to_owned();
                    let place = *places.entry(chat_id.clone()).or_insert_with(|| {
                        chats.push(OfChat {
                            chat_id,
                            rows: Vec::new(),
                        });
                        chats.len() - 1
                    });
                    chats[place].rows.push(ReadRow {
                        line,
                        record,
                        bytes: text.len(),
                    });
                }
                Err(error) => report.leave_out(line, &error),
            }
        }
        if options.stop_at_issue
            && let Some((line, error)) = self.first_left_out(&chats).await?
        {
            report.issues.clear();
            report.leave_out(line, &error);
            deleted.retain(|deleted| *deleted < line);
            chats
                .iter_mut()
                .for_each(|chat| chat.rows.retain(|row| row.line < line));
            chats.retain(|chat| !chat.rows.is_empty());
        }
        report.skipped += deleted.len();
        for part in chats.chunks(BATCH_RECORDS) {
            let sessions = self.sessions_for(part, &mut report).await?;
            for (chat, session) in part.iter().zip(sessions) {
                match session {
                    Some(session) => self.import_into(session, chat, &mut report).await?,
                    None => report.skipped += chat.rows.len(),
                }
            }
        }
        report.issues.sort_by_key(|issue| issue.line);
        Ok(report)
    }

    /// The first line that can be read and can't be written, as the chats are now.
    async fn first_left_out<T: Record>(
        &self,
        chats: &[OfChat<T>],
    ) -> Result<Option<(usize, Error)>> {
        let mut first: Option<(usize, Error)> = None;
        for chat in chats {
            let fold = match self.session_id(&chat.chat_id).await {
                Ok(session) => self.store.chat_fold(session).await?,
                Err(error) if error.kind() == ErrorKind::NotFound => Arc::default(),
                Err(error) => return Err(error),
            };
            let issue = Chosen::of(&chat.rows, &fold).issues.into_iter().next();
            let is_first =
                |(line, _): &(usize, Error)| first.as_ref().is_none_or(|(first, _)| line < first);
            if let Some(issue) = issue.filter(is_first) {
                first = Some(issue);
            }
        }
        Ok(first)
    }

    /// The record, in the chat that it says it is in.
    fn checked<T: Record>(&self, record: T) -> Result<T> {
        let chat_id = record.chat_id().to_owned();
        if chat_id.is_empty() {
            return Err(Error::invalid(format!("the {} has no chat_id", T::NAME)));
        }
        let assistant_id = record
            .assistant_id()
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        // What the chat would be refused for is told of the line.
        self.session_of(Chat {
            chat_id: chat_id.clone(),
            ..Chat::new(assistant_id.as_deref().unwrap_or("unknown"))
        })?;
        record.completed(self, &chat_id)
    }

    /// The sessions of chats, made where they aren't there; `None` for a chat that was deleted.
    async fn sessions_for<T: Record>(
        &self,
        chats: &[OfChat<T>],
        report: &mut ImportReport,
    ) -> Result<Vec<Option<SessionId>>> {
        let planned = chats
            .iter()
            .map(|chat| self.session_for(chat))
            .collect::<Result<Vec<Session>>>()?;
        let change = self.store.shared.catalog.change(|catalog| {
            let deleted = catalog.deleted_names();
            let (mut events, mut sessions) = (Vec::new(), Vec::with_capacity(chats.len()));
            for (chat, session) in chats.iter().zip(&planned) {
                if let Some(there) = catalog.chat_session(&chat.chat_id) {
                    sessions.push(Some(there.id));
                    continue;
                }
                let was_deleted = session
                    .name
                    .as_deref()
                    .is_some_and(|name| deleted.contains(name));
                let is_new = !was_deleted && check_free(catalog, session).is_ok();
                sessions.push(is_new.then_some(session.id));
                if is_new {
                    events.push(CatalogEvent::SessionCreated(session.clone()));
                }
            }
            let made = events.len();
            Ok((
                Change {
                    events,
                    guard: Guard::Unchanged,
                    ..Change::default()
                },
                (sessions, made),
            ))
        });
        let (sessions, made) = change.await?;
        report.chats += made;
        Ok(sessions)
    }

    fn session_for<T: Record>(&self, chat: &OfChat<T>) -> Result<Session> {
        let rows = || chat.rows.iter().map(|row| &row.record);
        let assistant_id =
            rows().find_map(|record| record.assistant_id().filter(|id| !id.is_empty()));
        let created_at = rows()
            .map(T::created_at)
            .filter(|at| !at.is_unset())
            .min()
            .unwrap_or(Timestamp::UNSET);
        let new = Chat {
            chat_id: chat.chat_id.clone(),
            created_at,
            ..Chat::new(assistant_id.unwrap_or("unknown"))
        };
        let mut session = self.session_of(new)?;
        if assistant_id.is_none()
            && let Some(fields) = &mut session.chat
        {
            fields.assistant_id.clear();
        }
        Ok(session)
    }

    async fn import_into<T: Record>(
        &self,
        session: SessionId,
        chat: &OfChat<T>,
        report: &mut ImportReport,
    ) -> Result<()> {
        let mut rest = chat.rows.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |row: &&ReadRow<T>| {
                bytes += row.bytes;
                bytes <= BATCH_BYTES
            };
            let count = rest
                .iter()
                .take(BATCH_RECORDS)
                .take_while(fits)
                .count()
                .max(1);
            let (batch, after) = rest.split_at(count);
            rest = after;
            let done = Mutex::new((0, Vec::new()));
            self.write(session, |fold| {
                let Chosen { events, issues } = Chosen::of(batch, fold);
                *done.lock().expect("nobody else has it") = (events.len(), issues);
                Ok(events)
            })
            .await?;
            let (imported, issues) = done.into_inner().expect("nobody else has it");
            report.imported += imported;
            report.skipped += count - imported - issues.len();
            issues
                .iter()
                .for_each(|(line, error)| report.leave_out(*line, error));
        }
        Ok(())
    }
}

/// What a line of a table is; `None` for a row that was deleted.
fn record_of<T: Record>(text: &str) -> Result<Option<T>> {
    let row = read_json::<Row>(text);
    let mut row =
        row.map_err(|told| Error::invalid(format!("the line is no JSON object: {told}")))?;
    row.retain(|name, value| {
        value.as_str() != "null" && !(name.ends_with("_at") && is_no_time(value))
    });
    if row.contains_key("deleted_at") {
        return Ok(None);
    }
    let old_id = row.remove("id");
    for (name, value) in &mut row {
        let text = || value.to_value::<String>().ok();
        if IDS.contains(&name.as_str())
            && value
                .as_str()
                .starts_with(|first: char| first.is_ascii_digit())
        {
            *value = RawJson::string(value.as_str());
        } else if JSON.contains(&name.as_str())
            && let Some(inner) = text().and_then(|text| RawJson::parse(text).ok())
        {
            *value = inner;
        } else if NUMBERS.contains(&name.as_str())
            && let Some(number) = text().and_then(|text| text.trim().parse::<u64>().ok())
        {
            *value = RawJson::from_value(&number)?;
        }
    }
    if !row.contains_key(T::ID) {
        return Err(Error::invalid(format!("the {} has no {}", T::NAME, T::ID)));
    }
    let record = read_json::<T>(RawJson::from_value(&row)?.as_str());
    let mut record = record
        .map_err(|told| Error::invalid(format!("the line doesn't make a {}: {told}", T::NAME)))?;
    if record.id().is_empty() {
        return Err(Error::invalid(format!(
            "the {} of the {} is empty",
            T::ID,
            T::NAME
        )));
    }
    if let Some(old_id) = old_id {
        record
            .extra()
            .insert("old_id".to_owned(), old_id.to_value()?);
    }
    Ok(Some(record))
}
