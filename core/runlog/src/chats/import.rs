//! Importing the old tables `agent_chat` and `agent_history`, as JSON lines.

use std::collections::{HashMap, HashSet};

use runlog_model::{
    CatalogEvent, Chat, ChatEvent, ChatMessage, ChatRole, RawJson, Session, SessionDeleted,
    SessionId, Timestamp,
};
use serde_json::{Map, Value};

use super::Chats;
use crate::{
    Error, ErrorKind, Result,
    kernel::{
        catalog::{Change, Guard},
        lookup::check_free,
    },
};
use serde::Serialize;

/// How many chats, or messages of a chat, are written in one batch.
pub(super) const BATCH_RECORDS: usize = 1_000;

/// What an import did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportReport {
    /// How many chats or messages were imported.
    pub imported: usize,
    /// How many chats were made for the messages or steps.
    pub chats: usize,
    /// How many were there already, and left as they are.
    pub skipped: usize,
    /// The lines that were left out.
    pub issues: Vec<ImportIssue>,
}

/// How to import.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImportOptions {
    /// Take nothing of the first line that is left out, nor of those after it.
    pub stop_at_issue: bool,
}

/// A line that was left out of an import, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportIssue {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

type Row = Map<String, Value>;

impl Chats {
    /// Imports the old table `agent_chat`, one JSON object a line. A chat that is there already is left as it is, so
    /// that an import can be repeated; a line that can't be read is reported, and the others go on. Columns that
    /// a chat doesn't have are kept with it.
    ///
    /// # Errors
    /// Those of the storage; what was imported so far stays.
    pub async fn import_agent_chat(&self, lines: &str) -> Result<ImportReport> {
        self.import_agent_chat_with(lines, ImportOptions::default())
            .await
    }

    /// [`import_agent_chat`](Self::import_agent_chat) with options.
    ///
    /// # Errors
    /// As [`import_agent_chat`](Self::import_agent_chat).
    pub async fn import_agent_chat_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        let mut seen = HashSet::new();
        let mut sessions = Vec::new();
        for (line, row) in rows(lines) {
            if report.is_over(options) {
                break;
            }
            let session = row.and_then(chat_of).and_then(|(chat, deleted_at)| {
                let session = self.session_of(chat)?;
                Ok(Session {
                    deleted_at_ms: deleted_at.map(|at| at.0),
                    ..session
                })
            });
            match session {
                Ok(session)
                    if seen.insert((
                        session.name.clone(),
                        session.name.is_none().then_some(session.id),
                    )) =>
                {
                    sessions.push(session);
                }
                Ok(_) => report.skipped += 1,
                Err(error) => report.leave_out(line, &error),
            }
        }
        for sessions in sessions.chunks(BATCH_RECORDS) {
            let imported =
                self.store.shared.catalog.change(|catalog| {
                    // A chat that was deleted since an earlier import stays so.
                    let deleted = catalog.deleted_names();
                    let is_new = |session: &&Session| {
                        check_free(catalog, session).is_ok()
                            && !session
                                .name
                                .as_deref()
                                .is_some_and(|name| deleted.contains(name))
                    };
                    let (mut events, mut imported) = (Vec::new(), 0);
                    for session in sessions.iter().filter(is_new) {
                        imported += 1;
                        let (id, at_ms) = (session.id, session.deleted_at_ms);
                        events.push(CatalogEvent::SessionCreated(Session {
                            deleted_at_ms: None,
                            ..session.clone()
                        }));
                        events.extend(at_ms.map(|at_ms| {
                            CatalogEvent::SessionDeleted(SessionDeleted { id, at_ms })
                        }));
                    }
                    Ok((
                        Change {
                            events,
                            guard: Guard::Unchanged,
                            ..Change::default()
                        },
                        imported,
                    ))
                });
            let imported = imported.await?;
            report.imported += imported;
            report.skipped += sessions.len() - imported;
        }
        Ok(report)
    }

    /// Imports the old table `agent_history`, one JSON object a line: `role` stays, `content` becomes the props of a
    /// text message, `id` its id, and columns that a message doesn't have are kept with it. The chats have to be
    /// there. A message that is there already is left as it is; a line that can't be read is reported, and the
    /// others go on.
    ///
    /// # Errors
    /// Those of the storage; what was imported so far stays.
    pub async fn import_agent_history(&self, lines: &str) -> Result<ImportReport> {
        self.import_agent_history_with(lines, ImportOptions::default())
            .await
    }

    /// [`import_agent_history`](Self::import_agent_history) with options.
    ///
    /// # Errors
    /// As [`import_agent_history`](Self::import_agent_history).
    pub async fn import_agent_history_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        let mut order: Vec<SessionId> = Vec::new();
        let mut messages: HashMap<SessionId, Vec<ChatMessage>> = HashMap::new();
        let mut chats: HashMap<String, SessionId> = HashMap::new();
        for (line, row) in rows(lines) {
            if report.is_over(options) {
                break;
            }
            // It was deleted before: nobody is to see it.
            if row
                .as_ref()
                .is_ok_and(|row| row.get("deleted_at").is_some_and(|at| !is_nothing(at)))
            {
                report.skipped += 1;
                continue;
            }
            let message = match row.and_then(message_of) {
                Ok(message) => message,
                Err(error) => {
                    report.leave_out(line, &error);
                    continue;
                }
            };
            let session =
                match chats.get(&message.chat_id) {
                    Some(session) => Ok(*session),
                    None => self.session_id(&message.chat_id).await.map_err(|error| {
                        match error.kind() {
                            ErrorKind::NotFound => Error::not_found(format!(
                                "no chat {:?}, or it was deleted; import agent_chat first",
                                message.chat_id
                            )),
                            _ => error,
                        }
                    }),
                };
            let completed = session.and_then(|session| {
                chats.insert(message.chat_id.clone(), session);
                let chat = message.chat_id.clone();
                Ok((session, self.complete_message(message, &chat)?))
            });
            match completed {
                Ok((session, message)) => {
                    messages.entry(session).or_insert_with(|| {
                        order.push(session);
                        Vec::new()
                    });
                    messages.entry(session).or_default().push(message);
                }
                Err(error) => report.leave_out(line, &error),
            }
        }
        for session in order {
            for messages in messages
                .remove(&session)
                .unwrap_or_default()
                .chunks(BATCH_RECORDS)
            {
                let imported = self.import_messages(session, messages).await?;
                report.imported += imported;
                report.skipped += messages.len() - imported;
            }
        }
        Ok(report)
    }

    async fn import_messages(&self, session: SessionId, messages: &[ChatMessage]) -> Result<usize> {
        let imported = std::sync::atomic::AtomicUsize::new(0);
        self.write(session, |fold| {
            let mut taken = HashSet::new();
            let new = messages.iter().filter(|message| {
                !fold.had_message(&message.message_id) && taken.insert(&message.message_id)
            });
            let events: Vec<_> = new
                .map(|message| ChatEvent::MessageSaved(Box::new(message.clone())))
                .collect();
            imported.store(events.len(), std::sync::atomic::Ordering::Relaxed);
            Ok(events)
        })
        .await?;
        Ok(imported.into_inner())
    }
}

impl ImportReport {
    pub(super) fn is_over(&self, options: ImportOptions) -> bool {
        options.stop_at_issue && !self.issues.is_empty()
    }

    pub(super) fn leave_out(&mut self, line: usize, error: &Error) {
        self.issues.push(ImportIssue {
            line,
            what: error.to_string(),
        });
    }
}

/// The lines that aren't empty, with their numbers.
pub(super) fn object_lines(lines: &str) -> impl Iterator<Item = (usize, &str)> {
    // Some tools write a byte order mark before UTF-8.
    let lines = lines.strip_prefix('\u{feff}').unwrap_or(lines);
    (1..)
        .zip(lines.lines())
        .filter(|(_, text)| !text.trim().is_empty())
}

/// The objects of JSON lines, with their line numbers.
fn rows(lines: &str) -> impl Iterator<Item = (usize, Result<Row>)> {
    object_lines(lines).map(|(line, text)| {
        let row = serde_json::from_str(text);
        (
            line,
            row.map_err(|source| Error::invalid(format!("the line is no JSON object: {source}"))),
        )
    })
}

/// The chat of a row, and when it was deleted.
fn chat_of(mut row: Row) -> Result<(Chat, Option<Timestamp>)> {
    numbers_to_ids(&mut row, &["chat_id", "assistant_id"]);
    row.retain(|name, value| !(is_nothing(value) && (value.is_null() || name.ends_with("_at"))));
    let old_id = row.remove("id");
    for flag in ["preset", "public"] {
        // Databases keep booleans as numbers, and some exports write those as text.
        let number = |value: &Value| match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_f64(),
        };
        if let Some(value) = row.get_mut(flag)
            && let Some(number) = number(value)
        {
            *value = Value::Bool(number != 0.0);
        }
    }
    let deleted_at = row
        .remove("deleted_at")
        .map(serde_json::from_value::<Timestamp>)
        .transpose();
    let deleted_at =
        deleted_at.map_err(|source| Error::invalid(format!("the deleted_at: {source}")))?;
    let mut chat: Chat = read(row, "chat")?;
    if chat.chat_id.is_empty() {
        return Err(Error::invalid("the chat_id is empty"));
    }
    chat.extra
        .extend(old_id.map(|id| ("old_id".to_owned(), id)));
    Ok((chat, deleted_at))
}

/// What databases write for no time: `null`, an empty text, and MySQL's zero date.
fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value
            .as_str()
            .is_some_and(|text| text.is_empty() || text.starts_with("0000-00-00"))
}

/// The same, as it is written.
pub(super) fn is_no_time(value: &RawJson) -> bool {
    value
        .to_value::<Value>()
        .is_ok_and(|value| is_nothing(&value))
}

fn message_of(mut row: Row) -> Result<ChatMessage> {
    row.retain(|name, value| !(is_nothing(value) && (value.is_null() || name.ends_with("_at"))));
    numbers_to_ids(
        &mut row,
        &["id", "message_id", "chat_id", "assistant_id", "request_id"],
    );
    let text = |row: &mut Row, name: &str| match row.remove(name) {
        Some(Value::String(text)) => Ok(Some(text)),
        None => Ok(None),
        Some(other) => Err(Error::invalid(format!(
            "the {name} should be text, but is {other}"
        ))),
    };
    let id = text(&mut row, "message_id")?.or(text(&mut row, "id")?);
    let id = id.ok_or_else(|| Error::invalid("the message has no id"))?;
    let chat_id =
        text(&mut row, "chat_id")?.ok_or_else(|| Error::invalid("the message has no chat_id"))?;
    let role = match text(&mut row, "role")?.as_deref() {
        Some("user") => ChatRole::User,
        Some("assistant") => ChatRole::Assistant,
        other => {
            let role = other.unwrap_or("nothing");
            return Err(Error::invalid(format!(
                "the role should be user or assistant, but is {role:?}"
            )));
        }
    };
    let content = row
        .remove("content")
        .ok_or_else(|| Error::invalid("the message has no content"))?;
    let time = |row: &mut Row, name: &str| match row.remove(name) {
        None => Ok(Timestamp::UNSET),
        Some(value) => serde_json::from_value(value)
            .map_err(|source| Error::invalid(format!("the {name}: {source}"))),
    };
    let (created_at, updated_at) = (time(&mut row, "created_at")?, time(&mut row, "updated_at")?);
    let props = RawJson::from_value(&Map::from_iter([("content".to_owned(), content)]))?;
    Ok(ChatMessage {
        message_id: id,
        chat_id,
        request_id: text(&mut row, "request_id")?,
        assistant_id: text(&mut row, "assistant_id")?,
        created_at,
        updated_at,
        extra: without_known(row),
        ..ChatMessage::new(role, "text", props)
    })
}

/// Fields of a message that the old table hadn't would stand twice in the JSON.
fn without_known(row: Row) -> Row {
    let known = [
        "type",
        "props",
        "block_id",
        "thread_id",
        "sequence",
        "metadata",
    ];
    let rename = |(name, value): (String, Value)| {
        if known.contains(&name.as_str()) {
            (format!("old_{name}"), value)
        } else {
            (name, value)
        }
    };
    row.into_iter().map(rename).collect()
}

fn numbers_to_ids(row: &mut Row, names: &[&str]) {
    for name in names {
        if let Some(value) = row.get_mut(*name).filter(|value| value.is_number()) {
            *value = Value::String(value.to_string());
        }
    }
}

fn read(row: Row, what: &str) -> Result<Chat> {
    // By way of text, since JSON kept byte for byte can't be taken from a value.
    let text = RawJson::from_value(&row)?;
    runlog_model::read_json(text.as_str())
        .map_err(|told| Error::invalid(format!("the line doesn't make a {what}: {told}")))
}
