//! A run and a flow share the run's stream.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson,
    blocking::{FlowRun, Playback, Store},
    flows::{ListFlows, PlaybackOptions, RuntimeEvent},
    runs::ResumeOptions,
};

fn event(kind: &str) -> RuntimeEvent {
    RuntimeEvent::parse(format!(r#"{{"type":"{kind}"}}"#)).unwrap()
}

fn sent(to: &str) -> RawJson {
    RawJson::from_value(&serde_json::json!({"type": "send", "runId": to, "message": "m"})).unwrap()
}

#[test]
fn a_run_is_resumed_with_its_flow() {
    let store = Store::in_memory();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("x"), "coder"))
        .unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.start_agent("n", "s").unwrap();
    flow.record(&event("node:a")).unwrap();
    run.record_message(NewMessage::user("hi")).unwrap();
    run.next_step().unwrap();
    flow.record(&event("node:b")).unwrap();
    run.record_message(NewMessage::assistant("ok")).unwrap();
    flow.command(&sent("node run")).unwrap();
    flow.command(&sent(&run.id().to_string())).unwrap();
    run.pause("lunch").unwrap();

    let again = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(again.messages.len(), 3);
    let (mut flow, resumed) = FlowRun::resume(&store, again.run.id, None).unwrap();
    assert_eq!(resumed.running.len(), 1);
    assert_eq!(resumed.running[0].session_id.as_deref(), Some("s"));
    assert_eq!(
        flow.state().run_id.as_deref(),
        Some(&*again.run.id.to_string())
    );
    assert_eq!(
        flow.take_inbox("node run").len(),
        1,
        "what waited for the paused run waits on"
    );
    assert_eq!(
        flow.take_inbox(&again.run.id.to_string()).len(),
        1,
        "what was for the paused run is for the new one"
    );
    flow.record(&event("node:c")).unwrap();
    assert_eq!(
        Playback::new(&store, run.id(), PlaybackOptions::default())
            .unwrap()
            .count(),
        4
    );
    assert_eq!(
        Playback::new(&store, again.run.id, PlaybackOptions::default())
            .unwrap()
            .count(),
        2
    );

    let listed = store.flows().list(&ListFlows::default()).unwrap().items;
    assert_eq!(
        listed.iter().map(|flow| flow.run_id).collect::<Vec<_>>(),
        [again.run.id, run.id()]
    );
    assert_eq!(
        (listed[0].resumed_from, listed[1].resumed_by),
        (Some(run.id()), Some(again.run.id))
    );
    assert_eq!((listed[0].is_over, listed[1].is_over), (false, true));
}

#[test]
fn a_flow_of_a_run_that_is_paused_or_was_resumed_takes_nothing() {
    let store = Store::in_memory();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("x"), "coder"))
        .unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.start_agent("n", "s").unwrap();
    run.pause("lunch").unwrap();
    let mut refused_with = |says: &str| {
        let refused = [
            flow.record(&event("node:a")).unwrap_err(),
            flow.save_snapshot().unwrap_err(),
            flow.finish_node("n", serde_json::Value::Null).unwrap_err(),
            flow.command(&sent("r")).unwrap_err(),
            FlowRun::resume(&store, run.id(), None).unwrap_err(),
        ];
        for error in &refused {
            assert_eq!(error.kind(), ErrorKind::WrongStatus, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    };
    refused_with("resume the run, which carries its flow over");
    let again = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    refused_with(&format!("was resumed as run {}", again.run.id));
    assert_eq!(
        Playback::new(&store, run.id(), PlaybackOptions::default())
            .unwrap()
            .count(),
        0
    );
    let late = FlowRun::create(&store, Some(run.id())).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_handle_that_is_attached_records_nothing_but_what_it_is_told() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    FlowRun::attach(&store, flow.run_id())
        .unwrap()
        .command(&sent("r"))
        .unwrap();
    assert_eq!(
        Playback::new(&store, flow.run_id(), PlaybackOptions::default())
            .unwrap()
            .count(),
        1
    );
    flow.refresh().unwrap();
    assert_eq!(flow.take_inbox("r").len(), 1);
    let nothing = FlowRun::attach(
        &store,
        "0198c7e0-0000-7000-8000-000000000001".parse().unwrap(),
    )
    .unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_flow_is_not_begun_in_a_run_that_is_paused() {
    let store = Store::in_memory();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("x"), "coder"))
        .unwrap();
    run.pause("lunch").unwrap();
    assert_eq!(
        FlowRun::create(&store, Some(run.id())).unwrap_err().kind(),
        ErrorKind::WrongStatus
    );
    assert!(store.flows().get(run.id()).unwrap().is_none());
}

#[test]
fn command_for_a_run_that_is_not_the_flows_is_refused_and_recorded() {
    let store = Store::in_memory();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("x"), "coder"))
        .unwrap();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let command = RawJson::from_value(
        &serde_json::json!({"type": "send", "runId": run.id().to_string(), "message": "never seen"}),
    )
    .unwrap();
    let refused = flow.command(&command).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("orchestrator"), "{refused}");
    assert!(flow.take_inbox(&run.id().to_string()).is_empty());
    let playback = Playback::new(&store, flow.run_id(), PlaybackOptions::default()).unwrap();
    let recorded: Vec<_> = playback.map(|event| event.unwrap().1.event).collect();
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].json.as_str().contains("orchestrator"));
}

#[test]
fn the_flow_of_a_run_that_is_over_does_not_go_on() {
    let store = Store::in_memory();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("x"), "coder"))
        .unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.start_agent("n", "s").unwrap();
    run.complete(None).unwrap();
    let event = RuntimeEvent::parse(r#"{"type":"node:a"}"#).unwrap();
    let command = RawJson::parse(r#"{"type":"resume","message":"m"}"#).unwrap();
    let refused = [
        flow.record(&event).unwrap_err(),
        flow.start_agent("m", "s").unwrap_err(),
        flow.finish_node("n", serde_json::Value::Null).unwrap_err(),
        flow.command(&command).unwrap_err(),
        FlowRun::resume(&store, run.id(), None).unwrap_err(),
    ];
    assert_eq!(
        refused.map(|error| error.kind()),
        [ErrorKind::WrongStatus; 5]
    );
    assert_eq!(
        Playback::new(&store, run.id(), PlaybackOptions::default())
            .unwrap()
            .count(),
        0
    );
}
