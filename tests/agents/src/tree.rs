//! A tree of agents that spawn agents, each of which does the same work whatever cuts it off: what it has done it reads
//! from its context. For processes that are killed in the middle of it, and for those who look at what they left.

use std::collections::{BTreeMap, BTreeSet};

use runlog::{
    AgentDefinition, InstanceId, Message, NewMessage, Orchestrator, Role, RunId, RunStatus, Store,
    agents::{AgentEnd, RunContext, SPAWN_AGENTS, SpawnRequest, StartAgent, executor_fn},
    runs::{ListRuns, RunSummary},
    sessions::ListSessions,
};

/// The name of the agent that every node is.
pub const NODE: &str = "node";
/// The parts of each agent's work, a step and a message each.
pub const PARTS: usize = 6;
/// After which part an agent spawns those below it.
const SPAWNS_AFTER: usize = 2;

/// How large the tree is: each agent spawns `wide` others, down to `deep` below the root.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many levels there are below the root.
    pub deep: u32,
    /// How many each spawns.
    pub wide: usize,
}

impl Shape {
    /// How many agents there are, the root included.
    pub fn agents(self) -> usize {
        (0..=self.deep).map(|depth| self.wide.pow(depth)).sum()
    }
}

/// Plays the tree to its end, or goes on where a process before was killed. `done` is told of each part that is durable.
///
/// # Errors
/// Those of the store, and what keeps a run from being resumed.
pub async fn play(
    orchestrator: &Orchestrator,
    shape: Shape,
    done: impl Fn(RunId, usize) + Clone + Send + Sync + 'static,
) -> runlog::Result<()> {
    let store = orchestrator.store().clone();
    store
        .agents()
        .put(AgentDefinition::new(
            NODE,
            "Does its parts, and has others do theirs.",
        ))
        .await?;
    orchestrator.register(
        NODE,
        executor_fn(move |run: RunContext| {
            let done = done.clone();
            async move { work(run, shape, done).await }
        }),
    );
    let runs = runs(&store).await?;
    if runs.is_empty() {
        let result = orchestrator
            .start(StartAgent::new(NODE, "Everything."))
            .await?
            .wait()
            .await?;
        assert_eq!(result.status, RunStatus::Completed, "{result:?}");
        return Ok(());
    }
    let report = orchestrator.resume_all().await?;
    match report.left.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

async fn work(
    run: RunContext,
    shape: Shape,
    done: impl Fn(RunId, usize),
) -> runlog::Result<AgentEnd> {
    let context = run.messages().await?;
    let first = parts_of(&context).len() + 1;
    let mut has_spawned = context.iter().any(spawns);
    for part in first..=PARTS {
        if part > SPAWNS_AFTER && !has_spawned && run.depth() < shape.deep {
            has_spawned = true;
            let requests = (0..shape.wide)
                .map(|index| SpawnRequest::new(NODE, format!("Part {index}.")))
                .collect();
            let results = run.spawn_agents(requests).await?;
            assert!(
                results
                    .iter()
                    .all(|result| result.status == RunStatus::Completed),
                "{results:?}"
            );
        }
        run.next_step().await?;
        run.record_message(NewMessage::assistant(format!("part {part}")))
            .await?;
        done(run.run_id(), part);
    }
    Ok(AgentEnd::completed("all parts"))
}

/// The parts that a context tells of.
fn parts_of(context: &[Message]) -> Vec<String> {
    let said = context
        .iter()
        .filter(|message| message.role == Role::Assistant && !spawns(message));
    said.map(|message| message.json.to_string()).collect()
}

fn spawns(message: &Message) -> bool {
    message.role == Role::Assistant && message.json.as_str().contains(SPAWN_AGENTS)
}

async fn runs(store: &Store) -> runlog::Result<Vec<RunSummary>> {
    Ok(store
        .runs()
        .list(&ListRuns {
            limit: usize::MAX,
            ..ListRuns::default()
        })
        .await?
        .items)
}

/// What a check found.
#[derive(Clone, Copy, Default, Debug)]
pub struct Found {
    /// The agents of the tree.
    pub agents: usize,
    /// The runs, those that a kill cut off included.
    pub runs: usize,
    /// The parts.
    pub parts: usize,
}

/// Checks a tree that has come to its end: every agent there once, every part done once, every run but the last of each
/// agent cut off and resumed once.
///
/// # Errors
/// Those of the store; what is wrong with the tree is a panic.
pub async fn check(store: &Store, shape: Shape) -> runlog::Result<Found> {
    let runs = runs(store).await?;
    let mut by_instance: BTreeMap<InstanceId, Vec<&RunSummary>> = BTreeMap::new();
    for run in runs.iter().rev() {
        by_instance.entry(run.instance_id).or_default().push(run);
    }
    let mut instances = BTreeSet::new();
    for session in store
        .list_sessions(&ListSessions {
            limit: usize::MAX,
            ..ListSessions::default()
        })
        .await?
        .items
    {
        instances.extend(
            store
                .instances(session.id)
                .await?
                .into_iter()
                .map(|instance| instance.id),
        );
    }
    assert_eq!(instances.len(), shape.agents(), "every agent was made once");
    assert_eq!(
        by_instance.keys().copied().collect::<BTreeSet<_>>(),
        instances
    );
    for (instance, runs) in &by_instance {
        check_agent(store, *instance, runs).await?;
    }
    Ok(Found {
        agents: instances.len(),
        runs: runs.len(),
        parts: instances.len() * PARTS,
    })
}

async fn check_agent(
    store: &Store,
    instance: InstanceId,
    runs: &[&RunSummary],
) -> runlog::Result<()> {
    let context = store.context(instance).await?.get_messages().await?;
    let expected: Vec<String> = (1..=PARTS)
        .map(|part| format!("{{\"role\":\"assistant\",\"content\":\"part {part}\"}}"))
        .collect();
    assert_eq!(
        parts_of(&context),
        expected,
        "every part once and in order, in {instance}"
    );
    let calls = context.iter().filter(|message| spawns(message)).count();
    let results = context
        .iter()
        .filter(|message| message.role == Role::Tool)
        .count();
    assert!(
        calls == results && calls <= 1,
        "{calls} spawns with {results} results in {instance}"
    );
    assert!(
        store
            .context(instance)
            .await?
            .dangling_tool_calls()
            .await?
            .is_empty()
    );
    for (run, next) in runs.iter().zip(runs.iter().skip(1)) {
        assert_eq!(
            (run.status, next.resumed_from),
            (RunStatus::Paused, Some(run.id)),
            "one goes on from another"
        );
        let whole = store
            .runs()
            .get(run.id)
            .await?
            .unwrap_or_else(|| panic!("run {} is listed", run.id));
        assert_eq!(whole.resumed_by, Some(next.id));
    }
    let last = runs
        .last()
        .unwrap_or_else(|| panic!("{instance} has a run"));
    assert_eq!(
        (last.status, last.step_count as usize),
        (RunStatus::Completed, PARTS),
        "{last:?}"
    );
    Ok(())
}
