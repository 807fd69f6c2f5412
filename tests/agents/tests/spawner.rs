//! A thousand agents, five deep, in a process that is killed again and again: each goes on from the last thing that it
//! recorded, and none is begun twice.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use runlog::{RunStatus, Store, runs::ListRuns};
use runlog_agent_tests::tree::{Found, PARTS, Shape, check};
use runlog_tests::{budget, checker, random::Random};

/// 1,365 agents.
const SHAPE: Shape = Shape { deep: 5, wide: 4 };
/// How often the process is killed on its way.
const KILLS: u64 = 3;

/// Runs the process until it has told of so many parts, and kills it; hears what was on its way. The parts that were
/// told of each run, and whether it came to its end before.
fn run(folder: &Path, parts_max: Option<u64>) -> (BTreeMap<String, usize>, bool) {
    let (deep, wide) = (SHAPE.deep.to_string(), SHAPE.wide.to_string());
    let mut child = Command::new(env!("CARGO_BIN_EXE_spawner"))
        .arg(folder)
        .args([deep, wide])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut told, mut count, mut ended) = (BTreeMap::new(), 0, false);
    while let Some(Ok(line)) = said.next() {
        ended |= line == "end";
        let Some((run, part)) = line.split_once(' ') else {
            continue;
        };
        let before = told.insert(run.to_owned(), part.parse().unwrap());
        assert!(
            before.is_none_or(|before| before < told[run]),
            "a run goes forward"
        );
        count += 1;
        if Some(count) == parts_max {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(
        status.success() || status.code().is_none(),
        "the process failed: {status}"
    );
    (told, ended)
}

/// What was told to be durable is there, whatever came after.
async fn acknowledged_is_there(store: &Store, told: &BTreeMap<String, usize>) {
    for (run, part) in told {
        let run = store
            .runs()
            .get(run.parse().unwrap())
            .await
            .unwrap()
            .unwrap();
        let messages = store
            .context(run.instance_id)
            .await
            .unwrap()
            .get_messages()
            .await
            .unwrap();
        let expected = format!("\"part {part}\"");
        assert!(
            messages
                .iter()
                .any(|message| message.json.as_str().contains(&expected)),
            "{part} of {}",
            run.id
        );
    }
}

async fn killed_and_resumed(random: &mut Random) -> (Found, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (all, mut kills) = ((SHAPE.agents() * PARTS) as u64, 0);
    loop {
        let parts_max = (kills < KILLS).then(|| 1 + random.below(all / (KILLS + 1) * 2));
        let (told, ended) = run(&path, parts_max);
        checker::check(&path).unwrap();
        let store = Store::open_read_only(&path).unwrap();
        acknowledged_is_there(&store, &told).await;
        if ended {
            let found = check(&store, SHAPE).await.unwrap();
            return (found, kills);
        }
        kills += 1;
        let running = ListRuns {
            status: Some(RunStatus::Running),
            limit: 1,
            ..ListRuns::default()
        };
        assert_eq!(
            store.runs().list(&running).await.unwrap().items.len(),
            1,
            "it was killed in the middle"
        );
    }
}

#[test]
fn a_tree_that_is_killed_goes_on_and_no_agent_is_begun_twice() {
    let budget = budget::of("agents that spawn agents, killed");
    let mut random = Random::new(budget.seed());
    let tokio = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    loop {
        let (found, kills) = tokio.block_on(killed_and_resumed(&mut random));
        budget.add("kills", kills);
        budget.add("agents", found.agents as u64);
        budget.add("runs", found.runs as u64);
        budget.add("parts of work", found.parts as u64);
        if !budget.goes_on() {
            break;
        }
    }
}
