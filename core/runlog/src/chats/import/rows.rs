//! Converting rows of the tables to chats, messages and steps. Databases store ids and booleans as numbers; some
//! exports write JSON and numbers as text, and missing times as something else than `null`.

use std::collections::BTreeMap;

use runlog_model::{Chat, ChatMessage, RawJson, Step, json::slices::string, read_json, time};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::table::Table;
use crate::{Error, Result};

/// A row, with the JSON text of each value.
type Row = BTreeMap<String, RawJson>;

/// The columns of a table, by their form.
struct Columns {
    ids: &'static [&'static str],
    json: &'static [&'static str],
    numbers: &'static [&'static str],
    flags: &'static [&'static str],
}

const CHAT: Columns = Columns {
    ids: &["chat_id", "assistant_id"],
    json: &[],
    numbers: &["sort"],
    flags: &["preset", "public"],
};

const HISTORY: Columns = Columns {
    ids: &["id", "message_id", "chat_id", "assistant_id", "request_id"],
    json: &[],
    numbers: &[],
    flags: &[],
};

const MESSAGE_AND_STEP: Columns = Columns {
    ids: &[
        "message_id",
        "step_id",
        "chat_id",
        "request_id",
        "assistant_id",
        "block_id",
        "thread_id",
        "stack_id",
        "stack_parent_id",
    ],
    json: &["props", "metadata", "input", "output", "space_snapshot"],
    numbers: &["sequence", "stack_depth"],
    flags: &[],
};

/// Where a row's own id is kept, beside that of its record.
const OLD_ID: &str = "old_id";

/// The columns with times: text, or a number of seconds or milliseconds.
const TIMES: [&str; 4] = [
    "created_at",
    "updated_at",
    "last_message_at",
    "dismissed_at",
];

/// The columns of a chat's owner, with their fields.
const OWNERS: [(&str, &str); 4] = [
    ("__yao_created_by", "created_by"),
    ("__yao_updated_by", "updated_by"),
    ("__yao_team_id", "team_id"),
    ("__yao_tenant_id", "tenant_id"),
];

/// The fields of a message that the old table doesn't have: columns of these names are something else.
const NOT_IN_HISTORY: [&str; 6] = [
    "type",
    "props",
    "block_id",
    "thread_id",
    "sequence",
    "metadata",
];

/// A message or a step.
pub(super) trait FromRow: DeserializeOwned {
    /// The column with its id.
    const ID: &'static str;
    /// Its name in error messages.
    const NAME: &'static str;

    fn id(&self) -> &str;
    /// The row's own id, if that is a number: rows were made in their order.
    fn number(&self) -> Option<u64>;
    fn extra(&mut self) -> &mut Map<String, Value>;
}

/// The number of a row with an own id beside that of its record, or with no other.
fn number_of(extra: &Map<String, Value>, id: &str) -> Option<u64> {
    let own = extra.get(OLD_ID).and_then(Value::as_str).unwrap_or(id);
    own.parse().ok()
}

impl FromRow for ChatMessage {
    const ID: &'static str = "message_id";
    const NAME: &'static str = "message";

    fn id(&self) -> &str {
        &self.message_id
    }

    fn number(&self) -> Option<u64> {
        number_of(&self.extra, &self.message_id)
    }

    fn extra(&mut self) -> &mut Map<String, Value> {
        &mut self.extra
    }
}

impl FromRow for Step {
    const ID: &'static str = "step_id";
    const NAME: &'static str = "step";

    fn id(&self) -> &str {
        &self.step_id
    }

    fn number(&self) -> Option<u64> {
        number_of(&self.extra, &self.step_id)
    }

    fn extra(&mut self) -> &mut Map<String, Value> {
        &mut self.extra
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

/// The chat of a line, and when it was deleted.
pub(super) fn chat_of(text: &str) -> Result<(Chat, Option<u64>)> {
    let mut row = row_of(text, &CHAT)?;
    for (column, field) in OWNERS {
        rename(&mut row, column, field);
    }
    // Rows without an assistant are valid.
    row.entry("assistant_id".to_owned())
        .or_insert_with(|| RawJson::string(""));
    let old_id = row.remove("id");
    let deleted_at_ms = match row.remove("deleted_at") {
        None => None,
        Some(at) => Some(time::from_json(at.as_str()).ok_or_else(|| {
            Error::invalid(format!(
                "the deleted_at {at} is not a time, such as \"2026-01-31T12:00:00Z\" or 1769860800"
            ))
        })?),
    };
    let mut chat: Chat = item_of(&row, "chat")?;
    if chat.chat_id.is_empty() {
        return Err(Error::invalid("the chat_id is empty"));
    }
    keep_old_id(&mut chat.extra, old_id)?;
    Ok((chat, deleted_at_ms))
}

/// The record of a line; `None` for a row that was deleted.
pub(super) fn record_of<T: FromRow>(table: Table, text: &str) -> Result<Option<T>> {
    let mut row = match table {
        Table::History => row_of(text, &HISTORY)?,
        _ => row_of(text, &MESSAGE_AND_STEP)?,
    };
    if row.contains_key("deleted_at") {
        return Ok(None);
    }
    if table == Table::History {
        become_message(&mut row)?;
    }
    let old_id = row.remove("id");
    if !row.contains_key(T::ID) {
        return Err(Error::invalid(format!("the {} has no {}", T::NAME, T::ID)));
    }
    let mut record: T = item_of(&row, T::NAME)?;
    if record.id().is_empty() {
        return Err(Error::invalid(format!(
            "the {} of the {} is empty",
            T::ID,
            T::NAME
        )));
    }
    keep_old_id(record.extra(), old_id)?;
    Ok(Some(record))
}

/// Turns a row of `agent_history` into one of `agent_message`.
fn become_message(row: &mut Row) -> Result<()> {
    let role = row.get("role").map_or("nothing", RawJson::as_str);
    if !matches!(role, "\"user\"" | "\"assistant\"") {
        return Err(Error::invalid(format!(
            "the role should be user or assistant, but is {role}"
        )));
    }
    for column in NOT_IN_HISTORY {
        rename(row, column, &format!("old_{column}"));
    }
    let content = row
        .remove("content")
        .ok_or_else(|| Error::invalid("the message has no content"))?;
    let props = RawJson::from_value(&BTreeMap::from([("content", content)]))?;
    row.insert("props".to_owned(), props);
    row.insert("type".to_owned(), RawJson::string("text"));
    // Beside another id it is kept, as of the other tables.
    if !row.contains_key("message_id")
        && let Some(id) = row.remove("id")
    {
        row.insert("message_id".to_owned(), id);
    }
    Ok(())
}

/// The columns of a line that have a value, each converted to the form of its field.
fn row_of(text: &str, columns: &Columns) -> Result<Row> {
    let row = read_json::<Row>(text);
    let mut row =
        row.map_err(|error| Error::invalid(format!("the line is no JSON object: {error}")))?;
    row.retain(|name, value| {
        value.as_str() != "null" && !(name.ends_with("_at") && is_no_time(value))
    });
    for (name, value) in &mut row {
        if let Some(converted) = converted(name, value, columns) {
            *value = converted;
        }
    }
    Ok(row)
}

/// Converts a value that a database or an export writes in another form.
fn converted(name: &str, value: &RawJson, columns: &Columns) -> Option<RawJson> {
    let text = || string(value.as_str());
    if columns.ids.contains(&name) {
        let is_number = value.as_str().parse::<serde_json::Number>().is_ok();
        is_number.then(|| RawJson::string(value.as_str()))
    } else if columns.json.contains(&name) {
        RawJson::parse(text()?).ok()
    } else if columns.numbers.contains(&name) {
        RawJson::from_value(&text()?.trim().parse::<u64>().ok()?).ok()
    } else if TIMES.contains(&name) {
        RawJson::from_value(&time::from_json(value.as_str())?).ok()
    } else if columns.flags.contains(&name) {
        let number = text().unwrap_or_else(|| value.to_string());
        // Parsed as JSON: `str::parse` would link another number parser only for this.
        let number: f64 = serde_json::from_str(number.trim()).ok()?;
        RawJson::from_value(&(number != 0.0)).ok()
    } else {
        None
    }
}

/// Whether a value stands for a missing time: an empty text, or MySQL's zero date.
fn is_no_time(value: &RawJson) -> bool {
    string(value.as_str()).is_some_and(|text| text.is_empty() || text.starts_with("0000-00-00"))
}

fn rename(row: &mut Row, column: &str, field: &str) {
    if let Some(value) = row.remove(column) {
        row.insert(field.to_owned(), value);
    }
}

fn item_of<T: DeserializeOwned>(row: &Row, what: &str) -> Result<T> {
    read_json(RawJson::from_value(row)?.as_str())
        .map_err(|error| Error::invalid(format!("the line doesn't make a {what}: {error}")))
}

fn keep_old_id(extra: &mut Map<String, Value>, id: Option<RawJson>) -> Result<()> {
    if let Some(id) = id {
        extra.insert(OLD_ID.to_owned(), id.to_value()?);
    }
    Ok(())
}
