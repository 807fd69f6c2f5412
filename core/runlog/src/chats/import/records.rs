//! Importing rows as messages and steps; missing chats are created.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use runlog_model::{
    CatalogEvent, Chat, ChatEvent, ChatFold, ChatMessage, Session, SessionId, Step, StepDiffs,
};

use super::super::write::Of;
use super::{
    BATCH_RECORDS, Chats, ImportOptions, ImportReport, Table,
    rows::{FromRow, object_lines, record_of},
};
use crate::{
    Error, ErrorKind, Result,
    kernel::{catalog::Change, lookup::check_free, shared_fold::SharedFold},
};

/// About how many bytes of rows are written in one batch.
const BATCH_BYTES: usize = 16 << 20;

/// The record that a row of a table is imported as.
pub(super) trait Record: Sync + FromRow + Clone {
    fn chat_id(&self) -> &str;
    fn assistant_id(&self) -> Option<&str>;
    fn created_at_ms(&self) -> u64;
    /// As it is saved in a chat.
    fn completed(self, chats: &Chats, chat_id: &str) -> Result<Self>;
    /// Its event; `None` if the chat has it, or had it.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if another record has its sequence.
    fn event<'r>(&'r self, chat: &mut Sequences<'r>) -> Result<Option<ChatEvent>>;
}

impl Record for ChatMessage {
    fn chat_id(&self) -> &str {
        &self.chat_id
    }

    fn assistant_id(&self) -> Option<&str> {
        self.assistant_id.as_deref()
    }

    fn created_at_ms(&self) -> u64 {
        self.created_at_ms
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
}

impl Record for Step {
    fn chat_id(&self) -> &str {
        &self.chat_id
    }

    fn assistant_id(&self) -> Option<&str> {
        Some(&self.assistant_id)
    }

    fn created_at_ms(&self) -> u64 {
        self.created_at_ms
    }

    fn completed(self, chats: &Chats, chat_id: &str) -> Result<Self> {
        chats.complete_step(self, chat_id)
    }

    fn event<'r>(&'r self, chat: &mut Sequences<'r>) -> Result<Option<ChatEvent>> {
        let is_new = chat.fold.step(&self.step_id).is_none();
        Ok(is_new.then(|| ChatEvent::StepSaved(Box::new(self.clone()))))
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
    /// Its place among the rows of its chat, of a table that has no sequences: its time, and its number.
    place: (u64, u64),
}

/// The place of a row of `agent_history` in its chat. Without a time it is that of the row before it.
fn in_history((at_ms, number): (u64, Option<u64>), before: Option<(u64, u64)>) -> (u64, u64) {
    let at_ms = match at_ms {
        0 => before.map_or(0, |(at_ms, _)| at_ms),
        at_ms => at_ms,
    };
    (at_ms, number.unwrap_or(0))
}

/// The sequences of a chat's messages, with those of the rows seen so far.
pub(super) struct Sequences<'r> {
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

    /// Assigns a message's sequence as the chat will: its own, or the next one if that is 0.
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

/// The events of some rows, and the lines that are left out.
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
        chosen.events = StepDiffs::between(chosen.events);
        chosen
    }
}

impl Chats {
    pub(super) async fn import_records<T: Record>(
        &self,
        table: Table,
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
            let read = match record_of::<T>(table, text) {
                Ok(Some(record)) => {
                    // As the row has it: what it lacks is filled in.
                    let given = (record.created_at_ms(), record.number());
                    let checked = self.checked(table, record).await;
                    checked.map(|record| Some((record, given)))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match read {
                Ok(None) => deleted.push(line),
                Ok(Some((record, given))) => {
                    let chat_id = record.chat_id().to_owned();
                    let place = *places.entry(chat_id.clone()).or_insert_with(|| {
                        chats.push(OfChat {
                            chat_id,
                            rows: Vec::new(),
                        });
                        chats.len() - 1
                    });
                    let rows = &mut chats[place].rows;
                    let place = match table {
                        Table::History => in_history(given, rows.last().map(|row| row.place)),
                        _ => (0, 0),
                    };
                    rows.push(ReadRow {
                        line,
                        record,
                        bytes: text.len(),
                        place,
                    });
                }
                Err(error) => report.leave_out(line, &error),
            }
        }
        for chat in &mut chats {
            // Those of one place stay in the order of their lines.
            runlog_log::order::sort_by_key(&mut chat.rows, |row| row.place);
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
        runlog_log::order::sort_by_key(&mut report.issues, |issue| issue.line);
        Ok(report)
    }

    /// The first line that can be parsed but not written, as the chats are now.
    async fn first_left_out<T: Record>(
        &self,
        chats: &[OfChat<T>],
    ) -> Result<Option<(usize, Error)>> {
        let mut first: Option<(usize, Error)> = None;
        for chat in chats {
            let fold = match self.session_id(&chat.chat_id).await {
                Ok(session) => self.store.chat_fold(session).await?,
                Err(error) if error.kind() == ErrorKind::NotFound => SharedFold::default(),
                Err(error) => return Err(error),
            };
            let issue = Chosen::of(&chat.rows, &fold.read())
                .issues
                .into_iter()
                .next();
            let is_first =
                |(line, _): &(usize, Error)| first.as_ref().is_none_or(|(first, _)| line < first);
            if let Some(issue) = issue.filter(is_first) {
                first = Some(issue);
            }
        }
        Ok(first)
    }

    /// The record, checked for its chat.
    async fn checked<T: Record>(&self, table: Table, record: T) -> Result<T> {
        let chat_id = record.chat_id().to_owned();
        if chat_id.is_empty() {
            return Err(Error::invalid(format!("the {} has no chat_id", T::NAME)));
        }
        let assistant_id = record
            .assistant_id()
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        // An error of creating the chat is reported for the line.
        self.session_of(Chat {
            chat_id: chat_id.clone(),
            ..Chat::new(assistant_id.as_deref().unwrap_or("unknown"))
        })?;
        if table == Table::History {
            let there = self.session_id(&chat_id).await;
            there.map_err(|error| match error.kind() {
                ErrorKind::NotFound => Error::not_found(format!(
                    "no chat {chat_id:?}, or it was deleted; import agent_chat first"
                )),
                _ => error,
            })?;
        }
        record.completed(self, &chat_id)
    }

    /// The sessions of chats, created if missing; `None` for a chat that was deleted.
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
            Ok((Change::of(events), (sessions, made)))
        });
        let (sessions, made) = change.await?;
        report.chats += made;
        Ok(sessions)
    }

    fn session_for<T: Record>(&self, chat: &OfChat<T>) -> Result<Session> {
        let rows = || chat.rows.iter().map(|row| &row.record);
        let assistant_id =
            rows().find_map(|record| record.assistant_id().filter(|id| !id.is_empty()));
        let created_at_ms = rows()
            .map(T::created_at_ms)
            .filter(|at_ms| *at_ms != 0)
            .min()
            .unwrap_or(0);
        let new = Chat {
            chat_id: chat.chat_id.clone(),
            created_at_ms,
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
            self.write(session, Of::Chat, &mut |fold| {
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
