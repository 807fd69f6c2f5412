//! [`RuntimeCommand`]: a command to a running run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::size::{fields_bytes, string_bytes};

/// A command to a run: `send`, `reply`, `resume`, or another.
///
/// ```
/// use runlog_model::RuntimeCommand;
///
/// let command: RuntimeCommand = serde_json::from_str(r#"{"type":"send","runId":"r1","message":"Hurry!"}"#).unwrap();
/// assert_eq!(command.message(), Some("Hurry!"));
/// assert!(RuntimeCommand::new("reply").check().is_err(), "it doesn't say to which run");
/// assert!(RuntimeCommand::resume(None).check().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ReceivedCommand"))]
#[serde(rename_all = "camelCase")]
pub struct RuntimeCommand {
    /// What is asked.
    #[serde(rename = "type")]
    pub command_type: String,
    /// The run it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Whatever else it says, the message among it.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub fields: Map<String, Value>,
}

impl RuntimeCommand {
    /// A command of a type, to no run in particular.
    pub fn new(command_type: impl Into<String>) -> Self {
        Self {
            command_type: command_type.into(),
            run_id: None,
            fields: Map::new(),
        }
    }

    /// A message for a run.
    pub fn send(run_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            run_id: Some(run_id.into()),
            ..Self::new("send").with_message(Some(message.into()))
        }
    }

    /// Asks to resume, with a message or without.
    pub fn resume(message: Option<&str>) -> Self {
        Self::new("resume").with_message(message.map(str::to_owned))
    }

    /// The text it carries.
    pub fn message(&self) -> Option<&str> {
        self.fields.get("message").and_then(Value::as_str)
    }

    /// Checks that a `send` or `reply` says to which run, that a message is text, and that the command can be kept in an inbox.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it doesn't, or is nested too deep.
    pub fn check(&self) -> crate::Result<()> {
        let needs_run = matches!(self.command_type.as_str(), "send" | "reply");
        if needs_run && self.run_id.as_deref().unwrap_or_default().is_empty() {
            let found = if self.fields.contains_key("run_id") {
                "it is not called `run_id` here, also over HTTP"
            } else {
                "none is given"
            };
            return Err(crate::Error::invalid(format!(
                "a {:?} command needs the `runId` of the run it is for; {found}",
                self.command_type
            )));
        }
        let takes_text = needs_run || self.command_type == "resume";
        let other = match self.fields.get("message") {
            None | Some(Value::Null | Value::String(_)) => None,
            Some(Value::Array(_)) => Some("a list"),
            Some(Value::Object(_)) => Some("an object"),
            Some(Value::Bool(_)) => Some("true or false"),
            Some(Value::Number(_)) => Some("a number"),
        };
        if let Some(other) = other.filter(|_| takes_text) {
            return Err(crate::Error::invalid(format!(
                "the `message` of a {:?} command must be text, not {other}",
                self.command_type,
            )));
        }
        self.check_fields()
    }

    /// How many bytes of JSON it has, and a separator.
    pub fn json_bytes(&self) -> usize {
        let run_id = self.run_id.as_deref();
        let known = r#"{"type":""}"#.len() + string_bytes(&self.command_type);
        let run = run_id.map_or(0, |id| r#","runId":"""#.len() + string_bytes(id));
        1 + known + run + self.fields.len() + fields_bytes(&self.fields)
    }

    /// Checks that what it says beside can be read back from inside of a snapshot.
    pub(super) fn check_fields(&self) -> crate::Result<()> {
        crate::json::extra::check("a command", &self.fields, &["type", "runId"])
    }

    fn with_message(mut self, message: Option<String>) -> Self {
        if let Some(message) = message {
            self.fields.insert("message".into(), message.into());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_size_is_that_of_its_json_and_a_separator() {
        let more = RuntimeCommand {
            fields: Map::from_iter([("a \"b\"".to_owned(), serde_json::json!([1.5, null, {}]))]),
            ..RuntimeCommand::resume(None)
        };
        for command in [
            RuntimeCommand::new("stop\n"),
            RuntimeCommand::send("r\\1", "Hurry!\u{1}"),
            RuntimeCommand::resume(Some("Go on")),
            more,
        ] {
            let written = serde_json::to_vec(&command).unwrap();
            assert_eq!(command.json_bytes(), written.len() + 1, "{command:?}");
        }
    }
}
