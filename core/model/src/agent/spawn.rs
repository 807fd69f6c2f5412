//! What a run's own stream tells of the sub-agents it spawned, of the space it shared with them, and of the commands it took.

use runlog_log::Label;
use serde::{Deserialize, Serialize};

use crate::{
    EncodedEvent, RawJson, RunId,
    encoding::{Event, events},
};

/// A record that a run spawned sub-agents: written in the same batch as their runs. A call that is large, or resumes
/// runs, is split into several records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpawnRecord {
    /// The id of the tool call that spawned them.
    pub call_id: String,
    /// How many sub-agents the whole call asked for.
    pub count: u32,
    /// The requests in this record.
    pub agents: Vec<SpawnedAgent>,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

/// The result of one request of a spawn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpawnedAgent {
    /// Its index among the requests of the call, from 0.
    pub index: u32,
    /// The agent asked for.
    pub agent_name: String,
    /// The run that was made; `None` where the request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// How long it may work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

events!(SPAWNED => SpawnRecord);

impl Event for SpawnRecord {
    const NAME: &'static str = "the record of a spawn";
}

/// A snapshot of the space that the runs of a tree share, at the time it was recorded by one of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpaceRecord {
    /// The tree: the run at its top or, where that was resumed, the one that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<RunId>,
    /// How many changes had been made. Of two records the one with more of them is newer, whichever was written first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u64,
    /// Keys and values, as [`Space::snapshot`](crate::Space::snapshot) gives them.
    pub space: RawJson,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

events!(SPACE_SAVED => SpaceRecord);

impl Event for SpaceRecord {
    const NAME: &'static str = "the record of a space";
}

impl SpaceRecord {
    /// Encodes it, with the label that [`space_label`] finds it by.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it has no JSON form.
    pub fn encode_labelled(&self) -> crate::Result<EncodedEvent> {
        let labels = self.tree.map(space_label).into_iter().collect();
        Ok(EncodedEvent {
            labels,
            ..self.encode()?
        })
    }
}

/// What the records of the space of a tree are found by.
pub fn space_label(tree: RunId) -> Label {
    Label::of("space", tree.0.as_bytes())
}

/// What a record of a run's stream is found by, for whoever appends it as it stands in another log.
pub fn run_labels(kind: u8, meta: &[u8], payload: &[u8]) -> Vec<Label> {
    if kind != crate::kinds::SPACE_SAVED {
        return Vec::new();
    }
    // One that can't be read is no record of a space.
    let tree = SpaceRecord::decode(kind, meta, payload).ok();
    let tree = tree.and_then(|record| record.tree);
    tree.map(space_label).into_iter().collect()
}

const fn is_zero(version: &u64) -> bool {
    *version == 0
}

/// That a run took commands that waited for it, the oldest first: whoever goes on with it doesn't get them again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TakenRecord {
    /// How many, besides those that were reported before.
    pub count: u32,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

events!(COMMANDS_TAKEN => TakenRecord);

impl Event for TakenRecord {
    const NAME: &'static str = "the record of commands that were taken";
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{ErrorKind, Space};

    #[test]
    fn records_come_back_as_they_were_written() {
        let agent = |index, run_id, error: Option<&str>| SpawnedAgent {
            index,
            agent_name: "coder".into(),
            run_id,
            timeout_ms: Some(5),
            error: error.map(str::to_owned),
        };
        let record = SpawnRecord {
            call_id: "call_1".into(),
            count: 2,
            agents: vec![
                agent(0, Some(RunId(Uuid::from_u128(1))), None),
                agent(1, None, Some("no such agent")),
            ],
            at_ms: 1_000,
        };
        let encoded = record.encode().unwrap();
        assert_eq!(
            SpawnRecord::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap(),
            record
        );
        assert_eq!(
            SpawnRecord::decode(crate::kinds::SPACE_SAVED, &encoded.meta, b"{}")
                .unwrap_err()
                .kind(),
            ErrorKind::UnsupportedVersion
        );

        let record = TakenRecord {
            count: 2,
            at_ms: 1_000,
        };
        let encoded = record.encode().unwrap();
        assert_eq!(&encoded.payload[..], br#"{"count":2,"at_ms":1000}"#);
        assert_eq!(
            TakenRecord::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap(),
            record
        );

        let mut space = Space::new();
        space.set("key", RawJson::string("value"));
        let record = SpaceRecord {
            space: space.snapshot(),
            at_ms: 1_000,
            tree: None,
            version: 0,
        };
        let encoded = record.encode().unwrap();
        assert_eq!(
            &encoded.payload[..],
            br#"{"space":{"key":"value"},"at_ms":1000}"#
        );
        assert_eq!(
            SpaceRecord::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap(),
            record
        );
    }
}
