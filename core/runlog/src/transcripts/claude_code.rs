//! Claude Code's session files.
//!
//! A line with a `message` is that message in an envelope; other lines (`summary`, …) are kept whole. Lines are
//! assigned to sessions by `sessionId`; one without belongs to the session of the line before, or, at the start of the
//! source, of the first line that has one. Lines of a sub-agent (`isSidechain`) are an instance of their own: by
//! `agentId`, or by their chain of `parentUuid`.

use std::collections::HashMap;

use bytes::Bytes;
use runlog_model::{
    ContextEventKind,
    json::slices::{fields, for_each_element, kind_of, span, string},
    time,
};

use super::{
    chat::accept,
    message::{self, Message, shorten},
    reader::{Head, Output, Reader, entry, json_text},
    template,
    values::{Format, Item, ToolCall},
};

/// The name of the agent that isn't a sub-agent.
const MAIN_AGENT: &str = "claude-code";
/// The name of a sub-agent if the source has none.
const SUB_AGENT: &str = "sub-agent";
/// The most lines that are held until the first one that names a session.
const WAITING_MAX: usize = 1000;
/// The most lines of sub-agents that are remembered to find the chain of later ones.
const CHAIN_MAX: usize = 1 << 20;
/// The most tasks given to sub-agents that are remembered to name them.
const TASKS_MAX: usize = 1000;

#[derive(Default)]
pub(super) struct ClaudeReader {
    /// The name of the source, for a session that has none.
    name: Option<String>,
    sessions: Vec<State>,
    by_id: HashMap<String, usize>,
    current: Option<usize>,
    waiting: Vec<(u64, Bytes)>,
}

struct State {
    number: usize,
    main: usize,
    sub_agents: HashMap<String, usize>,
    newest_sub_agent: Option<usize>,
    tasks: Vec<Task>,
}

/// A sub-agent's prompt, and the name of the agent.
struct Task {
    prompt: String,
    agent: String,
}

impl ClaudeReader {
    pub(super) fn new(name: Option<String>) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// The index in `sessions` of the session named `id`, created if it is new.
    fn session(&mut self, id: Option<String>, out: &mut Output) -> usize {
        if let Some(place) = id.as_ref().and_then(|id| self.by_id.get(id)) {
            return *place;
        }
        let name = id.clone().or_else(|| self.name.clone());
        let number = out.session(
            Format::ClaudeCode,
            Head {
                name,
                ..Head::default()
            },
        );
        let main = out.instance(number, None, MAIN_AGENT.to_owned());
        let place = self.sessions.len();
        let state = State {
            number,
            main,
            sub_agents: HashMap::new(),
            newest_sub_agent: None,
            tasks: Vec::new(),
        };
        self.sessions.push(state);
        if let Some(id) = id {
            self.by_id.insert(id, place);
        }
        place
    }

    fn flush_waiting(&mut self, place: usize, out: &mut Output) {
        for (line, value) in std::mem::take(&mut self.waiting) {
            self.line(place, line, &value, out);
        }
    }

    fn line(&mut self, place: usize, line: u64, value: &Bytes, out: &mut Output) {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let names = [
            "type",
            "message",
            "uuid",
            "parentUuid",
            "isSidechain",
            "agentId",
            "timestamp",
        ];
        let Ok([kind, part, uuid, parent, sidechain, agent_id, timestamp]) = fields(text, names)
        else {
            out.warn(
                line,
                1,
                format!(
                    "{}, where an object was expected; kept, but not as a message",
                    kind_of(text)
                ),
            );
            return self.keep(place, line, value, None, out);
        };
        let kind = kind.and_then(string);
        if kind.is_none() {
            out.warn(
                line,
                1,
                "the line has no `type`; kept, but not as a message".to_owned(),
            );
        }
        let time_ms = timestamp.and_then(time::from_json);
        let Some(part) = part.filter(|_| kind.is_some()) else {
            if matches!(kind.as_deref(), Some("user" | "assistant")) {
                out.warn(
                    line,
                    1,
                    "the line has no `message`; kept, but not as a message".to_owned(),
                );
            }
            return self.keep(place, line, value, time_ms, out);
        };
        let raw = value.slice_ref(part.as_bytes());
        let read = message::read(&raw, time_ms);
        let column = span(text, part).start as u64 + 1;
        let Some(message) = accept(read, line, column, out) else {
            return self.keep(place, line, value, time_ms, out);
        };
        let session = &mut self.sessions[place];
        let instance = if sidechain == Some("true") {
            let link = Link {
                uuid: uuid.and_then(string),
                parent: parent.and_then(string),
                agent_id: agent_id.and_then(string),
            };
            session.sub_agent(link, &raw, out)
        } else {
            session.remember_tasks(&message);
            session.main
        };
        let mut entry = entry(session.number, instance, line, &raw, time_ms, Some(message));
        entry.envelope = Some(json_text(template::lift(text, &[part])));
        out.items.push(Item::Entry(entry));
    }

    /// Keeps a line that is no message.
    fn keep(&self, place: usize, line: u64, value: &Bytes, time_ms: Option<u64>, out: &mut Output) {
        let session = &self.sessions[place];
        out.items.push(Item::Entry(entry(
            session.number,
            session.main,
            line,
            value,
            time_ms,
            None,
        )));
    }
}

impl Reader for ClaudeReader {
    fn value(&mut self, line: u64, value: &Bytes, out: &mut Output) {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let id = match fields(text, ["sessionId"]) {
            Ok([Some(id)]) => string(id),
            _ => None,
        };
        let place = match (id, self.current) {
            (Some(id), _) => self.session(Some(id), out),
            (None, Some(current)) => current,
            (None, None) => {
                self.waiting.push((line, value.clone()));
                if self.waiting.len() < WAITING_MAX {
                    return;
                }
                let place = self.session(None, out);
                self.current = Some(place);
                return self.flush_waiting(place, out);
            }
        };
        self.current = Some(place);
        self.flush_waiting(place, out);
        self.line(place, line, value, out);
    }

    fn finish(&mut self, out: &mut Output) {
        if !self.waiting.is_empty() {
            let place = self.session(None, out);
            self.flush_waiting(place, out);
        }
        for session in &self.sessions {
            out.end(session.number);
        }
    }
}

/// The fields that connect a sub-agent's line to the others of the same sub-agent.
struct Link {
    uuid: Option<String>,
    parent: Option<String>,
    agent_id: Option<String>,
}

impl State {
    fn sub_agent(&mut self, link: Link, message: &Bytes, out: &mut Output) -> usize {
        let key = link.agent_id.clone().or(link.parent);
        let known = key
            .as_ref()
            .and_then(|key| self.sub_agents.get(key))
            .copied();
        let full = self.sub_agents.len() >= CHAIN_MAX;
        let instance = match (known, self.newest_sub_agent.filter(|_| full)) {
            (Some(instance), _) | (None, Some(instance)) => instance,
            (None, None) => {
                let agent = self.task_agent(message).or_else(|| {
                    let id = link.agent_id.as_deref()?;
                    Some(format!("{SUB_AGENT} {}", shorten(id)))
                });
                out.instance(
                    self.number,
                    Some(self.main),
                    agent.unwrap_or_else(|| SUB_AGENT.to_owned()),
                )
            }
        };
        self.newest_sub_agent = Some(instance);
        if let Some(key) = link.agent_id.or(link.uuid).filter(|_| !full) {
            self.sub_agents.insert(key, instance);
        }
        instance
    }

    /// Remembers the tasks that the main agent gives its sub-agents.
    fn remember_tasks(&mut self, message: &Message) {
        let calls = message
            .events
            .iter()
            .filter(|event| event.kind == ContextEventKind::ToolCall);
        let calls = calls.filter_map(|event| ToolCall::read(event.content.as_str()));
        for call in calls.filter(|call| matches!(call.name.as_str(), "Task" | "Agent")) {
            let Ok([prompt, agent]) = fields(call.arguments, ["prompt", "subagent_type"]) else {
                continue;
            };
            let (Some(prompt), Some(agent)) = (prompt.and_then(string), agent.and_then(string))
            else {
                continue;
            };
            if self.tasks.len() < TASKS_MAX {
                self.tasks.push(Task {
                    prompt,
                    agent: shorten(&agent),
                });
            }
        }
    }

    /// The name of the agent that was given the task of a sub-agent's first message.
    fn task_agent(&mut self, first: &Bytes) -> Option<String> {
        let [content] = fields(std::str::from_utf8(first).ok()?, ["content"]).ok()?;
        let text = text_of(content?)?;
        let found = self.tasks.iter().position(|task| task.prompt == text)?;
        Some(self.tasks.remove(found).agent)
    }
}

/// The text of a `content`: the string itself, or that of its first text block.
fn text_of(content: &str) -> Option<String> {
    if let Some(text) = string(content) {
        return Some(text);
    }
    let mut first = None;
    for_each_element(content, |block| {
        if let (None, Ok([Some(text)])) = (&first, fields(block, ["text"])) {
            first = string(text);
        }
    })
    .ok()?;
    first
}
