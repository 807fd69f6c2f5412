//! [`Facts`]: what a log says, read record by record in the order it was written, without the folds of the store.

use std::collections::BTreeMap;

use runlog::{
    InstanceId, Run, RunId,
    agents::SpawnResult,
    contexts::ContextEvent,
    engine::{Kind, Position, Record, Store},
    runs::RUNS_STREAM,
};
use runlog_model::{RunCatalogEvent, RunEvent, SpawnRecord, StatusChange, kinds::SPAWNED};
use uuid::Uuid;

/// What the log says.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) runs: BTreeMap<RunId, RunFacts>,
    pub(super) contexts: BTreeMap<InstanceId, Vec<ContextEvent>>,
    pub(super) last_position: u64,
    /// Changes when any byte of the log does.
    pub(super) digest: u32,
    /// The runs catalog, by run: every change of status, the creation first.
    pub(super) listed: BTreeMap<RunId, Vec<(u64, String)>>,
}

/// What the log says of one run.
pub(super) struct RunFacts {
    pub(super) created: u64,
    /// As it was made.
    pub(super) run: Run,
    pub(super) changes: Vec<(u64, StatusChange)>,
    pub(super) resumed: Vec<(u64, RunId)>,
    pub(super) steps: Vec<(u64, u32)>,
    pub(super) spawns: Vec<(u64, SpawnRecord)>,
    /// Every record of its stream, with its kind.
    pub(super) records: Vec<(u64, u8)>,
}

/// The results of a tool call, as a context has them.
pub(super) struct RecordedResults {
    pub(super) position: u64,
    pub(super) call_id: String,
    pub(super) text: String,
}

impl Facts {
    pub(super) fn read(engine: &Store) -> Result<Self, String> {
        let mut facts = Self::default();
        for record in engine
            .scan(Position(1))
            .map_err(|error| error.to_string())?
        {
            let record = record.map_err(|error| format!("scan: {error}"))?;
            facts
                .take(&record)
                .map_err(|error| format!("position {}: {error}", record.position))?;
        }
        Ok(facts)
    }

    fn take(&mut self, record: &Record) -> Result<(), String> {
        let (position, kind) = (record.position.0, record.kind.0);
        self.last_position = position;
        let mut hasher = crc32fast::Hasher::new_with_initial(self.digest);
        hasher.update(record.stream.as_bytes());
        hasher.update(&record.sequence.0.to_le_bytes());
        hasher.update(&record.time_ms.to_le_bytes());
        hasher.update(&[kind]);
        hasher.update(&record.meta);
        hasher.update(&record.payload);
        self.digest = hasher.finalize();
        if record.stream == RUNS_STREAM {
            return self.take_listed(record);
        }
        let id = Uuid::from_bytes(*record.stream.as_bytes());
        match kind {
            1..16 => self.take_context(InstanceId(id), record),
            32..40 => self.take_run(RunId(id), record),
            SPAWNED => {
                let spawn =
                    SpawnRecord::decode(kind, &record.meta, &record.payload).map_err(told)?;
                self.run_of(RunId(id), position, kind)?
                    .spawns
                    .push((position, spawn));
                Ok(())
            }
            49..64 | 96..112 => self.run_of(RunId(id), position, kind).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn take_listed(&mut self, record: &Record) -> Result<(), String> {
        if record.kind >= Kind(128) {
            return Ok(());
        }
        let event =
            RunCatalogEvent::decode(record.kind.0, &record.meta, &record.payload).map_err(told)?;
        let (id, what) = match event {
            RunCatalogEvent::Created(run) => (run.id, format!("running {}", run.step_count)),
            RunCatalogEvent::StatusChanged {
                id,
                status,
                step_count,
                ..
            } => (id, format!("{status} {step_count}")),
            RunCatalogEvent::Described { .. } => return Ok(()),
        };
        self.listed
            .entry(id)
            .or_default()
            .push((record.position.0, what));
        Ok(())
    }

    fn take_context(&mut self, id: InstanceId, record: &Record) -> Result<(), String> {
        let event = ContextEvent::decode(id, record).map_err(told)?;
        self.contexts.entry(id).or_default().push(event);
        Ok(())
    }

    fn run_of(&mut self, id: RunId, position: u64, kind: u8) -> Result<&mut RunFacts, String> {
        let run = self
            .runs
            .get_mut(&id)
            .ok_or_else(|| format!("run {id} has a record before it was made"))?;
        run.records.push((position, kind));
        Ok(run)
    }

    fn take_run(&mut self, id: RunId, record: &Record) -> Result<(), String> {
        let (position, kind) = (record.position.0, record.kind.0);
        let event = RunEvent::decode(kind, &record.meta, &record.payload).map_err(told)?;
        if let RunEvent::Created(run) = event {
            let made = RunFacts {
                created: position,
                run: *run,
                changes: Vec::new(),
                resumed: Vec::new(),
                steps: Vec::new(),
                spawns: Vec::new(),
                records: vec![(position, kind)],
            };
            let is_new = made.run.id == id && self.runs.insert(id, made).is_none();
            return if is_new {
                Ok(())
            } else {
                Err(format!("run {id} is made twice"))
            };
        }
        let run = self.run_of(id, position, kind)?;
        match event {
            RunEvent::StepStarted { step_number, .. } => run.steps.push((position, step_number)),
            RunEvent::StatusChanged(change) => run.changes.push((position, change)),
            RunEvent::Explained(words) => match run.changes.last_mut() {
                Some((_, change)) => change.words = words,
                None => return Err(format!("run {id} is explained before its status changed")),
            },
            RunEvent::Resumed { run_id, .. } => run.resumed.push((position, run_id)),
            RunEvent::Created(_) | RunEvent::Described(_) => {}
        }
        Ok(())
    }

    /// The run and those it goes on from, the newest first.
    pub(super) fn line(&self, id: RunId) -> Vec<RunId> {
        let mut line = vec![id];
        while let Some(before) = line
            .last()
            .and_then(|id| self.runs.get(id))
            .and_then(|run| run.run.resumed_from)
        {
            line.push(before);
        }
        line
    }

    /// What happened, a line each, for whoever looks for what went wrong.
    pub(super) fn story(&self) -> String {
        let short = |id: RunId| id.to_string().split_off(24);
        let mut lines = Vec::new();
        for (id, run) in &self.runs {
            let of = (
                run.run.parent_run_id.map(short),
                run.run.resumed_from.map(short),
            );
            let agent = &run.run.agent_name;
            let mut tell =
                |at: u64, what: String| lines.push((at, format!("{at:>5} {} {what}", short(*id))));
            tell(
                run.created,
                format!(
                    "{agent}: parent {:?}, from {:?}, step {}",
                    of.0, of.1, run.run.step_count
                ),
            );
            run.steps
                .iter()
                .for_each(|(at, step)| tell(*at, format!("step {step}")));
            run.changes
                .iter()
                .for_each(|(at, change)| tell(*at, format!("{change:?}")));
            run.resumed
                .iter()
                .for_each(|(at, by)| tell(*at, format!("resumed by {}", short(*by))));
            run.spawns.iter().for_each(|(at, record)| {
                let agents = record
                    .agents
                    .iter()
                    .map(|agent| (agent.index, agent.run_id.map(short)));
                tell(
                    *at,
                    format!(
                        "{} spawns of {}: {:?}",
                        record.call_id,
                        record.count,
                        agents.collect::<Vec<_>>()
                    ),
                );
            });
        }
        for event in self.contexts.values().flatten() {
            let (at, run) = (event.position, event.run_id.map(short).unwrap_or_default());
            lines.push((
                at,
                format!("{at:>5} {run} {} {}", event.event_type, event.content),
            ));
        }
        lines.sort();
        lines.into_iter().map(|(_, line)| line + "\n").collect()
    }

    /// Every result of a tool call of a context.
    pub(super) fn results(&self, instance: InstanceId) -> Vec<RecordedResults> {
        let events = self
            .contexts
            .get(&instance)
            .map(Vec::as_slice)
            .unwrap_or_default();
        events.iter().flat_map(results_of).collect()
    }
}

/// The results in one message, in either provider's form.
fn results_of(event: &ContextEvent) -> Vec<RecordedResults> {
    if event.event_type != runlog::contexts::ContextEventKind::ToolResult {
        return Vec::new();
    }
    let Ok(message) = serde_json::from_slice::<serde_json::Value>(event.content.as_bytes()) else {
        return Vec::new();
    };
    let one = |id: &serde_json::Value, content: &serde_json::Value| RecordedResults {
        position: event.position,
        call_id: id.as_str().unwrap_or_default().to_owned(),
        text: content.as_str().unwrap_or_default().to_owned(),
    };
    match message["content"].as_array() {
        Some(parts) => parts
            .iter()
            .map(|part| one(&part["tool_use_id"], &part["content"]))
            .collect(),
        None => vec![one(&message["tool_call_id"], &message["content"])],
    }
}

impl RecordedResults {
    /// Those of a spawn, where it is one.
    pub(super) fn of_a_spawn(&self) -> Option<Vec<SpawnResult>> {
        serde_json::from_str(&self.text).ok()
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
