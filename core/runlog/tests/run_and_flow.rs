//! A run and a flow share the run's stream.

use runlog::{
    FlowRun, NewMessage, NewRun, NewSession, Playback, PlaybackOptions, RawJson, ResumeOptions, RuntimeEvent, Store,
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
