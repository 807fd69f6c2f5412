//! [`RunEvent`]: the events of a run, as the records of its own stream.

use serde::{Deserialize, Serialize};

use super::{Run, RunDetails, RunStatus, StopKind};
use crate::{
    EncodedEvent, RawJson, Result, RunId,
    check::check_length,
    encoding::{Event, events},
    limits::RUN_TEXT_BYTES_MAX,
};

events! {
    /// One entry of a run's own stream.
    pub enum RunEvent {
        /// The run was made; the first event. Its step count is that of the run it resumes.
        RUN_CREATED => Created(run: Box<Run>),
        /// A step began.
        RUN_STEP_STARTED => StepStarted {
            /// Its number, counted over all resumes.
            step_number: u32,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
        },
        /// The run paused, or ended.
        RUN_STATUS_CHANGED => StatusChanged(change: StatusChange),
        /// Another run resumes this one, which was paused.
        RUN_RESUMED => Resumed {
            /// That run.
            run_id: RunId,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
        },
        /// Details of it were recorded; the record contains earlier details too, unless they were overwritten.
        RUN_DESCRIBED => Described(description: RunDescription),
        /// How it paused or ended, in words: right behind the change of its status. They may repeat what was said in the run; in a record of
        /// their own they can be erased like that.
        RUN_EXPLAINED => Explained(words: RunWords),
    }
}

impl Event for RunEvent {
    const NAME: &'static str = "a run's event";

    fn check(&self) -> Result<()> {
        match self {
            Self::Created(run) => run.check(),
            Self::StatusChanged(change) => change.check(),
            Self::Described(description) => description.details().check(),
            Self::Explained(words) => words.check(),
            Self::StepStarted { .. } | Self::Resumed { .. } => Ok(()),
        }
    }
}

/// A change of a run's status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatusChange {
    /// The new status.
    pub status: RunStatus,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// The steps begun until then.
    pub step_count: u32,
    /// How it paused or ended, in words.
    #[serde(flatten)]
    pub words: RunWords,
    /// What stopped it, where it didn't end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_kind: Option<StopKind>,
}

impl StatusChange {
    /// The records of the change: its words stand in a record of their own.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a text over its limit.
    pub fn encode_all(mut self) -> Result<Vec<EncodedEvent>> {
        let words = std::mem::take(&mut self.words);
        let mut records = vec![RunEvent::StatusChanged(self).encode()?];
        if words != RunWords::default() {
            records.push(RunEvent::Explained(words).encode()?);
        }
        Ok(records)
    }

    fn check(&self) -> Result<()> {
        self.words.check()
    }
}

/// How a run paused or ended, in words.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RunWords {
    /// Its summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Why it paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
}

impl RunWords {
    fn check(&self) -> Result<()> {
        for (what, text) in [
            ("the run's summary", &self.summary),
            ("the run's error message", &self.error_message),
            ("the run's pause reason", &self.pause_reason),
        ] {
            check_length(what, text.as_deref(), RUN_TEXT_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// All recorded details of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RunDescription {
    /// What it took, such as tokens and their cost: a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<RawJson>,
    /// Anything else, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

impl RunDescription {
    /// These details, recorded at that time.
    pub fn new(details: RunDetails, at_ms: u64) -> Self {
        Self {
            usage: details.usage,
            metadata: details.metadata,
            at_ms,
        }
    }

    fn details(&self) -> RunDetails {
        RunDetails {
            usage: self.usage.clone(),
            metadata: self.metadata.clone(),
        }
    }
}
