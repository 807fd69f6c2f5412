//! Fixtures: what was recorded of agents' calls, as `runlog/testing` plays it in a test without an agent.
//!
//! The layout is that of the npm package's `fixture.schema.json`: a file for each node, `{"calls": [{"input", "output",
//! "events"}]}`, in which events are those of an agent without the node, the run and the time.

mod context;
mod flow;

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use context::of_context;
pub(crate) use flow::FlowFixtures;

/// The recorded calls of one node, in order.
#[derive(Serialize, Default)]
pub(crate) struct Fixture {
    pub(crate) calls: Vec<Call>,
}

/// Fixtures by node.
pub(crate) type Fixtures = BTreeMap<String, Fixture>;

/// One call of an agent.
#[derive(Serialize, Default)]
pub(crate) struct Call {
    input: Input,
    output: Output,
    events: Vec<Event>,
}

/// What an agent was called with.
#[derive(Serialize, Default)]
struct Input {
    prompt: Value,
    #[serde(skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
}

/// What a call ended with.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Output {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// How it ended, where it isn't success.
    #[serde(skip_serializing_if = "Option::is_none")]
    subtype: Option<String>,
    /// `usage` and the other figures, as the agent told them.
    #[serde(flatten)]
    figures: Map<String, Value>,
}

/// An event of an agent.
#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    event_type: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// The name of a node's file: letters that every file system takes, and any other as the `%` and two digits of its bytes.
pub(crate) fn file_of(node: &str) -> String {
    let mut name = String::new();
    for (index, byte) in node.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric()
            || b"-_!~()".contains(&byte)
            || (byte == b'.' && index > 0);
        if is_plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name + ".json"
}

/// The node of a file.
pub(crate) fn node_of(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits
            .filter(|_| first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = escaped.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.into_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{file_of, node_of};

    #[test]
    fn every_node_has_a_file_name() {
        assert_eq!(file_of("task-agent"), "task-agent.json");
        assert_eq!(file_of("a/b: c?*'"), "a%2Fb%3A%20c%3F%2A%27.json");
        assert_eq!(file_of("../é"), "%2E.%2F%C3%A9.json");
        for node in ["task-agent", "a/b: c?*'", "../é", "50%", "%2F"] {
            assert_eq!(node_of(Path::new(&file_of(node))), node);
        }
        assert_eq!(node_of(Path::new("a%zz.json")), "a%zz");
    }
}
