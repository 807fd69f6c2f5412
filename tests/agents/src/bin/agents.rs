//! A process in which agents play their scripts, to be killed: `agents FOLDER TASKS THREADS`.
//!
//! Prints `open`, then a line for what is acknowledged, and `end` when every task is done.

use std::io::Write;

use runlog::{StoreOptions, blocking::Store};
use runlog_agent_tests::agents::{tasks::Task, work::Agent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, tasks, threads] = arguments.as_slice() else {
        return Err("agents FOLDER TASKS THREADS".into());
    };
    let (tasks, threads): (u64, usize) = (tasks.parse()?, threads.parse()?);
    let store = Store::open_with(
        folder,
        StoreOptions {
            segment_bytes_max: 1 << 20,
            ..StoreOptions::default()
        },
    )?;
    println!("open");
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        // Nobody listens any more when the parent is gone; whoever kills this listens to the end.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    };
    let agent = Agent::new(&store, &say);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let agent = &agent;
                scope.spawn(move || {
                    (0..tasks)
                        .skip(thread)
                        .step_by(threads)
                        .try_for_each(|number| agent.play(&Task::new(number)))
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| "an agent panicked".into())
                .and_then(|played| played.map_err(Box::<dyn std::error::Error>::from))
        })
    })?;
    say("end".to_owned());
    Ok(())
}
