//! [`Playback`]: replays the recorded events of a flow. Nothing is executed.

use std::{collections::VecDeque, time::Duration};

use runlog_log::{Direction, Kind, ReadOptions, Sequence};
use runlog_model::{FlowEventKind, RunId, RunSnapshot, RuntimeEvent};

use super::state::state_at;
use crate::{Error, Result, Store, kernel::records::run_stream};
use serde::{Deserialize, Deserializer};

/// How many events are read at a time.
const PAGE_EVENTS: u64 = 256;

/// What to play back, and how fast.
///
/// ```
/// use runlog::flows::{PlaybackOptions, Speed};
///
/// let twice_as_fast = PlaybackOptions { speed: Speed::Multiple(2.0), ..PlaybackOptions::default() };
/// let tools_only = PlaybackOptions { types: vec!["agent:tool".into(), "node:*".into()], ..twice_as_fast };
/// # let _ = tools_only;
/// ```
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlaybackOptions {
    /// The first sequence; 0 and 1 are the first event.
    pub first: u64,
    /// The last sequence, inclusive; `None` is the last there is.
    pub last: Option<u64>,
    /// Only events of these types; a type that ends in `*` stands for all that begin so. Empty is all.
    pub types: Vec<String>,
    /// Only events of these nodes. Empty is all.
    pub nodes: Vec<String>,
    /// Only events of these executions of nodes, or runs: those whose `runId` it is. Empty is all.
    pub runs: Vec<String>,
    /// Whether it goes from the last event to the first.
    pub backward: bool,
    /// The longest silence between two events, in milliseconds before the speed counts: longer ones are cut to it. `None`
    /// lets each be as long as it was.
    pub silence_max_ms: Option<u64>,
    /// How fast. In JSON how many times as fast as it was recorded, 0 for without delays.
    #[serde(deserialize_with = "speed")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub speed: Speed,
}

fn speed<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Speed, D::Error> {
    let times = f64::deserialize(deserializer)?;
    Ok(if times == 0.0 {
        Speed::AtOnce
    } else {
        Speed::Multiple(times)
    })
}

/// How fast a flow is played back.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Speed {
    /// As it was recorded.
    #[default]
    Recorded,
    /// This many times as fast; more than 0.
    Multiple(f64),
    /// Without delays.
    AtOnce,
}

/// An event as it was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedEvent {
    /// Its sequence in the run's stream.
    pub sequence: u64,
    /// Its position in the log.
    pub position: u64,
    /// When it was recorded: milliseconds since 1970-01-01 UTC.
    pub recorded_at_ms: u64,
    /// The event.
    pub event: RuntimeEvent,
}

/// A flow played back: events in order, each with the delay before it. This has no clock: the caller waits, and pauses
/// by not asking for the next event.
///
/// It can [change direction](Self::turn) and [jump](Self::seek) at any time.
#[derive(Clone, Debug)]
pub struct Playback {
    store: Store,
    run: RunId,
    options: PlaybackOptions,
    snapshot: Option<RunSnapshot>,
    next: Option<Sequence>,
    ready: VecDeque<RecordedEvent>,
    /// The time of the previous event.
    before_ms: Option<u64>,
    /// The sequence of the event that was returned last.
    at: Option<u64>,
}

impl Default for PlaybackOptions {
    fn default() -> Self {
        Self {
            first: 1,
            last: None,
            types: Vec::new(),
            nodes: Vec::new(),
            runs: Vec::new(),
            backward: false,
            silence_max_ms: None,
            speed: Speed::Recorded,
        }
    }
}

impl Playback {
    /// Plays a run's flow back. Events that are recorded meanwhile are played too.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run, [`InvalidInput`](crate::ErrorKind::InvalidInput) for a
    /// speed that isn't more than 0, or a type that no event can have.
    pub async fn new(store: &Store, run: RunId, options: PlaybackOptions) -> Result<Self> {
        if let Speed::Multiple(times) = options.speed
            && !(times.is_finite() && times > 0.0)
        {
            return Err(Error::invalid(format!(
                "a flow is played back at more than 0 times its speed, not {times}"
            )));
        }
        for wanted in &options.types {
            RuntimeEvent::check_types(wanted)?;
        }
        if store.backend().stream(run_stream(run)).await?.is_none() {
            return Err(Error::not_found(format!("no run {run}")));
        }
        let last = options.last.map_or(Sequence::MAX, Sequence);
        let snapshot = state_at(store, run, last).await?;
        let next = Some(options.beginning());
        Ok(Self {
            store: store.clone(),
            run,
            options,
            snapshot,
            next,
            ready: VecDeque::new(),
            before_ms: None,
            at: None,
        })
    }

    /// Continues with the event at a sequence, or, if that isn't among the played ones, with the next one in the
    /// direction of play. That event has no delay.
    ///
    /// ```
    /// use runlog::{
    ///     blocking::Store,
    ///     flows::{PlaybackOptions, RuntimeEvent, Speed},
    /// };
    ///
    /// let store = Store::in_memory();
    /// let mut flow = runlog::blocking::FlowRun::create(&store, None)?;
    /// for node in ["a", "b", "c"] {
    ///     flow.record(&RuntimeEvent::parse(format!(r#"{{"type":"node:started","nodeId":"{node}"}}"#))?)?;
    /// }
    /// let options = PlaybackOptions { speed: Speed::AtOnce, ..PlaybackOptions::default() };
    /// let mut playback = runlog::blocking::Playback::new(&store, flow.run_id(), options)?;
    /// playback.seek(3);
    /// assert_eq!(playback.next().unwrap()?.1.sequence, 3);
    /// playback.turn(true);
    /// assert_eq!(playback.next().unwrap()?.1.sequence, 2);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    pub fn seek(&mut self, sequence: u64) {
        let (first, last) = (self.options.first.max(1), self.options.last);
        let is_past = match self.options.backward {
            false => last.is_some_and(|last| sequence > last),
            true => sequence < first,
        } || last.is_some_and(|last| last < first);
        let within = sequence.clamp(first, last.unwrap_or(u64::MAX).max(first));
        self.go_to((!is_past).then_some(Sequence(within)));
        self.at = None;
    }

    /// Sets the direction: the next event is the neighbour, in that direction, of the event that was returned last. If
    /// none was returned yet, it begins at the start of that direction.
    pub fn turn(&mut self, backward: bool) {
        if self.options.backward == backward {
            return;
        }
        self.options.backward = backward;
        let next = match (self.at, backward) {
            (None, _) => Some(self.options.beginning()),
            (Some(at), false) => self
                .options
                .last
                .is_none_or(|last| at < last)
                .then_some(Sequence(at.saturating_add(1))),
            (Some(at), true) => (at > self.options.first.max(1)).then_some(Sequence(at - 1)),
        };
        let before_ms = self.before_ms;
        self.go_to(next);
        self.before_ms = before_ms;
    }

    fn go_to(&mut self, next: Option<Sequence>) {
        self.ready.clear();
        (self.next, self.before_ms) = (next, None);
    }

    /// The latest state of the flow, up to the last sequence of the options: its latest snapshot, with the commands
    /// received since in its inbox. For inspection, not for running.
    pub fn snapshot(&self) -> Option<&RunSnapshot> {
        self.snapshot.as_ref()
    }

    /// The next event, with the delay before it; `None` at the end, and events again once more were recorded.
    ///
    /// # Errors
    /// Those of reading the store; [`Damaged`](crate::ErrorKind::Damaged) for a record that is no event.
    pub async fn next_event(&mut self) -> Result<Option<(Duration, RecordedEvent)>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let delay = self.delay_of(&event);
                self.at = Some(event.sequence);
                return Ok(Some((delay, event)));
            }
            let Some(first) = self.next else {
                return Ok(None);
            };
            let is_end = !self.read_page(first).await?;
            if is_end {
                return Ok(None);
            }
        }
    }

    /// Reads on from a sequence, and returns whether there was anything.
    async fn read_page(&mut self, from: Sequence) -> Result<bool> {
        let (first, last, direction) = match self.options.backward {
            false => {
                let last = self.options.last.map_or(Sequence::MAX, Sequence);
                (from, last, Direction::Forward)
            }
            true => {
                let first = Sequence(self.options.first.max(1));
                (first, from, Direction::Backward)
            }
        };
        let options = ReadOptions {
            first,
            last,
            direction,
            kinds: FlowEventKind::ALL.map(|kind| Kind(kind.byte())).to_vec(),
            limit: PAGE_EVENTS,
        };
        let page = self
            .store
            .backend()
            .read(run_stream(self.run), options)
            .await?;
        let is_backward = self.options.backward;
        let Some(read) = page.records.last().map(|record| record.sequence) else {
            // The end is only where it is now: what is recorded meanwhile is behind it.
            self.next = page.next.or((!is_backward).then_some(from));
            return Ok(page.next.is_some());
        };
        self.next = page.next.or((!is_backward).then(|| read.next()));
        for record in page.records.into_iter().filter(|record| !record.redacted) {
            let event = RuntimeEvent::decode(&record.meta, &record.payload).map_err(|error| {
                let error = error;
                Error::new(
                    error.kind(),
                    format!("run {}, event {}: {error}", self.run, record.sequence),
                )
            })?;
            if self.options.admits(&event) {
                let (sequence, position) = (record.sequence.0, record.position.0);
                self.ready.push_back(RecordedEvent {
                    sequence,
                    position,
                    recorded_at_ms: record.time_ms,
                    event,
                });
            }
        }
        Ok(true)
    }

    fn delay_of(&mut self, event: &RecordedEvent) -> Duration {
        let at = event.event.timestamp.unwrap_or(event.recorded_at_ms);
        // Event times come from the nodes' own clocks, which may differ: never wait because a clock went back.
        let (passed, before) = match (self.before_ms, self.options.backward) {
            (None, _) => (0, at),
            (Some(before), false) => (at.saturating_sub(before), before.max(at)),
            (Some(before), true) => (before.saturating_sub(at), before.min(at)),
        };
        self.before_ms = Some(before);
        let passed = passed.min(self.options.silence_max_ms.unwrap_or(u64::MAX));
        match self.options.speed {
            Speed::Recorded => Duration::from_millis(passed),
            Speed::Multiple(times) => {
                Duration::try_from_secs_f64(passed as f64 / 1000.0 / times).unwrap_or(Duration::MAX)
            }
            Speed::AtOnce => Duration::ZERO,
        }
    }
}

impl PlaybackOptions {
    fn admits(&self, event: &RuntimeEvent) -> bool {
        let event_type = &event.event_type;
        let admits = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => event_type.starts_with(beginning),
            None => wanted == event_type,
        };
        let is_one_of = |wanted: &[String], of: Option<&String>| {
            wanted.is_empty() || of.is_some_and(|of| wanted.contains(of))
        };
        (self.types.is_empty() || self.types.iter().any(admits))
            && is_one_of(&self.nodes, event.node_id.as_ref())
            && is_one_of(&self.runs, event.run_id.as_ref())
    }

    /// Where playing begins.
    fn beginning(&self) -> Sequence {
        match self.backward {
            false => Sequence(self.first),
            true => self.last.map_or(Sequence::MAX, Sequence),
        }
    }
}
