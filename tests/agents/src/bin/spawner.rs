//! A process in which agents spawn agents, to be killed: `spawner FOLDER DEEP WIDE`.
//!
//! Prints `open`, then a line `RUN PART` for each part of an agent's work that is durable, and `end` when all are done.

use std::io::Write;

use runlog::{
    Orchestrator, RunId, Store, StoreOptions,
    agents::{OrchestratorOptions, TokioRuntime},
};
use runlog_agent_tests::tree::{Shape, play};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, deep, wide] = arguments.as_slice() else {
        return Err("spawner FOLDER DEEP WIDE".into());
    };
    let shape = Shape {
        deep: deep.parse()?,
        wide: wide.parse()?,
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    tokio.block_on(async {
        let options = StoreOptions {
            segment_bytes_max: 1 << 20,
            ..StoreOptions::default()
        };
        let store = Store::open_with(folder, options)?;
        say("open");
        let runtime = TokioRuntime::current().ok_or("this is a task of tokio")?;
        let options = OrchestratorOptions {
            concurrent_max: 64,
            ..OrchestratorOptions::default()
        };
        let orchestrator = Orchestrator::new(store.clone(), runtime, options);
        play(&orchestrator, shape, |run: RunId, part| {
            say(&format!("{run} {part}"))
        })
        .await?;
        store.close().await?;
        say("end");
        Ok(())
    })
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more when the parent is gone; whoever kills this listens to the end.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
