//! OpenAI-style chat messages and SWE-agent's `.traj`: values that hold a run's messages in an array, or are
//! one message.

use bytes::Bytes;

use runlog_model::{
    json::slices::{fields, for_each_element, span, string},
    time,
};

use super::{
    detect, message,
    reader::{Head, Output, Reader, entry, json_text},
    template,
    values::{Format, Item},
};

/// Reads OpenAI-style chat messages, or with [`swe_agent`](ChatReader::swe_agent) `.traj` files.
pub(super) struct ChatReader {
    format: Format,
    /// The name of the source, used for sessions without a name of their own.
    name: Option<String>,
    runs: u64,
    /// The session and instance of messages that are a line each.
    open: Option<(usize, usize)>,
}

impl ChatReader {
    pub(super) fn openai(name: Option<String>) -> Self {
        Self {
            format: Format::OpenAi,
            name,
            runs: 0,
            open: None,
        }
    }

    pub(super) fn swe_agent(name: Option<String>) -> Self {
        Self {
            format: Format::SweAgent,
            name,
            runs: 0,
            open: None,
        }
    }

    /// The name of a run: its own id, or the source's name with its task or its number.
    fn run_name(&self, text: &str) -> Option<String> {
        // An array of messages has no fields, and is named after its source.
        let [id, session_id, task, trial] =
            fields(text, ["id", "session_id", "task_id", "trial"]).unwrap_or_default();
        if let Some(own) = id.or(session_id).and_then(string) {
            return Some(own);
        }
        let base = self.name.as_deref();
        let place = match task.map(|task| string(task).unwrap_or_else(|| task.to_owned())) {
            Some(task) => match trial {
                None | Some("0" | "null") => task,
                Some(trial) => format!("{task}.{trial}"),
            },
            None if self.runs <= 1 => return base.map(str::to_owned),
            None => self.runs.to_string(),
        };
        Some(base.map_or(place.clone(), |base| format!("{base}/{place}")))
    }

    /// The agent of a message, in a source with several agents.
    fn agent_of(&self, message: &str) -> Option<String> {
        match (self.format, fields(message, ["agent"])) {
            (Format::SweAgent, Ok([Some(agent)])) => {
                string(agent).filter(|agent| !agent.is_empty())
            }
            _ => None,
        }
    }

    fn run(&mut self, line: u64, value: &Bytes, text: &str, messages: &str, out: &mut Output) {
        self.runs += 1;
        let mut parts = Vec::new();
        // The array was read once already as part of the value, so this doesn't fail.
        let _ = for_each_element(messages, |part| parts.push(part));
        let head = Head {
            name: self.run_name(text),
            wrapper: Some(json_text(template::lift(text, &parts))),
            ..Head::default()
        };
        let session = out.session(self.format, head);
        let mut agents: Vec<(String, usize)> = Vec::new();
        let mut places = Places::new(line, text);
        for part in parts {
            let raw = value.slice_ref(part.as_bytes());
            let (part_line, column) = places.of(span(text, part).start);
            let agent = self.agent_of(part);
            let instance = instance_of(session, agent, &mut agents, out);
            let time_ms = time_of(part);
            let message = accept(message::read(&raw, time_ms), part_line, column, out);
            out.items.push(Item::Entry(entry(
                session, instance, part_line, &raw, time_ms, message,
            )));
        }
        if agents.is_empty() {
            instance_of(session, None, &mut agents, out);
        }
        out.end(session);
    }

    /// An array of messages (one run), or of runs.
    fn array(&mut self, line: u64, value: &Bytes, text: &str, out: &mut Output) {
        let mut is_run = false;
        let mut runs = Vec::new();
        // The array was read once already, so this doesn't fail.
        let _ = for_each_element(text, |element| {
            is_run |= runs.is_empty() && messages_of(element).is_none();
            if !is_run {
                runs.push(element);
            }
        });
        if is_run {
            return self.run(line, value, text, text, out);
        }
        let mut places = Places::new(line, text);
        for run in runs {
            let (line, _) = places.of(span(text, run).start);
            let value = value.slice_ref(run.as_bytes());
            match messages_of(run).filter(|_| run.starts_with('{')) {
                Some(messages) => self.run(line, &value, run, messages, out),
                None => self.single(line, &value, run, out),
            }
        }
    }

    /// The session and instance of messages that are a line each, created at the first one.
    fn open(&mut self, out: &mut Output) -> (usize, usize) {
        *self.open.get_or_insert_with(|| {
            let session = out.session(
                self.format,
                Head {
                    name: self.name.clone(),
                    ..Head::default()
                },
            );
            (session, out.instance(session, None, MAIN_AGENT.to_owned()))
        })
    }

    fn single(&mut self, line: u64, value: &Bytes, text: &str, out: &mut Output) {
        let (session, instance) = self.open(out);
        let part = match fields(text, ["role", "message"]) {
            Ok([None, Some(part)]) if part.starts_with('{') => part,
            _ => text,
        };
        let raw = value.slice_ref(part.as_bytes());
        let (line, column) = Places::new(line, text).of(span(text, part).start);
        let time_ms = time_of(part).or_else(|| time_of(text));
        let message = accept(message::read(&raw, time_ms), line, column, out);
        let kept = if message.is_some() { &raw } else { value };
        let mut entry = entry(session, instance, line, kept, time_ms, message);
        if kept.len() != value.len() {
            entry.envelope = Some(json_text(template::lift(text, &[part])));
        }
        out.items.push(Item::Entry(entry));
    }
}

impl Reader for ChatReader {
    fn value(&mut self, line: u64, value: &Bytes, out: &mut Output) {
        let text = std::str::from_utf8(value).unwrap_or_default();
        if self.format == Format::OpenAi && detect::is_array_of_chats(text) {
            return self.array(line, value, text, out);
        }
        match (messages_of(text), self.format) {
            (Some(messages), _) => self.run(line, value, text, messages, out),
            (None, Format::SweAgent) => match fields(text, ["trajectory"]) {
                Ok([Some(_)]) => {
                    out.warn(
                        line,
                        1,
                        "no `history`, so no messages; the rest is kept".to_owned(),
                    );
                    self.run(line, value, text, "[]", out);
                }
                _ => out.error(
                    line,
                    1,
                    "no `history` and no `trajectory`; left out".to_owned(),
                ),
            },
            (None, _) => self.single(line, value, text, out),
        }
    }

    fn finish(&mut self, out: &mut Output) {
        if let Some((session, _)) = self.open.take() {
            out.end(session);
        }
    }
}

/// The array of messages in a run's value: the value itself, or one of its fields.
pub(super) fn messages_of(text: &str) -> Option<&str> {
    if text.starts_with('[') {
        return Some(text);
    }
    let names = ["history", "messages", "traj", "contents"];
    let [history, messages, traj, contents] = fields(text, names).ok()?;
    [history, messages, traj, contents]
        .into_iter()
        .flatten()
        .find(|value| value.starts_with('['))
}

/// The name of an agent if the source has none.
pub(super) const MAIN_AGENT: &str = "main";

/// The message, or the reason why it isn't one as a warning.
pub(super) fn accept(
    read: Result<message::Message, String>,
    line: u64,
    column: u64,
    out: &mut Output,
) -> Option<message::Message> {
    match read {
        Ok(message) => {
            if let Some(what) = &message.warning {
                out.warn(line, column, what.clone());
            }
            Some(message)
        }
        Err(what) => {
            out.warn(line, column, format!("{what}; kept, but not as a message"));
            None
        }
    }
}

/// The instance of an agent; the first agent is the parent of the others.
fn instance_of(
    session: usize,
    agent: Option<String>,
    agents: &mut Vec<(String, usize)>,
    out: &mut Output,
) -> usize {
    let agent = match (agent, agents.first()) {
        (None, Some((_, instance))) => return *instance,
        (agent, _) => agent.unwrap_or_else(|| MAIN_AGENT.to_owned()),
    };
    if let Some((_, instance)) = agents.iter().find(|(name, _)| *name == agent) {
        return *instance;
    }
    if agents.len() >= AGENTS_MAX {
        return agents[0].1;
    }
    let parent = agents.first().map(|(_, instance)| *instance);
    let instance = out.instance(session, parent, message::shorten(&agent));
    agents.push((agent, instance));
    instance
}

/// The most agents that are distinguished in one run; messages of others are attributed to the first.
const AGENTS_MAX: usize = 1000;

/// Computes the line and column of ascending offsets in a value.
struct Places<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
    column: u64,
}

impl<'a> Places<'a> {
    fn new(line: u64, text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
            line,
            column: 1,
        }
    }

    /// The line and column of the byte `at`, which is not before the one asked for last.
    fn of(&mut self, at: usize) -> (u64, u64) {
        for byte in self.text.get(self.at..at).unwrap_or_default() {
            if *byte == b'\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.at = at;
        (self.line, self.column)
    }
}

fn time_of(text: &str) -> Option<u64> {
    let [timestamp, created_at, created, time] =
        fields(text, ["timestamp", "created_at", "created", "time"]).ok()?;
    [timestamp, created_at, created, time]
        .into_iter()
        .flatten()
        .find_map(time::from_json)
}
