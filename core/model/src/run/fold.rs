//! [`RunFold`]: folds a run's events into the run.

use super::{Run, RunEvent, RunStatus, RunWords, StatusChange};
use crate::{Error, Result};

/// Folds a run's events, given in order, into the run.
///
/// ```
/// use runlog_model::{RunEvent, RunFold, Run, RunStatus, StatusChange};
///
/// # let run: Run = serde_json::from_str(r#"{"id":"0198c7e0-0000-7000-8000-000000000001",
/// #   "session_id":"0198c7e0-0000-7000-8000-000000000002","instance_id":"0198c7e0-0000-7000-8000-000000000003",
/// #   "agent_name":"coder","status":"running","created_at":1000}"#).unwrap();
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
    /// [`Damaged`](crate::ErrorKind::Damaged) when it doesn't follow from those before it.
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
            RunEvent::Described(description) => {
                run.usage = description.usage;
                run.metadata = description.metadata;
            }
            RunEvent::Explained(words) => explain(run, words),
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

    /// The steps that were begun before this run, in those it was resumed from.
    pub fn steps_before(&self) -> u32 {
        self.first_step
    }
}

fn apply(run: &mut Run, change: StatusChange) {
    // One that is cancelled while it is paused has not worked since.
    let ran_until_ms = match (run.status, run.duration_ms) {
        (RunStatus::Paused, Some(duration_ms)) => run.created_at_ms.saturating_add(duration_ms),
        _ => change.at_ms,
    };
    run.status = change.status;
    run.step_count = change.step_count;
    explain(run, change.words);
    run.stop_kind = change.stop_kind;
    let (ended, duration_ms) = times(change.status, run.created_at_ms, change.at_ms, ran_until_ms);
    run.completed_at_ms = ended;
    run.duration_ms = duration_ms;
}

fn explain(run: &mut Run, words: RunWords) {
    run.summary = words.summary;
    run.error_message = words.error_message;
    run.pause_reason = words.pause_reason;
}

/// The end time and the duration of a run with this status, which it got at `at_ms` and had worked until `ran_until_ms`.
pub(crate) fn times(
    status: RunStatus,
    created_at_ms: u64,
    at_ms: u64,
    ran_until_ms: u64,
) -> (Option<u64>, Option<u64>) {
    match status {
        RunStatus::Running => (None, None),
        _ => (
            status.is_final().then_some(at_ms),
            Some(ran_until_ms.saturating_sub(created_at_ms)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::{
        ErrorKind, InstanceId, RunId, SessionId,
        kinds::{RUN_CREATED, RUN_STEP_STARTED},
        limits::RUN_TEXT_BYTES_MAX,
    };

    fn run() -> Run {
        let id = |number| Uuid::from_u128(number);
        Run {
            id: RunId(id(1)),
            project: None,
            session_id: SessionId(id(2)),
            instance_id: InstanceId(id(3)),
            agent_name: "coder".into(),
            status: RunStatus::Running,
            step_count: 45,
            max_steps: Some(50),
            parent_run_id: None,
            resumed_from: None,
            resumed_by: None,
            summary: None,
            error_message: None,
            pause_reason: None,
            stop_kind: None,
            node_id: None,
            usage: None,
            metadata: None,
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
            words: RunWords {
                summary: Some("done".into()),
                ..RunWords::default()
            },
            stop_kind: None,
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
        for (event, kind) in events().into_iter().zip(RunEvent::KINDS) {
            let encoded = event.encode().unwrap();
            assert_eq!((encoded.kind, encoded.meta.as_slice()), (*kind, &[1][..]));
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
        assert_eq!(&encoded.payload[..], br#"{"step_number":46,"at_ms":1100}"#);
    }

    #[test]
    fn fields_of_a_newer_build_are_kept() {
        let encoded = RunEvent::Created(Box::new(run())).encode().unwrap();
        let text = String::from_utf8(encoded.payload.into()).unwrap().replacen(
            '{',
            r#"{"colour":{"deep":[1]},"#,
            1,
        );
        let event = RunEvent::decode(RUN_CREATED, &[1], text.as_bytes()).unwrap();
        let again = String::from_utf8(event.encode().unwrap().payload.into()).unwrap();
        assert!(again.contains(r#""colour":{"deep":[1]}"#), "{again}");
    }

    #[test]
    fn a_fold_of_events_is_the_run() {
        let mut fold = RunFold::new();
        for event in events() {
            fold.push(event).unwrap();
        }
        assert_eq!(fold.steps_before(), 45);
        let run = fold.run().unwrap();
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
        for (kind, meta) in [
            (60, &[1][..]),
            (RUN_STEP_STARTED, &[2]),
            (RUN_STEP_STARTED, &[0]),
        ] {
            let error = RunEvent::decode(kind, meta, b"{}").unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::UnsupportedVersion,
                "{kind} {meta:?}"
            );
        }
        for meta in [&[][..], &[1, 1]] {
            assert_eq!(
                RunEvent::decode(RUN_STEP_STARTED, meta, b"{}")
                    .unwrap_err()
                    .kind(),
                ErrorKind::Damaged
            );
        }
        assert_eq!(
            RunEvent::decode(RUN_STEP_STARTED, &[1], b"[]")
                .unwrap_err()
                .kind(),
            ErrorKind::Damaged
        );
    }

    #[test]
    fn a_text_over_its_limit_is_refused() {
        let long = StatusChange {
            words: RunWords {
                summary: Some("x".repeat(RUN_TEXT_BYTES_MAX + 1)),
                ..RunWords::default()
            },
            ..change(RunStatus::Failed)
        };
        assert_eq!(
            RunEvent::StatusChanged(long).encode().unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        let nameless = Run {
            agent_name: String::new(),
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
