//! [`AgentDefinition`]: the definition of an agent; [`AgentSummary`]: the part of it that other agents see.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::max_steps;
use crate::{
    Error, RawJson, Result, Updates,
    check::check_length,
    json::{extra, overlay},
    limits::{
        AGENT_DESCRIPTION_BYTES_MAX, AGENT_FLOW_TYPE_BYTES_MAX, AGENT_METADATA_BYTES_MAX,
        AGENT_NAME_BYTES_MAX, AGENT_PROMPT_BYTES_MAX, AGENT_TOOLS_MAX, PROJECT_BYTES_MAX,
        TOOL_NAME_BYTES_MAX,
    },
    named::named,
};

/// The flow type of an agent that works alone, one step after the other.
const FLOW_TYPE: &str = "single";

/// The intended users of an agent. Other agents see agents of every visibility.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentVisibility {
    /// Any user, also outside of the project.
    External,
    /// People and agents of the project.
    #[default]
    Project,
    /// Other agents only.
    Internal,
}

named! {
    AgentVisibility: "visibility" {
        External = "external",
        Project = "project",
        Internal = "internal",
    }
}

/// The definition of an agent: its name in its project, its prompt, its tools, and its limits. Fields that this build
/// doesn't know are kept in [`extra`](Self::extra).
///
/// ```
/// use runlog_model::{AgentDefinition, AgentVisibility};
///
/// let agent: AgentDefinition = serde_json::from_str(r#"{
///     "name": "paper-summarizer", "description": "Says in five lines what a paper says.",
///     "tools": ["read_file"], "visibility": "internal", "default_timeout_ms": 60000
/// }"#).unwrap();
/// assert_eq!((agent.visibility, agent.flow_type.as_str()), (AgentVisibility::Internal, "single"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentDefinition {
    /// The project it belongs to; `None` for no project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its name, unique in its project.
    pub name: String,
    /// What it is good for, for the agents that choose among several.
    #[serde(default)]
    pub description: String,
    /// Its system prompt. Not part of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The names of the tools it may use.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The type of its flow, by a name of the caller's: `single` unless given.
    #[serde(default = "flow_type")]
    pub flow_type: String,
    /// Its intended users.
    #[serde(default)]
    pub visibility: AgentVisibility,
    /// The timeout of one of its runs, unless the request sets one; `None` is no timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_timeout_ms: Option<u64>,
    /// The most steps of one of its runs; `None` is no limit.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "max_steps::deserialize"
    )]
    pub max_steps: Option<u32>,
    /// Further configuration for its executor, as JSON: a model, a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was defined: milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub created_at_ms: u64,
    /// When it was last changed: milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub updated_at_ms: u64,
    /// Fields of a newer build.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub extra: Map<String, Value>,
}

fn flow_type() -> String {
    FLOW_TYPE.to_owned()
}

/// The part of a definition that other agents see: without its prompt, which would fill their contexts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentSummary {
    /// Its name, to spawn it by.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The type of its flow.
    pub flow_type: String,
    /// Its intended users.
    pub visibility: AgentVisibility,
}

impl AgentDefinition {
    /// The names of its fields in JSON.
    pub const NAMES: [&'static str; 12] = [
        "project",
        "name",
        "description",
        "system_prompt",
        "tools",
        "flow_type",
        "visibility",
        "default_timeout_ms",
        "max_steps",
        "metadata",
        "created_at_ms",
        "updated_at_ms",
    ];

    /// An agent of no project, without tools and limits.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            project: None,
            name: name.into(),
            description: description.into(),
            system_prompt: None,
            tools: Vec::new(),
            flow_type: flow_type(),
            visibility: AgentVisibility::default(),
            default_timeout_ms: None,
            max_steps: None,
            metadata: None,
            created_at_ms: 0,
            updated_at_ms: 0,
            extra: Map::new(),
        }
    }

    /// The part that other agents see.
    pub fn to_summary(&self) -> AgentSummary {
        AgentSummary {
            name: self.name.clone(),
            description: self.description.clone(),
            tools: self.tools.clone(),
            flow_type: self.flow_type.clone(),
            visibility: self.visibility,
        }
    }

    /// The definition with new values for some of its fields.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a field that is refused or can't be changed, such as its
    /// name; [`TooLarge`](crate::ErrorKind::TooLarge) for one over its limit.
    pub fn with_updates(&self, updates: &Updates) -> Result<Self> {
        let fixed = ["name", "project", "created_at_ms", "updated_at_ms"];
        let updated = overlay(self, updates, &fixed, "an agent definition", |name| {
            if Self::NAMES.contains(&name) {
                return Ok(());
            }
            Err(Self::unknown(name))
        })?;
        updated.check()?;
        updated.check_known(Some(self))?;
        Ok(updated)
    }

    /// Refuses unknown fields in a caller's definition, such as a misspelt limit. Unknown fields that the previous
    /// definition has come from a newer build, and are kept.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for another field.
    pub fn check_known(&self, before: Option<&Self>) -> Result<()> {
        let is_known = |field: &str| before.is_some_and(|before| before.extra.contains_key(field));
        match self.extra.keys().find(|field| !is_known(field)) {
            None => Ok(()),
            Some(field) => Err(Self::unknown(field)),
        }
    }

    fn unknown(field: &str) -> Error {
        let known: Vec<_> = Self::NAMES[..Self::NAMES.len() - 2]
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        Error::invalid(format!(
            "`{field}` is not a field of an agent definition, and nobody would read it; known are {}. What its executor \
             is to know beside goes into `metadata`",
            known.join(", ")
        ))
    }

    /// Checks what a caller may have put into a definition.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty name, a bound of 0, or unknown fields that couldn't
    /// be read back; [`TooLarge`](crate::ErrorKind::TooLarge) for a field over its limit.
    pub fn check(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::invalid("the agent's name is empty; give one"));
        }
        check_length("the agent's name", Some(&self.name), AGENT_NAME_BYTES_MAX)?;
        let about = |what: &str| format!("the {what} of agent {:?}", self.name);
        check_length(
            &about("project"),
            self.project.as_deref(),
            PROJECT_BYTES_MAX,
        )?;
        check_length(
            &about("description"),
            Some(&self.description),
            AGENT_DESCRIPTION_BYTES_MAX,
        )?;
        check_length(
            &about("system prompt"),
            self.system_prompt.as_deref(),
            AGENT_PROMPT_BYTES_MAX,
        )?;
        check_length(
            &about("flow type"),
            Some(&self.flow_type),
            AGENT_FLOW_TYPE_BYTES_MAX,
        )?;
        check_length(
            &about("metadata"),
            self.metadata.as_ref().map(RawJson::as_str),
            AGENT_METADATA_BYTES_MAX,
        )?;
        if self.tools.len() > AGENT_TOOLS_MAX {
            let count = self.tools.len();
            return Err(Error::too_large(format!(
                "agent {:?} has {count} tools, at most {AGENT_TOOLS_MAX} are allowed",
                self.name
            )));
        }
        for tool in &self.tools {
            check_length(&about("tool name"), Some(tool), TOOL_NAME_BYTES_MAX)?;
        }
        max_steps::check(self.max_steps)?;
        if self.default_timeout_ms == Some(0) {
            return Err(Error::invalid(format!(
                "agent {:?} of at most 0 ms of time can't work; give at least 1, or leave it out",
                self.name
            )));
        }
        extra::check("an agent definition", &self.extra, &Self::NAMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_summary_does_not_tell_the_prompt() {
        let agent = AgentDefinition {
            system_prompt: Some("SECRET".into()),
            ..AgentDefinition::new("coder", "Writes code.")
        };
        let json = serde_json::to_string(&agent.to_summary()).unwrap();
        assert_eq!(
            json,
            r#"{"name":"coder","description":"Writes code.","tools":[],"flow_type":"single","visibility":"project"}"#
        );
    }

    #[test]
    fn updates_change_some_fields_and_keep_the_others() {
        // A field of a newer build stays, and can be changed; another isn't made.
        let extra = Map::from_iter([("colour".to_owned(), Value::from("blue"))]);
        let agent = AgentDefinition {
            max_steps: Some(5),
            extra,
            ..AgentDefinition::new("coder", "Writes code.")
        };
        let updates =
            Updates::parse(r#"{"description":"Writes Rust.","max_steps":null,"colour":"red"}"#)
                .unwrap();
        let updated = agent.with_updates(&updates).unwrap();
        assert_eq!(
            (updated.description.as_str(), updated.max_steps),
            ("Writes Rust.", None)
        );
        assert_eq!(
            (updated.name.as_str(), &updated.extra["colour"]),
            ("coder", &Value::from("red"))
        );
        for refused in [
            r#"{"name":"other"}"#,
            r#"{"max_steps":0}"#,
            r#"{"visibility":"secret"}"#,
            r#"{"max_step":5}"#,
            r#"{"max_step":null}"#,
        ] {
            let error = agent
                .with_updates(&Updates::parse(refused).unwrap())
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{refused}");
        }
    }

    #[test]
    fn a_field_over_its_limit_is_refused() {
        let agent = AgentDefinition::new("coder", "");
        assert_eq!(
            AgentDefinition::new("", "").check().unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        for over in [
            AgentDefinition {
                tools: vec!["t".into(); AGENT_TOOLS_MAX + 1],
                ..agent.clone()
            },
            AgentDefinition {
                tools: vec!["t".repeat(TOOL_NAME_BYTES_MAX + 1)],
                ..agent.clone()
            },
            AgentDefinition {
                system_prompt: Some("x".repeat(AGENT_PROMPT_BYTES_MAX + 1)),
                ..agent.clone()
            },
            AgentDefinition {
                name: "n".repeat(AGENT_NAME_BYTES_MAX + 1),
                ..agent.clone()
            },
        ] {
            assert_eq!(over.check().unwrap_err().kind(), ErrorKind::TooLarge);
        }
        assert!(
            AgentDefinition {
                tools: vec!["t".into(); AGENT_TOOLS_MAX],
                ..agent
            }
            .check()
            .is_ok()
        );
    }
}
