//! Runlog's own JSON lines: the contexts of a session, one item per line, for people to read. To restore a session with
//! its runs and its chat, use an [archive](crate::archive).
//!
//! The only encoder and decoder of this layout. Version 1:
//!
//! ```text
//! {"runlog":"session","version":1,"format":"claude-code","session":{…},"wrapper":{…}}
//! {"runlog":"instance","instance":{…}}
//! {"runlog":"event","instance_id":"…","sequence_number":1,"event_type":"user_message",…,"envelope":{…},"content":{…}}
//! {"runlog":"other","instance_id":"…","content":{…}}
//! {"runlog":"end","session_id":"…","entries":2}
//! ```
//!
//! A session is followed by its instances, events and other entries, in the order in which they happened, an instance
//! before its first event, and by an end line; if that is missing, the export is incomplete. `content`, `envelope` and
//! `wrapper` are byte for byte what was recorded; one with a line break in it is a JSON string with the text instead,
//! under `content_text`, `envelope_text`, `wrapper_text`.

use std::collections::HashMap;

use bytes::Bytes;
use runlog_model::{
    AgentInstance, ContextEvent, ContextEventKind, InstanceId, NewContextEvent, RawJson, RunId,
    ToolMark,
    codec::EventMeta,
    json::slices::{fields, string},
};
use serde::{Deserialize, Serialize};

use super::{
    message::shorten,
    reader::{Head, Output, Reader},
    values::{Entry, Format, Item},
};

/// The version that is written, and the newest that is read.
pub const RUNLOG_LINES_VERSION: u32 = 1;

/// The line that begins a session. `wrapper` is what a source had around all its messages.
///
/// ```
/// use runlog::{
///     NewSession,
///     blocking::Store,
///     transcripts::{Options, parse, runlog_lines},
/// };
///
/// let store = Store::in_memory();
/// let (session, agent) = store.start_session(NewSession::named("trip"), "planner")?;
/// let mut export = runlog_lines::session_line(&session, None, None);
/// export.extend(runlog_lines::instance_line(&agent));
/// export.extend(runlog_lines::end_line(session.id, 0));
/// let transcript = parse(&export, Options::default())?;
/// assert_eq!(transcript.sessions[0].record.as_ref(), Some(&session));
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn session_line(
    session: &runlog_model::Session,
    format: Option<Format>,
    wrapper: Option<&RawJson>,
) -> Vec<u8> {
    let mut line = Line::new("session");
    line.field("version", &RUNLOG_LINES_VERSION);
    if let Some(format) = format {
        line.field("format", &format.name());
    }
    line.field("session", session);
    line.raw("wrapper", wrapper);
    line.end()
}

/// The line of an agent instance.
pub fn instance_line(instance: &AgentInstance) -> Vec<u8> {
    let mut line = Line::new("instance");
    line.field("instance", instance);
    line.end()
}

/// The line of an event of a context, with the envelope of its message in the source.
///
/// A redacted event is written with its placeholder message, and marked as redacted.
pub fn event_line(event: &ContextEvent, envelope: Option<&RawJson>) -> Vec<u8> {
    let mut line = Line::new("event");
    line.field("instance_id", &event.instance_id);
    line.field("sequence_number", &event.sequence_number);
    line.field("event_type", &event.event_type);
    line.field("created_at_ms", &event.created_at_ms);
    line.optional("run_id", event.run_id.as_ref());
    line.optional("step_number", event.step_number.as_ref());
    line.optional("tool_call_id", event.tool_call_id.as_ref());
    if !event.tool_results.is_empty() {
        line.field("tool_results", &event.tool_results);
    }
    if event.role_implied {
        line.field("role_implied", &true);
    }
    if event.is_continuation {
        line.field("is_continuation", &true);
    }
    line.raw("envelope", envelope);
    if event.redacted {
        line.field("redacted", &true);
        let standing = event.message_json().ok().flatten();
        line.raw("content", Some(&standing.unwrap_or(RawJson::null())));
    } else {
        line.raw("content", Some(&event.content));
    }
    line.end()
}

/// The line of an entry of the aside.
pub fn other_line(instance: InstanceId, content: &RawJson) -> Vec<u8> {
    let mut line = Line::new("other");
    line.field("instance_id", &instance);
    line.raw("content", Some(content));
    line.end()
}

/// The line that ends a session: how many events and other entries it has.
pub fn end_line(session: runlog_model::SessionId, entries: u64) -> Vec<u8> {
    let mut line = Line::new("end");
    line.field("session_id", &session);
    line.field("entries", &entries);
    line.end()
}

struct Line(Vec<u8>);

impl Line {
    fn new(what: &str) -> Self {
        Self(format!("{{\"runlog\":\"{what}\"").into_bytes())
    }

    fn field(&mut self, name: &str, value: &impl Serialize) {
        self.0.extend_from_slice(format!(",\"{name}\":").as_bytes());
        let start = self.0.len();
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.truncate(start);
            self.0.extend_from_slice(b"null");
        }
        // A value may carry raw JSON with line breaks in it, which are white space there.
        for byte in &mut self.0[start..] {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }

    fn optional(&mut self, name: &str, value: Option<&impl Serialize>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    fn raw(&mut self, name: &str, value: Option<&RawJson>) {
        let Some(value) = value else { return };
        if value
            .as_bytes()
            .iter()
            .any(|byte| matches!(byte, b'\n' | b'\r'))
        {
            return self.field(&format!("{name}_text"), &value.as_str());
        }
        self.0.extend_from_slice(format!(",\"{name}\":").as_bytes());
        self.0.extend_from_slice(value.as_bytes());
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

/// Reads Runlog's own lines.
pub(super) struct RunlogReader {
    open: Option<Open>,
}

struct Open {
    number: usize,
    id: runlog_model::SessionId,
    instances: HashMap<InstanceId, usize>,
    entries: u64,
    line: u64,
}

/// The small fields of an event's line.
#[derive(Deserialize)]
struct EventFields {
    instance_id: InstanceId,
    event_type: ContextEventKind,
    created_at_ms: u64,
    run_id: Option<RunId>,
    step_number: Option<u32>,
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_results: Vec<ToolMark>,
    #[serde(default)]
    role_implied: bool,
    #[serde(default)]
    is_continuation: bool,
}

#[derive(Deserialize)]
struct SessionFields {
    version: u32,
    format: Option<String>,
    session: runlog_model::Session,
}

impl RunlogReader {
    pub(super) const fn new() -> Self {
        Self { open: None }
    }

    fn session(&mut self, line: u64, value: &Bytes, out: &mut Output) -> Result<(), String> {
        self.close(None, out);
        let fields: SessionFields =
            serde_json::from_slice(value).map_err(|error| error.to_string())?;
        if fields.version > RUNLOG_LINES_VERSION {
            return Err(format!(
                "version {} of Runlog's export, but only versions up to {RUNLOG_LINES_VERSION} are known; use a newer runlog",
                fields.version
            ));
        }
        let format = fields
            .format
            .as_deref()
            .and_then(Format::from_name)
            .unwrap_or(Format::Runlog);
        let id = fields.session.id;
        let head = Head {
            id: Some(id.0),
            name: fields.session.name.clone(),
            wrapper: raw(value, "wrapper", "wrapper_text"),
            record: Some(fields.session),
        };
        let number = out.session(format, head);
        self.open = Some(Open {
            number,
            id,
            instances: HashMap::new(),
            entries: 0,
            line,
        });
        Ok(())
    }

    fn instance(&mut self, value: &Bytes, out: &mut Output) -> Result<(), String> {
        let open = self.open.as_mut().ok_or("an instance before any session")?;
        let instance: &str = fields(text(value), ["instance"])
            .ok()
            .and_then(|[it]| it)
            .ok_or("no `instance`")?;
        let instance: AgentInstance =
            serde_json::from_str(instance).map_err(|error| error.to_string())?;
        let parent = match instance.parent_instance_id {
            Some(id) => Some(
                *open
                    .instances
                    .get(&id)
                    .ok_or_else(|| format!("the parent instance {id} is not there"))?,
            ),
            None => None,
        };
        let recorded = Some((instance.id.0, instance.created_at_ms));
        let number = out.recorded_instance(open.number, parent, instance.agent_name, recorded);
        open.instances.insert(instance.id, number);
        Ok(())
    }

    fn event(&mut self, line: u64, value: &Bytes, out: &mut Output) -> Result<(), String> {
        let open = self.open.as_mut().ok_or("an event before any session")?;
        let fields: EventFields =
            serde_json::from_slice(value).map_err(|error| error.to_string())?;
        let instance = open.instance(fields.instance_id)?;
        let content = raw(value, "content", "content_text").ok_or("no `content`")?;
        let time_ms = Some(fields.created_at_ms);
        let tools = match fields.event_type {
            ContextEventKind::ToolResult => fields.tool_results,
            ContextEventKind::ToolCall => {
                vec![ToolMark {
                    tool_call_id: fields.tool_call_id,
                    ..ToolMark::default()
                }]
            }
            _ => Vec::new(),
        };
        let meta = EventMeta {
            role_implied: fields.role_implied,
            created_at_ms: time_ms,
            run_id: fields.run_id,
            step_number: fields.step_number,
            tools,
            is_continuation: fields.is_continuation,
        };
        let event = NewContextEvent {
            kind: fields.event_type,
            content: content.clone(),
            meta,
        };
        event.encode_meta().map_err(|error| error.to_string())?;
        let envelope = raw(value, "envelope", "envelope_text");
        let (session, events) = (open.number, vec![event]);
        open.entries += 1;
        out.items.push(Item::Entry(Entry {
            session,
            instance,
            line,
            raw: content,
            envelope,
            time_ms,
            events,
        }));
        Ok(())
    }

    fn other(&mut self, line: u64, value: &Bytes, out: &mut Output) -> Result<(), String> {
        let open = self.open.as_mut().ok_or("an entry before any session")?;
        let [id] = fields(text(value), ["instance_id"]).map_err(|error| error.to_string())?;
        let id: InstanceId = serde_json::from_str(id.ok_or("no `instance_id`")?)
            .map_err(|error| error.to_string())?;
        let instance = open.instance(id)?;
        let raw = raw(value, "content", "content_text").ok_or("no `content`")?;
        let (session, events) = (open.number, Vec::new());
        open.entries += 1;
        out.items.push(Item::Entry(Entry {
            session,
            instance,
            line,
            raw,
            envelope: None,
            time_ms: None,
            events,
        }));
        Ok(())
    }

    /// Ends the current session. `claimed` is the content of its end line.
    fn close(&mut self, claimed: Option<(u64, u64)>, out: &mut Output) {
        let Some(open) = self.open.take() else { return };
        match claimed {
            Some((_, entries)) if entries == open.entries => {}
            Some((line, entries)) => out.error(
                line,
                1,
                format!(
                    "session {} should have {entries} entries, but {} were read",
                    open.id, open.entries
                ),
            ),
            None => out.error(
                open.line,
                1,
                format!("session {} has no end: the export broke off", open.id),
            ),
        }
        out.end(open.number);
    }
}

impl Reader for RunlogReader {
    fn value(&mut self, line: u64, value: &Bytes, out: &mut Output) {
        let what = match fields(text(value), ["runlog", "entries"]) {
            Ok([Some(what), entries]) => string(what).map(|what| (what, entries)),
            _ => None,
        };
        let Some((what, entries)) = what else {
            return out.error(
                line,
                1,
                "no line of Runlog's export: `runlog` is missing; left out".to_owned(),
            );
        };
        let read = match what.as_str() {
            "session" => self.session(line, value, out),
            "instance" => self.instance(value, out),
            "event" => self.event(line, value, out),
            "other" => self.other(line, value, out),
            "end" => {
                let entries = entries
                    .and_then(|entries| entries.parse().ok())
                    .unwrap_or_default();
                self.close(Some((line, entries)), out);
                Ok(())
            }
            unknown => Err(format!(
                "`{}` is unknown; a newer runlog may read it",
                shorten(unknown)
            )),
        };
        if let Err(why) = read {
            out.error(line, 1, format!("{why}; left out"));
        }
    }

    fn finish(&mut self, out: &mut Output) {
        self.close(None, out);
    }
}

impl Open {
    fn instance(&self, id: InstanceId) -> Result<usize, String> {
        self.instances
            .get(&id)
            .copied()
            .ok_or_else(|| format!("instance {id} is not there"))
    }
}

fn text(value: &Bytes) -> &str {
    std::str::from_utf8(value).unwrap_or_default()
}

/// The raw JSON under `name`, or in the string under `name_text`.
fn raw(value: &Bytes, name: &str, name_text: &str) -> Option<RawJson> {
    let [raw, quoted] = fields(text(value), [name, name_text]).ok()?;
    match quoted.and_then(string) {
        Some(text) => RawJson::parse(text).ok(),
        None => RawJson::from_stored(value.slice_ref(raw?.as_bytes())).ok(),
    }
}
