//! Sub-agents by the thousand in one call, each recording events durably: time, events per flush, and memory.
//!
//! `spawn [AGENTS [EVENTS]]`, 10,000 and 10 unless given.

use std::{
    error::Error,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use runlog::{
    AgentDefinition, NewMessage, NewRun, NewSession, Orchestrator, RawJson, RunStatus, Store,
    StoreOptions,
    agents::{OrchestratorOptions, RunContext, SpawnRequest, TokioRuntime, executor_fn},
    engine::storage::FsStorage,
    runs::ListRuns,
};
use runlog_benches::counting::CountingStorage;

/// What one event says, about as much as a short answer.
const SAID: &str = "I looked at the file, and the last line is dropped because the loop ends one too early. I'll fix it.";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let agents: usize = arguments
        .next()
        .map_or(Ok(10_000), |number| number.parse())?;
    let events: usize = arguments.next().map_or(Ok(10), |number| number.parse())?;
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    tokio.block_on(measure(agents, events))
}

async fn measure(agents: usize, events: usize) -> Result<(), Box<dyn Error>> {
    let folder = runlog_benches::workload::folder()?;
    let storage = CountingStorage::new(FsStorage::new(folder.path().join("store")));
    let flushes = storage.flushes();
    let store = Store::open_on(Arc::new(storage), StoreOptions::default())?;
    store
        .agents()
        .define(AgentDefinition::new("worker", "Takes notes."))
        .await?;
    let runtime = TokioRuntime::current().ok_or("this is a task of tokio")?;
    let orchestrator = Orchestrator::new(store.clone(), runtime, OrchestratorOptions::default());
    let began = Arc::new(AtomicU64::new(0));
    let (first, start) = (Arc::clone(&began), Instant::now());
    let micros = move || u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    orchestrator.register(
        "worker",
        executor_fn(move |run: RunContext| {
            // Only the first is told.
            let _ = first.compare_exchange(0, micros(), Ordering::Relaxed, Ordering::Relaxed);
            async move {
                let message = NewMessage::new(runlog::Role::Assistant, RawJson::string(SAID));
                for _ in 0..events {
                    run.record_message(message.clone()).await?;
                }
                Ok::<_, runlog::Error>("noted")
            }
        }),
    );
    let parent = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "parent"))
        .await?;
    let (memory_before, flushes_before) = (memory("VmRSS"), flushes.load(Ordering::Relaxed));
    let spawned = Instant::now();
    let spawned_us = micros();
    let requests = (0..agents)
        .map(|index| SpawnRequest::new("worker", format!("Note what is in part {index}.")));
    let results = orchestrator
        .spawn_agents(parent.id(), requests.collect())
        .await?;
    let took = spawned.elapsed();
    let flushed = flushes.load(Ordering::Relaxed) - flushes_before;

    let done = results
        .iter()
        .filter(|result| result.status == RunStatus::Completed)
        .count();
    let listed = ListRuns {
        status: Some(RunStatus::Completed),
        limit: agents + 1,
        ..ListRuns::default()
    };
    let listed = store.runs().list(&listed).await?.items.len();
    if done != agents || listed != agents {
        return Err(
            format!("{done} of {agents} sub-agents are done, and {listed} are listed so").into(),
        );
    }
    for result in results.iter().step_by((agents / 100).max(1)) {
        let run = store
            .runs()
            .get(result.run_id.ok_or("every one has a run")?)
            .await?
            .ok_or("it is there")?;
        let recorded = store.contexts().last_sequence(run.instance_id).await?;
        if recorded != events as u64 + 1 {
            return Err(format!(
                "{recorded} events are in the context of {}, not {}",
                run.id,
                events + 1
            )
            .into());
        }
    }
    let total = (agents * events) as f64;
    let created = (began.load(Ordering::Relaxed).saturating_sub(spawned_us)) as f64 / 1e6;
    println!("{agents} sub-agents in one call, each recording {events} events durably");
    println!(
        "until the first works    {created:>10.3} s      {:>8.1} µs a spawn",
        created * 1e6 / agents as f64
    );
    println!(
        "until all have ended     {:>10.3} s      {:>8.1} µs a spawn",
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / agents as f64
    );
    println!(
        "recorded                 {:>10.0} events/s",
        total / took.as_secs_f64()
    );
    println!(
        "flushed                  {flushed:>10} times  {:>8.1} events a flush",
        total / flushed as f64
    );
    println!(
        "memory                   {:>10.1} MiB at most, {:.1} MiB before",
        memory("VmHWM"),
        memory_before
    );
    store.close().await?;
    Ok(())
}

/// A line of what the kernel says of this process, in MiB; 0 where it says nothing.
fn memory(line: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status
        .lines()
        .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
