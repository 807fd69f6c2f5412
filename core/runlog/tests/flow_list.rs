//! Flows are found: in pages, by filter, after a crash, and in what an archive brings.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, NewRun, NewSession, RunId, RunStatus,
    archive::{What, export, import},
    blocking::{FlowRun, Store},
    flows::{FlowSummary, ListFlows},
    runs::ResumeOptions,
};

both! {
    flows_are_listed_newest_first_in_pages
    flows_are_listed_by_status_and_by_parent
    a_flow_that_somebody_is_at_work_on_is_not_to_be_resumed
    a_flow_whose_run_is_over_is_not_to_be_resumed
    a_cursor_fits_the_same_filters_only
    an_archive_brings_the_list_along
}

fn ids(flows: &[FlowSummary]) -> Vec<RunId> {
    flows.iter().map(|flow| flow.run_id).collect()
}

fn list(store: &Store, options: &ListFlows) -> Vec<FlowSummary> {
    store.flows().list(options).unwrap().items
}

fn resumable() -> ListFlows {
    ListFlows {
        resumable: true,
        ..ListFlows::default()
    }
}

fn begun(store: &Store, status: &str) -> RunId {
    let mut flow = FlowRun::create(store, None).unwrap();
    flow.state_mut().status = status.to_owned();
    flow.save_snapshot().unwrap();
    flow.run_id()
}

fn flows_are_listed_newest_first_in_pages(store: &Store) {
    let mut made: Vec<RunId> = (0..5).map(|_| begun(store, "running")).collect();
    made.reverse();
    let (mut options, mut found) = (
        ListFlows {
            limit: 2,
            ..ListFlows::default()
        },
        Vec::new(),
    );
    loop {
        let page = store.flows().list(&options).unwrap();
        assert!(page.items.len() <= 2);
        found.extend(ids(&page.items));
        begun(store, "made meanwhile");
        options.cursor = page.next;
        if options.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, made);
}

fn flows_are_listed_by_status_and_by_parent(store: &Store) {
    let parent = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "lead"))
        .unwrap();
    let child = NewRun {
        parent_run_id: Some(parent.id()),
        ..NewRun::in_new_session(NewSession::default(), "worker")
    };
    let child = store.runs().start(child).unwrap();
    let of_child = FlowRun::create(store, Some(child.id())).unwrap();
    let waiting = begun(store, "waiting for a person");
    let of_status = |status: &str| {
        list(
            store,
            &ListFlows {
                status: Some(status.to_owned()),
                ..ListFlows::default()
            },
        )
    };
    assert_eq!(ids(&of_status("waiting for a person")), [waiting]);
    assert_eq!(ids(&of_status("running")), [child.id()]);
    assert!(of_status("unheard of").is_empty());
    let of_parent = list(
        store,
        &ListFlows {
            parent_run_id: Some(parent.id()),
            ..ListFlows::default()
        },
    );
    assert_eq!(ids(&of_parent), [of_child.run_id()]);
    assert_eq!(
        (of_parent[0].run_status, of_parent[0].parent_run_id),
        (Some(RunStatus::Running), Some(parent.id()))
    );
    assert_eq!(
        store.flows().get(waiting).unwrap().unwrap().run_status,
        None
    );
    assert_eq!(store.flows().get(parent.id()).unwrap(), None);
}

fn a_flow_that_somebody_is_at_work_on_is_not_to_be_resumed(store: &Store) {
    let flow = FlowRun::create(store, None).unwrap();
    let id = flow.run_id();
    assert_eq!(store.flows().get(id).unwrap().unwrap().is_live, Some(true));
    assert!(list(store, &resumable()).is_empty());
    drop(flow);
    assert_eq!(ids(&list(store, &resumable())), [id]);
    let (mut flow, _) = FlowRun::resume(store, id, None).unwrap();
    assert!(list(store, &resumable()).is_empty());
    flow.state_mut().status = "completed".to_owned();
    flow.save_snapshot().unwrap();
    drop(flow);
    assert!(list(store, &resumable()).is_empty());
    assert!(store.flows().get(id).unwrap().unwrap().is_over);
}

fn a_flow_whose_run_is_over_is_not_to_be_resumed(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    let flow = FlowRun::create(store, Some(run.id())).unwrap();
    drop(flow);
    assert!(
        list(store, &resumable()).is_empty(),
        "its run has a recorder"
    );
    run.pause("lunch").unwrap();
    assert_eq!(ids(&list(store, &resumable())), [run.id()]);
    let again = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    again.recorder.pause("supper").unwrap();
    assert_eq!(ids(&list(store, &resumable())), [again.run.id]);
    let last = store
        .runs()
        .resume(again.run.id, &ResumeOptions::default())
        .unwrap();
    last.recorder.complete(None).unwrap();
    assert!(list(store, &resumable()).is_empty());
    assert_eq!(list(store, &ListFlows::default()).len(), 3);
}

fn a_cursor_fits_the_same_filters_only(store: &Store) {
    for _ in 0..3 {
        begun(store, "running");
    }
    let cursor = store
        .flows()
        .list(&ListFlows {
            limit: 1,
            ..ListFlows::default()
        })
        .unwrap()
        .next;
    let other = store
        .flows()
        .list(&ListFlows {
            cursor,
            ..resumable()
        })
        .unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidInput);
    let none = store
        .flows()
        .list(&ListFlows {
            limit: 0,
            ..ListFlows::default()
        })
        .unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidInput);
}

fn an_archive_brings_the_list_along(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("x"), "coder"))
        .unwrap();
    let session = run.run().session_id;
    drop(FlowRun::create(store, Some(run.id())).unwrap());
    run.pause("lunch").unwrap();
    let by_itself = begun(store, "waiting");
    let archive = |what: What<'_>| {
        let mut lines = Vec::new();
        export(store, what, &mut |line| {
            lines.extend_from_slice(line);
            Ok::<(), runlog::Error>(())
        })
        .unwrap();
        lines
    };
    let read = |lines: &[u8], other: &Store| {
        let lines = lines.to_vec();
        let mut source =
            || Ok(Box::new(std::io::Cursor::new(lines.clone())) as Box<dyn std::io::BufRead>);
        import(other, None, true, &mut source).unwrap();
    };
    let whole = Store::in_memory();
    for _ in 0..2 {
        read(&archive(What::All), &whole);
        assert_eq!(list(&whole, &resumable()), list(store, &resumable()));
        assert_eq!(ids(&list(&whole, &resumable())), [by_itself, run.id()]);
    }
    let one = Store::in_memory();
    read(&archive(What::Sessions(&[session])), &one);
    assert_eq!(ids(&list(&one, &resumable())), [run.id()]);
}

#[test]
fn after_a_crash_what_is_to_be_resumed_is_found_also_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let by_itself = FlowRun::create(&store, None).unwrap();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    let of_run = FlowRun::create(&store, Some(run.id())).unwrap();
    let done = begun(&store, "completed");
    let expected = [run.id(), by_itself.run_id()];

    let reader = Store::open_read_only(&path).unwrap();
    let beside = list(&reader, &resumable());
    assert_eq!(ids(&beside), expected);
    assert_eq!(
        beside[0].is_live, None,
        "a reader isn't told who is at work"
    );
    assert_eq!(
        reader.flows().get(done).unwrap().unwrap().is_live,
        Some(false)
    );
    // Nothing is written at the end, as in a crash: the handles are let go of, and the run stays as it was.
    drop(by_itself);
    drop(of_run);
    drop(run);
    drop(store);
    // Where nobody writes, nobody is at work.
    let alone = list(&reader, &resumable());
    assert_eq!(alone[0].run_status, Some(RunStatus::Running));
    let is_live = alone.iter().map(|flow| flow.is_live).collect::<Vec<_>>();
    assert_eq!(is_live, [Some(false); 2]);
    drop(reader);

    let store = Store::open(&path).unwrap();
    let found = list(&store, &resumable());
    assert_eq!(ids(&found), expected);
    assert_eq!(
        found.iter().map(|flow| flow.is_live).collect::<Vec<_>>(),
        [Some(false); 2]
    );
    assert_eq!(found[0].run_status, Some(RunStatus::Paused));
    drop(store);
    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!(
        list(&reader, &resumable())[0].is_live,
        Some(false),
        "a run that is paused has nobody at work on it"
    );
}
