//! Two hundred runs of agents and their helpers, recorded by a process that is killed again and again: each is resumed,
//! and ends as if nothing had happened.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use runlog::{blocking::Store, engine};
use runlog_agent_tests::agents::{
    check::{Acknowledged, Extent, Found, check},
    seen::{Seen, TOLD},
    tasks::{Line, Task},
    work::{Agent, ROOT, helper_name, session_name},
};
use runlog_tests::{
    budget::{self, Budget},
    checker,
    random::Random,
};

const THREADS: u64 = 8;

fn agents(folder: &Path, tasks: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_agents"))
        .args([
            folder.as_os_str().to_owned(),
            tasks.to_string().into(),
            THREADS.to_string().into(),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Listens to the agents until they have said so many lines, then kills them, and hears what was on its way. Says
/// whether they came to the end before.
fn kill_after(mut child: Child, lines: u64, acknowledged: &mut Acknowledged) -> bool {
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ended = false;
    for count in 0.. {
        if count == lines {
            child.kill().unwrap();
        }
        let Some(Ok(line)) = said.next() else { break };
        ended |= line == "end";
        acknowledged.take(&line);
    }
    let status = child.wait().unwrap();
    assert!(
        status.success() || status.code().is_none(),
        "the agents failed: {status}"
    );
    assert_eq!(status.success(), ended);
    ended
}

/// The checker finds nothing wrong with the files, nor does the engine; contexts are the same to both.
fn check_files(folder: &Path, extent: Extent) {
    let checked = checker::check(folder).unwrap();
    let storage = engine::storage::FsStorage::new(folder);
    let verification = engine::verify(&storage).unwrap();
    assert!(verification.is_sound(), "{:?}", verification.problems);
    let store = Store::open_read_only(folder).unwrap();
    let streams: BTreeMap<_, _> = checked.streams().into_iter().collect();
    let options = runlog::sessions::ListSessions {
        limit: usize::MAX,
        ..runlog::sessions::ListSessions::default()
    };
    for session in store.list_sessions(&options).unwrap().items {
        for instance in store.instances(session.id).unwrap() {
            let events = store.contexts().get_events(instance.id, 1).unwrap();
            let records = &streams[instance.id.as_uuid().as_bytes()];
            // What was written when the process was killed may not have been published yet.
            assert!(
                events.len() == records.len()
                    || extent == Extent::Begun && events.len() < records.len()
            );
            for (event, (sequence, position, kind, _, payload)) in events.iter().zip(records) {
                assert_eq!(
                    (
                        event.sequence_number,
                        event.position,
                        event.event_type.byte(),
                        event.content.as_bytes()
                    ),
                    (*sequence, *position, *kind, &payload[..])
                );
            }
        }
    }
}

/// Each context without what only a kill brings about: what resumes said. Results that say that their call was cut off
/// are left out on both sides.
fn same_as(store: &Store, unkilled: &Store, tasks: &[Task]) {
    for task in tasks {
        let agents =
            std::iter::once(ROOT.to_owned()).chain((0..task.helpers.len()).map(helper_name));
        for (task, agent) in task.all().zip(agents) {
            let root = task.name.split('.').next().unwrap();
            let events = |store: &Store| {
                let session = store.find_session(&format!("task {root}")).unwrap();
                let instances = store.instances(session.id).unwrap();
                let instance = instances
                    .iter()
                    .find(|instance| instance.agent_name == agent)
                    .unwrap();
                store.contexts().get_events(instance.id, 1).unwrap()
            };
            let (killed, expected) = (events(store), events(unkilled));
            let cut_off = Seen::of(task, &killed).unwrap().cut_off;
            let kept = |events: &[runlog::contexts::ContextEvent]| {
                let messages = events.iter().filter(|event| event.event_type.is_message());
                messages
                    .map(|event| event.content.as_str().to_owned())
                    .filter(|json| !TOLD.contains(&json.as_str()))
                    .collect::<Vec<_>>()
            };
            let lines: Vec<usize> = (0..task.lines.len())
                .filter(|line| !cut_off.contains(line))
                .collect();
            let expected = kept(&expected);
            let expected: Vec<&String> = expected[..task.opening.len()]
                .iter()
                .chain(
                    lines
                        .iter()
                        .map(|line| &expected[task.opening.len() + line]),
                )
                .collect();
            let killed = kept(&killed);
            let killed: Vec<&String> = killed
                .iter()
                .filter(|json| !runlog_agent_tests::agents::seen::is_cut_off(json))
                .collect();
            assert_eq!(killed, expected, "task {}", task.name);
        }
    }
}

fn report(budget: &Budget, found: Found) {
    for (figure, count) in [
        ("runs", found.runs),
        ("resumes", found.resumes),
        ("messages and results", found.lines),
        ("tool calls", found.calls),
        ("tool calls cut off", found.cut_off),
    ] {
        budget.add(figure, count as u64);
    }
}

/// Records every task in a process that is killed so many times, and one time to the end.
fn killed(folder: &Path, tasks: &[Task], kills: u64, random: &mut Random) -> Acknowledged {
    let count = tasks.len() as u64;
    let lines: usize = tasks
        .iter()
        .flat_map(Task::all)
        .map(|task| task.lines.len() + 2)
        .sum();
    let mut acknowledged = Acknowledged::default();
    for kill in 1..=kills {
        let mut child = agents(folder, count);
        // Some die while they open the store, or pause and resume what the one before left.
        if random.one_in(4) {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            child.kill().unwrap();
        }
        let ended = kill_after(
            child,
            random.below(lines as u64 * 5 / 4 / kills),
            &mut acknowledged,
        );
        assert!(!ended, "the agents were done before kill {kill}");
        if !folder.join("RUNLOG").exists() {
            assert!(acknowledged.counts.is_empty(), "the store is gone");
            continue;
        }
        check_files(folder, Extent::Begun);
        let store = Store::open_read_only(folder).unwrap();
        if let Err(what) = check(&store, tasks, &acknowledged, Extent::Begun) {
            panic!("after kill {kill}: {what}");
        }
    }
    assert!(
        kill_after(agents(folder, count), u64::MAX, &mut acknowledged),
        "they come to an end"
    );
    acknowledged
}

#[test]
fn agents_killed_at_random_moments_end_as_if_nothing_had_happened() {
    let budget = budget::of("agents killed");
    let (tasks, kills) = if budget::is_torture() {
        (200, 50)
    } else {
        (40, 12)
    };
    let tasks: Vec<Task> = (0..tasks).map(Task::new).collect();
    let unkilled_folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let said = killed(unkilled_folder.path(), &tasks, 0, &mut Random::new(0));
    let unkilled = Store::open(unkilled_folder.path()).unwrap();
    let calm = check(&unkilled, &tasks, &said, Extent::Whole).unwrap();
    let mut seed = budget.seed();
    loop {
        println!("seed {seed}");
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let acknowledged = killed(folder.path(), &tasks, kills, &mut Random::new(seed));
        check_files(folder.path(), Extent::Whole);
        let store = Store::open(folder.path()).unwrap();
        assert!(store.recover_runs().unwrap().is_empty());
        let found = check(&store, &tasks, &acknowledged, Extent::Whole).unwrap();
        assert_eq!(
            (found.lines, found.calls, calm.cut_off),
            (calm.lines, calm.calls, 0)
        );
        same_as(&store, &unkilled, &tasks);
        budget.add("kills", kills);
        report(&budget, found);
        seed = seed.wrapping_add(1);
        if !budget.goes_on() {
            break;
        }
    }
}

#[test]
fn what_is_not_as_the_script_has_it_is_told() {
    let task = Task::new(1);
    let tasks = std::slice::from_ref(&task);
    let played = || {
        let store = Store::in_memory();
        Agent::new(&store, &|_| {}).play(&task).unwrap();
        let instance = store
            .root_instance(store.find_session(&session_name(&task)).unwrap().id)
            .unwrap()
            .id;
        (store, instance)
    };
    let wrong = |store: &Store, acknowledged: &Acknowledged, extent| {
        check(store, tasks, acknowledged, extent).expect_err("it is wrong")
    };
    let nothing = Acknowledged::default();
    let (store, _) = played();
    check(&store, tasks, &nothing, Extent::Whole).unwrap();
    wrong(&Store::in_memory(), &nothing, Extent::Whole);

    let mut more = nothing.clone();
    more.take(&format!("1 {}", task.opening.len() + task.lines.len() + 1));
    wrong(&store, &more, Extent::Begun);
    let mut lost = nothing.clone();
    lost.take(&format!("1 resumed {}", uuid()));
    wrong(&store, &lost, Extent::Begun);

    let (store, instance) = played();
    let context = store.context(instance).unwrap();
    let first = context.get_messages().unwrap().remove(0).json;
    context.append_raw_message(first).unwrap();
    wrong(&store, &nothing, Extent::Begun);

    // The last message, and one in the middle with all after it.
    for fewer in [1, 4] {
        let (store, instance) = played();
        let context = store.context(instance).unwrap();
        context
            .truncate_after_sequence(context.get_last_sequence().unwrap() - fewer)
            .unwrap();
        wrong(&store, &nothing, Extent::Whole);
    }

    // A result without the time it took.
    let store = Store::in_memory();
    let mut other = task.clone();
    for line in &mut other.lines {
        if let Line::Result(answer) = line {
            answer.duration_ms += 1;
        }
    }
    Agent::new(&store, &|_| {}).play(&other).unwrap();
    wrong(&store, &nothing, Extent::Whole);
}

fn uuid() -> String {
    Store::in_memory().backend().new_id().to_string()
}
