//! The parts of a transcript: [`Item`]s in the order of the source, and the [`Transcript`] of all of them.

use std::{borrow::Cow, fmt};

use runlog_model::{
    ContextEventKind, NewContextEvent, RawJson,
    json::slices::{fields, string},
};

/// A format of transcripts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Runlog's own JSON lines, with everything a store has of a session's contexts.
    Runlog,
    /// OpenAI-style chat messages: a run a line (`{"messages": […], …}`), a message a line, or one such
    /// object over several lines.
    OpenAi,
    /// Claude Code's session files: JSON lines with a `type`, a `sessionId` and usually a `message`.
    ClaudeCode,
    /// SWE-agent's `.traj`: one JSON object with a `history` and a `trajectory`.
    SweAgent,
}

impl Format {
    /// Every format, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Runlog, Self::OpenAi, Self::ClaudeCode, Self::SweAgent];

    /// Its stable name: `runlog`, `openai`, `claude-code`, `swe-agent`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runlog => "runlog",
            Self::OpenAi => "openai",
            Self::ClaudeCode => "claude-code",
            Self::SweAgent => "swe-agent",
        }
    }

    /// The format of a [name](Self::name).
    ///
    /// ```
    /// use runlog::transcripts::Format;
    /// assert_eq!(Format::from_name("swe-agent"), Some(Format::SweAgent));
    /// assert_eq!(Format::from_name("csv"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One item of a transcript, in the order of the source.
///
/// Sessions and instances are numbered 0, 1, 2, … in the order in which they appear in one source. A
/// session comes before its instances, an instance before its entries, a parent before its children.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Item {
    /// A session begins.
    Session(Session),
    /// An agent instance of a session begins.
    Instance(Instance),
    /// The next message, or another line, of a session.
    Entry(Entry),
    /// A session is complete: nothing more of it follows.
    End {
        /// The session's number.
        session: usize,
    },
    /// Something is wrong with the source here; reading continues.
    Issue(Issue),
}

/// The head of one session.
#[derive(Clone, PartialEq, Debug)]
pub struct Session {
    /// Its number in the source.
    pub number: usize,
    /// The format it was read from.
    pub format: Format,
    /// The id that Runlog's own export carries.
    pub id: Option<uuid::Uuid>,
    /// Its name in the source, or the name of the source.
    pub name: Option<String>,
    /// The JSON around the messages, with a `null` for each message. Only for formats that have a whole session in one value.
    pub wrapper: Option<RawJson>,
    /// Its record in the exporting store; only in Runlog's own export.
    pub record: Option<runlog_model::Session>,
}

/// The head of one agent instance.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// Its number in the source.
    pub number: usize,
    /// The number of its session.
    pub session: usize,
    /// The number of the instance that it is a sub-agent of.
    pub parent: Option<usize>,
    /// The id that Runlog's own export carries.
    pub id: Option<uuid::Uuid>,
    /// The name of the agent.
    pub agent: String,
    /// When it was created, from Runlog's own export: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: Option<u64>,
}

/// A message, or another line, of a session.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The number of its session.
    pub session: usize,
    /// The number of its instance.
    pub instance: usize,
    /// The line of the source it begins on, counted from 1.
    pub line: u64,
    /// Its JSON: exactly the slice of the source.
    pub raw: RawJson,
    /// The line it was in, JSON with a `null` for it. `None` when it was the whole line, or is part of
    /// the session's [wrapper](Session::wrapper).
    pub envelope: Option<RawJson>,
    /// When it happened, according to the source: milliseconds since 1970-01-01 UTC.
    pub time_ms: Option<u64>,
    /// Its events in its instance's context: the message, then its tool calls. Empty for other lines of the source,
    /// such as a summary.
    pub events: Vec<NewContextEvent>,
}

impl Entry {
    /// Whether it is sent to a model.
    pub fn is_message(&self) -> bool {
        self.events.iter().any(|event| event.kind.is_message())
    }

    /// Its tool calls, in their order.
    pub fn tool_calls(&self) -> impl Iterator<Item = ToolCall<'_>> {
        self.events
            .iter()
            .filter(|event| event.kind == ContextEventKind::ToolCall)
            .filter_map(|event| ToolCall::read(event.content.as_str()))
    }
}

/// A tool call, as a tool_call event holds it: `{id, name, arguments}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall<'a> {
    /// The id that its result refers to.
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// The arguments as one JSON value, byte for byte: a string that holds JSON (OpenAI-style), or the JSON itself.
    pub arguments: &'a str,
}

impl<'a> ToolCall<'a> {
    /// Reads the content of a tool_call event. `None` when it is none.
    pub fn read(content: &'a str) -> Option<Self> {
        let names = ["id", "name", "arguments", "input"];
        let [id, name, arguments, input] = fields(content, names).ok()?;
        Some(Self {
            id: id.and_then(string),
            name: string(name?)?,
            arguments: arguments.or(input).unwrap_or("null"),
        })
    }

    /// The argument string byte for byte: the text inside the string, or the JSON itself.
    pub fn arguments_text(&self) -> Cow<'a, str> {
        string(self.arguments).map_or(Cow::Borrowed(self.arguments), Cow::Owned)
    }
}

/// How bad an [`Issue`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Unusual, and kept as it is.
    Warning,
    /// Not readable, and left out.
    Error,
}

/// Something wrong in a source: where, and what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issue {
    /// The line, counted from 1.
    pub line: u64,
    /// The column in bytes, counted from 1.
    pub column: u64,
    /// Whether it was kept.
    pub severity: Severity,
    /// What is wrong, and how it was handled.
    pub what: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.what
        )
    }
}

/// A whole transcript in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Transcript {
    /// The format it was read from.
    pub format: Format,
    /// The sessions, by number.
    pub sessions: Vec<Session>,
    /// The instances of all sessions, by number.
    pub instances: Vec<Instance>,
    /// The entries of all sessions, in the order of the source.
    pub entries: Vec<Entry>,
    /// What is wrong with the source.
    pub issues: Vec<Issue>,
}

impl Transcript {
    /// The entries of one session, in the order of the source.
    pub fn entries_of(&self, session: usize) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.session == session)
    }
}
