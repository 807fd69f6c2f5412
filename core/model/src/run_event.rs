//! [`RunEvent`]: what happens to a run, as the records of its own stream; [`RunFold`]: the run they add up to.
//!
//! A record's metadata is the schema version (one byte), its payload is JSON. A new version is written by this
//! build only, and read by it and all later ones: `upcast` brings the JSON of an older version up to date, one
//! version at a time, before it is read as today's type. To change a shape: raise
//! [`RUN_META_VERSION`](crate::codec::RUN_META_VERSION), and add the step from the version before to `upcast`.
//! A field that is merely new needs neither: it gets a default, and older builds keep it without knowing it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Error, ErrorKind, Result, Run, RunId, RunStatus, codec, limits::RUN_TEXT_BYTES_MAX,
    session::check_length,
};

const CREATED: u8 = 32;
const STEP_STARTED: u8 = 33;
const STATUS_CHANGED: u8 = 34;
const RESUMED: u8 = 35;

/// The kind bytes of every [`RunEvent`].
pub const RUN_EVENT_KINDS: [u8; 4] = [CREATED, STEP_STARTED, STATUS_CHANGED, RESUMED];

/// One entry of a run's own stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEvent {
    /// The run was made; the first event. Its step count is where it goes on from.
    Created(Box<Run>),
    /// A step began.
    StepStarted {
        /// Its number, counted over all resumes.
        step_number: u32,
        /// When: milliseconds since 1970-01-01 UTC.
        at_ms: u64,
    },
    /// The run paused, or ended.
    StatusChanged(StatusChange),
    /// Another run goes on from this one, which was paused.
    Resumed {
        /// That run.
        run_id: RunId,
        /// When: milliseconds since 1970-01-01 UTC.
        at_ms: u64,
    },
}

/// What a run became.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatusChange {
    /// What it is now.
    pub status: RunStatus,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// The steps begun until then.
    pub step_count: u32,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Why it paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
}

impl StatusChange {
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

#[derive(Serialize, Deserialize)]
struct StepStarted {
    step_number: u32,
    at_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Resumed {
    run_id: RunId,
    at_ms: u64,
}

/// An event of a run as the parts of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedRunEvent {
    /// Its kind byte.
    pub kind: u8,
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its payload: JSON.
    pub payload: Vec<u8>,
}

impl EncodedRunEvent {
    pub(crate) fn of(kind: u8, value: &impl Serialize) -> Result<Self> {
        let payload = serde_json::to_vec(value).map_err(|source| {
            Error::invalid(format!("a run's event has no JSON form: {source}"))
        })?;
        Ok(Self {
            kind,
            meta: codec::encode_run_meta(),
            payload,
        })
    }
}

impl RunEvent {
    /// The event as the parts of a record.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) when a field is refused.
    pub fn encode(&self) -> Result<EncodedRunEvent> {
        match self {
            Self::Created(run) => {
                run.check()?;
                EncodedRunEvent::of(CREATED, run)
            }
            Self::StepStarted { step_number, at_ms } => EncodedRunEvent::of(
                STEP_STARTED,
                &StepStarted {
                    step_number: *step_number,
                    at_ms: *at_ms,
                },
            ),
            Self::StatusChanged(change) => {
                change.check()?;
                EncodedRunEvent::of(STATUS_CHANGED, change)
            }
            Self::Resumed { run_id, at_ms } => EncodedRunEvent::of(
                RESUMED,
                &Resumed {
                    run_id: *run_id,
                    at_ms: *at_ms,
                },
            ),
        }
    }

    /// Reads an event from the parts of a record, of this version or an older one.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for a kind or a version that this build doesn't
    /// know, [`Damaged`](ErrorKind::Damaged) for a payload of another shape.
    pub fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<Self> {
        let version = codec::decode_run_meta(meta)?;
        match kind {
            CREATED => read(version, kind, payload).map(|run| Self::Created(Box::new(run))),
            STEP_STARTED => read(version, kind, payload)
                .map(|StepStarted { step_number, at_ms }| Self::StepStarted { step_number, at_ms }),
            STATUS_CHANGED => read(version, kind, payload).map(Self::StatusChanged),
            RESUMED => read(version, kind, payload)
                .map(|Resumed { run_id, at_ms }| Self::Resumed { run_id, at_ms }),
            _ => Err(unknown_kind(kind)),
        }
    }
}

pub(crate) fn unknown_kind(kind: u8) -> Error {
    Error::new(
        ErrorKind::UnsupportedVersion,
        format!("a run's event of kind {kind} is not known to this build; use a newer one"),
    )
}

/// Reads JSON written by some version as today's type.
pub(crate) fn read<T: DeserializeOwned>(version: u8, kind: u8, payload: &[u8]) -> Result<T> {
    let damaged = |source| {
        Error::damaged(format!(
            "a run's event of kind {kind} can't be read: {source}"
        ))
    };
    if version == codec::RUN_META_VERSION {
        return serde_json::from_slice(payload).map_err(damaged);
    }
    let value = upcast(
        version,
        kind,
        serde_json::from_slice(payload).map_err(damaged)?,
    )?;
    serde_json::from_value(value).map_err(damaged)
}

/// Brings the JSON of an older version up to date, one version at a time. There is no older one yet.
fn upcast(version: u8, _kind: u8, _value: serde_json::Value) -> Result<serde_json::Value> {
    Err(Error::new(
        ErrorKind::UnsupportedVersion,
        format!(
            "run metadata has version {version}, from which there is no way to {}",
            codec::RUN_META_VERSION
        ),
    ))
}

/// Folds a run's events, given in order, into the run.
///
/// ```
/// use runlog_model::{RunEvent, RunFold, Run, RunStatus, StatusChange};
///
/// # let run: Run = serde_json::from_str(r#"{"id":"0198c7e0-0000-7000-8000-000000000001",
/// #   "session_id":"0198c7e0-0000-7000-8000-000000000002","instance_id":"0198c7e0-0000-7000-8000-000000000003",
/// #   "agent_id":"coder","status":"running","created_at":1000}"#).unwrap();
/// let mut fold = RunFold::new();
/// fold.push(RunEvent::Created(Box::new(run)))?;
/// fold.push(RunEvent::StepStarted { step_number: 1, at_ms: 1_500 })?;
/// assert_eq!(fold.run().unwrap().step_count, 1);
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunFold {
    run: Option<Run>,
    first_step: u32,
}

impl RunFold {
    /// A fold of no events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) when it doesn't follow from those before it.
    pub fn push(&mut self, event: RunEvent) -> Result<()> {
        let Some(run) = &mut self.run else {
            let RunEvent::Created(run) = event else {
                return Err(Error::damaged(
                    "a run's stream should begin with its creation",
                ));
            };
            self.first_step = run.step_count;
            self.run = Some(*run);
            return Ok(());
        };
        match event {
            RunEvent::StepStarted { step_number, .. } => run.step_count = step_number,
            RunEvent::StatusChanged(change) => apply(run, change),
            RunEvent::Resumed { run_id, .. } => run.resumed_by = Some(run_id),
            RunEvent::Created(run) => {
                return Err(Error::damaged(format!(
                    "run {} is there already, but is created once more",
                    run.id
                )));
            }
        }
        Ok(())
    }

    /// The run so far; `None` before its creation.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// The run so far.
    pub fn into_run(self) -> Option<Run> {
        self.run
    }

    /// The steps that were begun before this run, in those it was resumed from.
    pub fn steps_before(&self) -> u32 {
        self.first_step
    }
}

fn apply(run: &mut Run, change: StatusChange) {
    run.status = change.status;
    run.step_count = change.step_count;
    run.summary = change.summary;
    run.error_message = change.error_message;
    run.pause_reason = change.pause_reason;
    let (ended, duration_ms) = times(change.status, run.created_at_ms, change.at_ms);
    run.completed_at_ms = ended;
    run.duration_ms = duration_ms;
}

/// When a run that became this was over, and how long it ran.
pub(crate) fn times(
    status: RunStatus,
    created_at_ms: u64,
    at_ms: u64,
) -> (Option<u64>, Option<u64>) {
    match status {
        RunStatus::Running => (None, None),
        _ => (
            status.is_final().then_some(at_ms),
            Some(at_ms.saturating_sub(created_at_ms)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::{InstanceId, SessionId};

    fn run() -> Run {
        let id = |number| Uuid::from_u128(number);
        Run {
            id: RunId(id(1)),
            project: None,
            session_id: SessionId(id(2)),
            instance_id: InstanceId(id(3)),
            agent_id: "coder".into(),
            status: RunStatus::Running,
            step_count: 45,
            max_steps: Some(50),
            parent_run_id: None,
            resumed_from: None,
            resumed_by: None,
            summary: None,
            error_message: None,
            pause_reason: None,
            node_id: None,
            created_at_ms: 1_000,
            completed_at_ms: None,
            duration_ms: None,
            extra: serde_json::Map::new(),
        }
    }

    fn change(status: RunStatus) -> StatusChange {
        StatusChange {
            status,
            at_ms: 1_250,
            step_count: 46,
            summary: Some("done".into()),
            error_message: None,
            pause_reason: None,
        }
    }

    fn events() -> Vec<RunEvent> {
        vec![
            RunEvent::Created(Box::new(run())),
            RunEvent::StepStarted {
                step_number: 46,
                at_ms: 1_100,
            },
            RunEvent::StatusChanged(change(RunStatus::Paused)),
            RunEvent::Resumed {
                run_id: RunId(Uuid::from_u128(9)),
                at_ms: 2_000,
            },
        ]
    }

    #[test]
    fn events_come_back_as_they_were_written() {
        for (event, kind) in events().into_iter().zip(RUN_EVENT_KINDS) {
            let encoded = event.encode().unwrap();
            assert_eq!((encoded.kind, encoded.meta.as_slice()), (kind, &[1][..]));
            assert_eq!(
                RunEvent::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap(),
                event
            );
        }
    }

    #[test]
    fn a_step_event_is_pinned_byte_for_byte() {
        let encoded = RunEvent::StepStarted {
            step_number: 46,
            at_ms: 1_100,
        }
        .encode()
        .unwrap();
        assert_eq!(encoded.payload, br#"{"step_number":46,"at_ms":1100}"#);
    }

    #[test]
    fn fields_of_a_newer_build_are_kept() {
        let encoded = RunEvent::Created(Box::new(run())).encode().unwrap();
        let text = String::from_utf8(encoded.payload).unwrap().replacen(
            '{',
            r#"{"colour":{"deep":[1]},"#,
            1,
        );
        let event = RunEvent::decode(CREATED, &[1], text.as_bytes()).unwrap();
        let again = String::from_utf8(event.encode().unwrap().payload).unwrap();
        assert!(again.contains(r#""colour":{"deep":[1]}"#), "{again}");
    }

    #[test]
    fn a_fold_of_events_is_the_run() {
        let mut fold = RunFold::new();
        for event in events() {
            fold.push(event).unwrap();
        }
        assert_eq!(fold.steps_before(), 45);
        let run = fold.into_run().unwrap();
        assert_eq!(
            (run.status, run.step_count, run.duration_ms),
            (RunStatus::Paused, 46, Some(250))
        );
        assert_eq!(
            (run.completed_at_ms, run.resumed_by),
            (None, Some(RunId(Uuid::from_u128(9))))
        );

        let mut fold = RunFold::new();
        fold.push(RunEvent::Created(Box::new(self::run()))).unwrap();
        fold.push(RunEvent::StatusChanged(change(RunStatus::Completed)))
            .unwrap();
        assert_eq!(fold.run().unwrap().completed_at_ms, Some(1_250));
        assert_eq!(
            fold.push(RunEvent::Created(Box::new(self::run())))
                .unwrap_err()
                .kind(),
            ErrorKind::Damaged
        );
    }

    #[test]
    fn a_stream_that_does_not_begin_with_the_run_is_damage() {
        let error = RunFold::new()
            .push(RunEvent::StepStarted {
                step_number: 1,
                at_ms: 0,
            })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }

    #[test]
    fn an_unknown_kind_or_version_is_refused_by_name() {
        for (kind, meta) in [(60, &[1][..]), (STEP_STARTED, &[2]), (STEP_STARTED, &[0])] {
            let error = RunEvent::decode(kind, meta, b"{}").unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::UnsupportedVersion,
                "{kind} {meta:?}"
            );
        }
        for meta in [&[][..], &[1, 1]] {
            assert_eq!(
                RunEvent::decode(STEP_STARTED, meta, b"{}")
                    .unwrap_err()
                    .kind(),
                ErrorKind::Damaged
            );
        }
        assert_eq!(
            RunEvent::decode(STEP_STARTED, &[1], b"[]")
                .unwrap_err()
                .kind(),
            ErrorKind::Damaged
        );
    }

    #[test]
    fn a_text_over_its_limit_is_refused() {
        let long = StatusChange {
            summary: Some("x".repeat(RUN_TEXT_BYTES_MAX + 1)),
            ..change(RunStatus::Failed)
        };
        assert_eq!(
            RunEvent::StatusChanged(long).encode().unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        let nameless = Run {
            agent_id: String::new(),
            ..run()
        };
        assert_eq!(
            RunEvent::Created(Box::new(nameless))
                .encode()
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
    }

    proptest! {
        #[test]
        fn hostile_payloads_never_panic(kind in 32_u8..48, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = RunEvent::decode(kind, &[1], &bytes);
        }
    }
}
