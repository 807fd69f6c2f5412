//! [`AgentsFile`]: a file that describes agents that are programs.

use std::{collections::HashSet, ffi::OsString, fs, path::Path};

use runlog::AgentDefinition;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::{Exit, Failure, Result};

/// The largest file of agents: 16 MiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Agents that are programs.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentsFile {
    /// The project that they belong to.
    #[serde(default)]
    pub(crate) project: Option<String>,
    pub(crate) agents: Vec<AgentEntry>,
}

/// One agent: its definition, and the program that does its work. The program isn't stored, because its arguments may
/// contain a secret.
#[derive(Deserialize, Debug)]
pub(crate) struct AgentEntry {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    #[serde(flatten)]
    pub(crate) definition: AgentDefinition,
}

impl AgentEntry {
    /// The program and its arguments.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.command.iter().map(OsString::from).collect()
    }
}

impl AgentsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it can't be read, or its content is invalid.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let unread =
            |error: std::io::Error| Failure::io(&error, format!("can't read {}", path.display()));
        let length = fs::metadata(path).map_err(unread)?.len();
        if length > FILE_BYTES_MAX {
            let message = format!(
                "{} has {length} bytes, at most {FILE_BYTES_MAX} are read",
                path.display()
            );
            return Err(Failure::usage(message));
        }
        Self::parse(&fs::read_to_string(path).map_err(unread)?)
            .map_err(|failure| failure.about(format!("{} can't be used", path.display())))
    }

    fn parse(text: &str) -> Result<Self> {
        let invalid = |message: String| Failure::new(Exit::Usage, "invalid_input", message);
        let found = match serde_json::from_str(text).map_err(|error| invalid(error.to_string()))? {
            Value::Object(_) => None,
            Value::Array(_) => Some("an array"),
            Value::String(_) => Some("a string"),
            Value::Number(_) => Some("a number"),
            Value::Bool(_) => Some("a boolean"),
            Value::Null => Some("null"),
        };
        if let Some(found) = found {
            return Err(invalid(format!(
                "an object with `agents`, a list, is expected, and not {found}"
            )));
        }
        // From the text, so that an error in a field has its line and column.
        let mut file: Self =
            serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let mut names = HashSet::new();
        for agent in &mut file.agents {
            // Only one of them could be spawned, without any hint which one.
            if !names.insert(agent.definition.name.clone()) {
                let message = format!(
                    "agent {:?} is there twice; give each a name of its own",
                    agent.definition.name
                );
                return Err(invalid(message));
            }
            agent.definition.project.clone_from(&file.project);
            agent.definition.check().map_err(Failure::of_argument)?;
            if agent.command.first().is_none_or(String::is_empty) {
                let message = format!(
                    "agent {:?} has an empty command; name the program that does its work",
                    agent.definition.name
                );
                return Err(Failure::usage(message));
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_of_agents_and_their_programs() {
        let text = r#"{"project":"p","agents":[{"name":"a","description":"d","command":["./a","--x"],"max_steps":5}]}"#;
        let file = AgentsFile::parse(text).unwrap();
        let agent = &file.agents[0];
        assert_eq!(
            (
                agent.definition.project.as_deref(),
                agent.definition.max_steps
            ),
            (Some("p"), Some(5))
        );
        assert_eq!(agent.command(), ["./a", "--x"]);
        assert!(
            agent.definition.extra.is_empty(),
            "the command is not part of what is kept"
        );
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        for (text, says) in [
            ("", "EOF"),
            (r#"{"agents":[{"name":"a"}]}"#, "command"),
            (
                r#"{"agents":[{"name":"","command":["x"]}]}"#,
                "name is empty",
            ),
            (r#"{"agents":[{"name":"a","command":[]}]}"#, "empty command"),
            (r#"{"agents":[],"agent":[]}"#, "agent"),
            (
                "[]",
                "an object with `agents`, a list, is expected, and not an array",
            ),
            (
                r#"[{"name":"a","command":["x"]}]"#,
                "an object with `agents`, a list, is expected, and not an array",
            ),
            (
                "5",
                "an object with `agents`, a list, is expected, and not a number",
            ),
            (
                "null",
                "an object with `agents`, a list, is expected, and not null",
            ),
            (
                r#"{"agents":[{"name":"a","command":["x"]},{"name":"b","command":["x"]},{"name":"a","command":["y"]}]}"#,
                "agent \"a\" is there twice",
            ),
        ] {
            let failure = AgentsFile::parse(text).unwrap_err();
            assert!(failure.message().contains(says), "{text}: {failure}");
        }
    }
}
