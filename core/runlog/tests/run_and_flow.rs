//! A run and a flow share the run's stream.

use runlog::{
    ErrorKind, FlowRun, NewMessage, NewRun, NewSession, Playback, PlaybackOptions, RawJson, ResumeOptions,
    RuntimeEvent, Store,
};

#[test]
fn run_and_flow_share_a_stream_and_each_resumes() {
    let store = Store::in_memory();
    let run = store.runs().start(NewRun::in_new_session(NewSession::titled("x"), "coder")).unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.start_agent("n", "s").unwrap();
    flow.record(&RuntimeEvent::parse(r#"{"type":"node:a"}"#).unwrap()).unwrap();
    run.record_message(NewMessage::user("hi")).unwrap();
    run.next_step().unwrap();
    flow.record(&RuntimeEvent::parse(r#"{"type":"node:b"}"#).unwrap()).unwrap();
    run.record_message(NewMessage::assistant("ok")).unwrap();
    flow.command(&RawJson::parse(r#"{"type":"send","runId":"r","message":"m"}"#).unwrap()).unwrap();
    run.pause("lunch").unwrap();
    let (mut flow, resumed) = FlowRun::resume(&store, run.id(), None).unwrap();
    assert_eq!(resumed.running.len(), 1);
    assert_eq!(flow.take_inbox("r").len(), 1);
    let again = store.runs().resume(run.id(), &ResumeOptions::default()).unwrap();
    assert_eq!(again.messages.len(), 3);
    assert_eq!(Playback::new(&store, run.id(), PlaybackOptions::default()).unwrap().count(), 4);
}

#[test]
fn command_for_a_run_that_is_not_the_flows_is_refused_and_recorded() {
    let store = Store::in_memory();
    let run = store.runs().start(NewRun::in_new_session(NewSession::titled("x"), "coder")).unwrap();
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
    let run = store.runs().start(NewRun::in_new_session(NewSession::titled("x"), "coder")).unwrap();
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
    assert_eq!(refused.map(|error| error.kind()), [ErrorKind::WrongStatus; 5]);
    assert_eq!(Playback::new(&store, run.id(), PlaybackOptions::default()).unwrap().count(), 0);
}
