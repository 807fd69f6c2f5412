//! What a run's own stream tells of the sub-agents it spawned, and of the space it shared with them.

use serde::{Deserialize, Serialize};

use crate::{
    RawJson, RunId,
    encoding::{Event, events},
};

/// That a run spawned sub-agents: written in the same batch as what it made. A call that is large, or resumes
/// runs, is told in several records of the same call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpawnRecord {
    /// The tool call that it is.
    pub call_id: String,
    /// How many sub-agents the whole call asked for.
    pub count: u32,
    /// Those that this record tells of.
    pub agents: Vec<SpawnedAgent>,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

/// What became of one request of a spawn.
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

/// The space that a run saw, as it was when the run wrote it down.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpaceRecord {
    /// Keys and values, as [`Space::snapshot`](crate::Space::snapshot) gives them.
    pub space: RawJson,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

events!(SPACE_SAVED => SpaceRecord);

impl Event for SpaceRecord {
    const NAME: &'static str = "the record of a space";
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

        let mut space = Space::new();
        space.set("key", RawJson::string("value"));
        let record = SpaceRecord {
            space: space.snapshot(),
            at_ms: 1_000,
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
