//! S3, row by row: agent events, snapshots, resuming, commands, playback; on memory and on disk.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson, RunId, RunStatus,
    blocking::{FlowRun, Playback, Store},
    flows::{
        AgentEvent, NodeStatus, PlaybackOptions, RunSnapshot, RuntimeCommand, RuntimeEvent, Speed,
    },
};

both! {
    agent_start_is_recorded_as_typed
    agent_thinking_delta_is_recorded_as_typed
    agent_thinking_is_recorded_as_typed
    agent_text_delta_is_recorded_as_typed
    agent_text_is_recorded_as_typed
    agent_tool_is_recorded_as_typed
    agent_error_is_recorded_as_typed
    agent_complete_is_recorded_as_typed
    events_are_kept_byte_for_byte
    an_event_without_its_fields_is_refused_and_writes_nothing
    flow_node_and_edge_events_are_recorded
    a_snapshot_has_all_eight_fields
    an_initial_snapshot_has_empty_agent_sessions
    the_session_id_is_durable_before_the_agent_is_called
    the_session_id_stays_when_the_agent_is_complete
    resume_loads_the_latest_snapshot_and_emits_flow_resumed
    a_flow_whose_last_snapshot_was_redacted_goes_on_from_the_one_before
    a_running_node_is_resumed_with_continue_or_the_given_message
    a_resume_message_waits_where_no_node_was_running
    of_ten_that_resume_a_flow_at_once_one_does
    who_drove_a_flow_before_it_was_resumed_saves_and_takes_nothing
    send_and_reply_without_a_run_id_are_rejected_and_recorded
    a_command_reaches_the_inbox_of_its_run_only
    as_many_commands_wait_for_a_flow_as_for_a_run
    a_command_outlives_a_crash_and_a_taken_one_a_snapshot
    a_flow_is_looked_at_as_it_is_now
    commands_that_another_handle_receives_are_taken_in
    a_flow_goes_on_while_others_write_to_its_run
    playback_is_snapshot_and_events_in_order
    playback_is_filtered_by_sequence_and_type
    playback_goes_at_recorded_speed_a_multiple_or_at_once
    playback_runs_nothing
    playback_goes_both_ways_and_jumps
    playback_is_filtered_by_node_and_run_and_its_silences_are_cut
    a_flow_is_begun_once_and_resumed_when_it_is_there
    other_records_and_states_of_a_run_are_passed_over
    oversize_is_refused
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn event(text: &str) -> RuntimeEvent {
    RuntimeEvent::parse(text.to_owned()).unwrap()
}

fn kind<T: std::fmt::Debug>(result: runlog::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn at_once() -> PlaybackOptions {
    PlaybackOptions {
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    }
}

fn played(store: &Store, run: RunId, options: PlaybackOptions) -> Vec<RuntimeEvent> {
    Playback::new(store, run, options)
        .unwrap()
        .map(|event| event.unwrap().1.event)
        .collect()
}

fn types(store: &Store, run: RunId, options: PlaybackOptions) -> Vec<String> {
    played(store, run, options)
        .into_iter()
        .map(|event| event.event_type)
        .collect()
}

/// The event is recorded, comes back byte for byte, and its typed form writes the same JSON.
fn is_recorded_as_typed(store: &Store, text: &str) -> AgentEvent {
    let mut flow = FlowRun::create(store, None).unwrap();
    flow.record(&event(text)).unwrap();
    let back = played(store, flow.run_id(), at_once()).remove(0);
    assert_eq!(back.json.as_str(), text);
    assert_eq!(
        (
            back.node_id.as_deref(),
            back.run_id.as_deref(),
            back.timestamp
        ),
        (Some("n"), Some("r"), Some(5))
    );
    let typed = back.agent().unwrap();
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), value(text));
    assert_eq!(
        RuntimeEvent::of_agent(&typed).unwrap().event_type,
        back.event_type
    );
    typed
}

fn agent_start_is_recorded_as_typed(store: &Store) {
    let start = r#""type":"agent:start","nodeId":"n","runId":"r","timestamp":5,"sessionId":"s""#;
    is_recorded_as_typed(store, &format!(r#"{{{start},"prompt":"Go"}}"#));
    let messages = r#"{"role":"user","content":[{"type":"text","text":"Go"}]}"#;
    is_recorded_as_typed(
        store,
        &format!(r#"{{{start},"model":"m","prompt":[{messages}]}}"#),
    );
    let error = RuntimeEvent::parse(format!(r#"{{{start},"prompt":7}}"#)).unwrap_err();
    assert!(error.to_string().contains("prompt"), "{error}");
}

fn agent_thinking_delta_is_recorded_as_typed(store: &Store) {
    let text = r#"{"type":"agent:thinking:delta","nodeId":"n","runId":"r","timestamp":5,"content":"Let me ","tokenCount":2}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::ThinkingDelta {
            token_count: Some(2),
            ..
        }
    ));
}

fn agent_thinking_is_recorded_as_typed(store: &Store) {
    let text =
        r#"{"type":"agent:thinking","nodeId":"n","runId":"r","timestamp":5,"content":"Hm."}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::Thinking {
            token_count: None,
            ..
        }
    ));
}

fn agent_text_delta_is_recorded_as_typed(store: &Store) {
    let text =
        r#"{"type":"agent:text:delta","nodeId":"n","runId":"r","timestamp":5,"content":"I'll "}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::TextDelta { .. }
    ));
}

fn agent_text_is_recorded_as_typed(store: &Store) {
    let text = r#"{"type":"agent:text","nodeId":"n","runId":"r","timestamp":5,"content":"Done!"}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::Text { .. }
    ));
}

fn agent_tool_is_recorded_as_typed(store: &Store) {
    let text = r#"{"type":"agent:tool","nodeId":"n","runId":"r","timestamp":5,"toolName":"read_file","toolInput":{"a":1},"toolOutput":null,"durationMs":1.5,"error":"no"}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::Tool { .. }
    ));
}

fn agent_error_is_recorded_as_typed(store: &Store) {
    let text = r#"{"type":"agent:error","nodeId":"n","runId":"r","timestamp":5,"errorType":"error_max_turns","message":"m","details":{"x":[]}}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::Error { .. }
    ));
}

fn agent_complete_is_recorded_as_typed(store: &Store) {
    let text = r#"{"type":"agent:complete","nodeId":"n","runId":"r","timestamp":5,"result":"x","structuredOutput":{"y":1},"usage":{"inputTokens":1,"outputTokens":2,"cacheCreationInputTokens":3,"cacheReadInputTokens":4},"modelUsage":{"m":{"inputTokens":1,"outputTokens":2}},"totalCostUsd":0.5,"durationMs":4523.5,"numTurns":3}"#;
    assert!(matches!(
        is_recorded_as_typed(store, text),
        AgentEvent::Complete { num_turns: 3, .. }
    ));
}

fn events_are_kept_byte_for_byte(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let text = r#" { "type" : "agent:text", "nodeId":"n","runId":"r","timestamp":5, "content":"\u00e9", "ours":1.50 }"#;
    flow.record(&event(text)).unwrap();
    assert_eq!(
        played(store, flow.run_id(), at_once())[0].json.as_str(),
        text
    );
}

fn an_event_without_its_fields_is_refused_and_writes_nothing(_store: &Store) {
    for text in [
        "not json",
        "[]",
        r#"{"nodeId":"n"}"#,
        r#"{"type":"agent:text","nodeId":"n","runId":"r","timestamp":5}"#,
        r#"{"type":"agent:text","nodeId":"n","timestamp":5,"content":"x"}"#,
        r#"{"type":"agent:dance","nodeId":"n","runId":"r","timestamp":5}"#,
        r#"{"type":"command:sent"}"#,
        r#"{"type":"flow:"}"#,
    ] {
        assert!(RuntimeEvent::parse(text.to_owned()).is_err(), "{text}");
    }
}

fn flow_node_and_edge_events_are_recorded(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let all = [
        "flow:started",
        "node:started",
        "edge:fired",
        "node:completed",
        "flow:completed",
    ];
    let events: Vec<_> = all
        .iter()
        .map(|kind| event(&format!(r#"{{"type":"{kind}"}}"#)))
        .collect();
    assert_eq!(flow.record_all(&events, None).unwrap(), 5);
    assert_eq!(types(store, flow.run_id(), at_once()), all);
}

fn a_snapshot_has_all_eight_fields(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let text = r#"{"runId":"r","status":"paused","outputs":{"a":1},"state":{"tasks":[]},"nodeStatus":{"a":"done","b":"running","c":"failed","d":"pending"},"edgeStatus":{"a->b":"fired","b->c":"skipped","c->d":"pending"},"loopCounters":{"l":2},"inbox":[{"type":"send","runId":"b1","message":"hi"}],"agentSessions":{"b":"sess-1"},"ours":true}"#;
    *flow.state_mut() = serde_json::from_str(text).unwrap();
    flow.save_snapshot().unwrap();
    let playback = Playback::new(store, flow.run_id(), at_once()).unwrap();
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        serde_json::to_value(playback.snapshot().unwrap()).unwrap(),
        value
    );
}

fn an_initial_snapshot_has_empty_agent_sessions(store: &Store) {
    let flow = FlowRun::create(store, None).unwrap();
    assert!(flow.state().agent_sessions.is_empty());
    let value = serde_json::to_value(flow.state()).unwrap();
    let fields = [
        "agentSessions",
        "edgeStatus",
        "inbox",
        "loopCounters",
        "nodeStatus",
        "outputs",
        "runId",
        "state",
        "status",
    ];
    assert_eq!(
        value.as_object().unwrap().keys().collect::<Vec<_>>(),
        fields
    );
    let old = r#"{"status":"running","outputs":{},"state":{},"nodeStatus":{},"edgeStatus":{},"loopCounters":{},"inbox":[]}"#;
    assert!(
        serde_json::from_str::<RunSnapshot>(old)
            .unwrap()
            .agent_sessions
            .is_empty(),
        "from before there were any"
    );
}

fn the_session_id_is_durable_before_the_agent_is_called(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    flow.start_agent("task", "sess-123").unwrap();
    let nameless = flow.start_agent("", "sess-123");
    assert_eq!(kind(nameless), ErrorKind::InvalidInput);
    let nameless = flow.finish_node("", serde_json::Value::Null);
    assert_eq!(kind(nameless), ErrorKind::InvalidInput);
    let run = flow.run_id();
    std::mem::forget(flow);
    let (flow, resumed) = FlowRun::resume(store, run, None).unwrap();
    assert_eq!(flow.state().node_status["task"], NodeStatus::Running);
    assert_eq!(resumed.running[0].session_id.as_deref(), Some("sess-123"));
}

fn the_session_id_stays_when_the_agent_is_complete(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    flow.start_agent("task", "sess-123").unwrap();
    flow.finish_node("task", "out".into()).unwrap();
    let (flow, resumed) = FlowRun::resume(store, flow.run_id(), None).unwrap();
    assert_eq!(
        (
            flow.state().agent_sessions["task"].as_str(),
            resumed.running.len()
        ),
        ("sess-123", 0)
    );
    assert_eq!(
        (
            &flow.state().outputs["task"],
            flow.state().node_status["task"]
        ),
        (&"out".into(), NodeStatus::Done)
    );
}

fn resume_loads_the_latest_snapshot_and_emits_flow_resumed(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    for count in 1..=3 {
        flow.record(&event(r#"{"type":"node:started"}"#)).unwrap();
        flow.state_mut().loop_counters.insert("l".into(), count);
        flow.save_snapshot().unwrap();
    }
    flow.state_mut().loop_counters.insert("l".into(), 99);
    let (flow, resumed) = FlowRun::resume(store, flow.run_id(), None).unwrap();
    assert_eq!(
        flow.state().loop_counters["l"],
        3,
        "what wasn't saved isn't there"
    );
    assert_eq!(resumed.sequence, 4);
    assert_eq!(
        types(store, flow.run_id(), at_once()).last().unwrap(),
        "flow:resumed"
    );
}

fn a_flow_whose_last_snapshot_was_redacted_goes_on_from_the_one_before(store: &Store) {
    use runlog::engine::{Batch, Op, Sequence, StreamId};
    let mut flow = FlowRun::create(store, None).unwrap();
    let stream = StreamId(flow.run_id().as_uuid());
    let mut position = None;
    for count in 1..=3 {
        flow.record(&event(r#"{"type":"node:started"}"#)).unwrap();
        flow.state_mut().loop_counters.insert("l".into(), count);
        flow.save_snapshot().unwrap();
        let saved =
            pollster::block_on(store.backend().latest_snapshot(stream, Sequence::MAX)).unwrap();
        position = saved.map(|saved| saved.position);
    }
    let redact = Op::Redact {
        position: position.unwrap(),
        reason: "asked for",
    };
    pollster::block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
    let (flow, _) = FlowRun::resume(store, flow.run_id(), None).unwrap();
    assert_eq!(flow.state().loop_counters["l"], 2);
}

fn a_running_node_is_resumed_with_continue_or_the_given_message(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    flow.start_agent("b", "sess-b").unwrap();
    flow.start_agent("a", "sess-a").unwrap();
    let nodes = |message| {
        let (mut flow, resumed) = FlowRun::resume(store, flow.run_id(), message).unwrap();
        assert_eq!(
            flow.take_inbox(&flow.run_id().to_string()),
            [],
            "it is delivered once, as the prompt"
        );
        resumed
            .running
            .into_iter()
            .map(|node| (node.node_id, node.session_id.unwrap(), node.prompt))
            .collect::<Vec<_>>()
    };
    let row =
        |node: &str, prompt: &str| (node.to_owned(), format!("sess-{node}"), prompt.to_owned());
    assert_eq!(nodes(None), [row("a", "continue"), row("b", "continue")]);
    assert_eq!(
        nodes(Some("Try once more.")),
        [row("a", "Try once more."), row("b", "Try once more.")]
    );
    let events = played(store, flow.run_id(), at_once());
    assert_eq!(events[1].event_type, "command:received");
    assert!(events[1].json.as_str().contains("Try once more."));
}

fn of_ten_that_resume_a_flow_at_once_one_does(store: &Store) {
    let flow = FlowRun::create(store, None).unwrap();
    let run = flow.run_id();
    let mut told: Vec<_> = std::thread::scope(|scope| {
        let resume = |count: usize| {
            scope.spawn(move || FlowRun::resume(store, run, Some(&format!("message {count}"))))
        };
        let threads: Vec<_> = (0..10).map(resume).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = told.drain(..).partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 9));
    for refused in lost {
        let error = refused.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("resumed already"), "{error}");
    }
    // The message of one was recorded, and is delivered once.
    assert_eq!(
        types(store, run, at_once()),
        ["command:received", "flow:resumed"]
    );
    let (mut winner, _) = won.into_iter().next().unwrap().unwrap();
    assert_eq!(winner.take_inbox(&run.to_string()).len(), 1);
    assert_eq!(winner.take_inbox(&run.to_string()), []);
    drop(winner);
    FlowRun::resume(store, run, None).unwrap();
}

fn who_drove_a_flow_before_it_was_resumed_saves_and_takes_nothing(store: &Store) {
    let mut created = FlowRun::create(store, None).unwrap();
    let run = created.run_id();
    created.start_agent("plan", "s1").unwrap();
    created.command(&send("1")).unwrap();
    let (mut driver, _) = FlowRun::resume(store, run, None).unwrap();
    driver
        .finish_node("plan", serde_json::json!("done"))
        .unwrap();
    // What it knows is older: the node would run again.
    for refused in [
        created.save_snapshot(),
        created.start_agent("write", "s2"),
        created.finish_node("plan", serde_json::Value::Null),
        created.check_open(),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("has resumed"), "{error}");
    }
    assert_eq!(created.take_inbox("r"), []);
    assert_eq!(created.take_message("r"), None);
    assert_eq!(created.take_own_inbox(), []);
    created.record(&event(r#"{"type":"node:tick"}"#)).unwrap();
    created.command(&send("2")).unwrap();
    driver.refresh().unwrap();
    assert_eq!(words(&driver.take_inbox("r")), "12");
    driver.save_snapshot().unwrap();
    drop(driver);
    created.save_snapshot().unwrap_err();
    let (driver, resumed) = FlowRun::resume(store, run, None).unwrap();
    assert_eq!(resumed.running, []);
    assert!(driver.state().inbox.is_empty());
    drop(driver);
    // One that fails changes nothing for whoever drives it.
    let mut other = FlowRun::create(store, None).unwrap();
    for _ in 0..1024 {
        other.command(&send("x")).unwrap();
    }
    let full = FlowRun::resume(store, other.run_id(), Some("no room for this")).map(drop);
    assert_eq!(full.unwrap_err().kind(), ErrorKind::LimitReached);
    other.save_snapshot().unwrap();
    assert_eq!(other.take_inbox("r").len(), 1024);
}

fn a_resume_message_waits_where_no_node_was_running(store: &Store) {
    let flow = FlowRun::create(store, None).unwrap();
    let (mut flow, resumed) = FlowRun::resume(store, flow.run_id(), Some("hello")).unwrap();
    assert_eq!(resumed.running, []);
    let run = flow.run_id().to_string();
    assert_eq!(flow.take_inbox(&run)[0].message(), Some("hello"));
}

fn send_and_reply_without_a_run_id_are_rejected_and_recorded(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let bad = [
        r#"{ "type":"send","message":"x" }"#,
        r#"{"type":"reply"}"#,
        r#"{"type":"send","runId":""}"#,
        "7",
        "{}",
    ];
    for command in bad {
        assert_eq!(
            kind(flow.command(&json(command))),
            ErrorKind::InvalidInput,
            "{command}"
        );
    }
    let events = played(store, flow.run_id(), at_once());
    assert_eq!(events.len(), bad.len());
    for (event, command) in events.iter().zip(bad) {
        assert_eq!(event.event_type, "command:received");
        assert!(
            event
                .json
                .as_str()
                .contains(&format!(r#""command":{command},"error":""#)),
            "{}",
            event.json
        );
    }
    assert!(flow.state().inbox.is_empty());
    let (flow, _) = FlowRun::resume(store, flow.run_id(), None).unwrap();
    assert!(flow.state().inbox.is_empty());
}

fn a_command_reaches_the_inbox_of_its_run_only(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let mut other = FlowRun::create(store, None).unwrap();
    flow.command(&json(r#"{"type":"send","runId":"r1","message":"1"}"#))
        .unwrap();
    flow.command(&json(r#"{"type":"reply","runId":"r2","message":"2"}"#))
        .unwrap();
    flow.command(&json(r#"{"type":"send","runId":"r1","message":"3"}"#))
        .unwrap();
    flow.command(&json(r#"{"type":"resume"}"#)).unwrap();
    let words = |commands: Vec<RuntimeCommand>| {
        commands
            .iter()
            .map(|command| command.message().unwrap_or("-").to_owned())
            .collect::<String>()
    };
    assert_eq!(words(other.take_inbox("r1")), "");
    assert_eq!(
        words(FlowRun::waiting(store, flow.run_id()).unwrap()),
        "123-"
    );
    assert_eq!(FlowRun::waiting(store, other.run_id()).unwrap(), []);
    assert_eq!(words(flow.take_inbox("r1")), "13");
    flow.save_snapshot().unwrap();
    assert_eq!(words(FlowRun::waiting(store, flow.run_id()).unwrap()), "2-");
    assert_eq!(words(flow.take_inbox("r1")), "");
    assert_eq!(words(flow.take_inbox("r2")), "2");
    assert_eq!(words(flow.take_own_inbox()), "-");
    assert_eq!(
        types(store, flow.run_id(), at_once()),
        ["command:received"; 4]
    );
}

fn as_many_commands_wait_for_a_flow_as_for_a_run(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let run = flow.run_id();
    let send = json(r#"{"type":"send","runId":"r","message":"x"}"#);
    for _ in 0..1024 {
        flow.command(&send).unwrap();
    }
    let limit = |refused: runlog::Result<()>| {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LimitReached, "{refused}");
        // What is refused isn't recorded.
        assert_eq!(FlowRun::waiting(store, run).unwrap().len(), 1024);
    };
    limit(flow.command(&send));
    limit(FlowRun::resume(store, run, Some("go on")).map(|_| ()));
    let mut sender = FlowRun::attach(store, run).unwrap();
    limit(sender.command(&send));
    let (mut flow, _) = FlowRun::resume(store, run, None).unwrap();
    assert_eq!(flow.take_inbox("r").len(), 1024);
    flow.save_snapshot().unwrap();
    // Whoever sends by another handle learns that there is room again.
    sender.command(&send).unwrap();
    drop(flow);
    FlowRun::resume(store, run, Some("go on")).unwrap();
    assert_eq!(FlowRun::waiting(store, run).unwrap().len(), 2);
}

fn a_command_outlives_a_crash_and_a_taken_one_a_snapshot(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    flow.command(&json(r#"{"type":"send","runId":"r","message":"1"}"#))
        .unwrap();
    let (mut flow, _) = FlowRun::resume(store, flow.run_id(), None).unwrap();
    assert_eq!(flow.take_inbox("r").len(), 1);
    flow.save_snapshot().unwrap();
    flow.command(&json(r#"{"type":"send","runId":"r","message":"2"}"#))
        .unwrap();
    flow.save_snapshot().unwrap();
    let run = flow.run_id();
    drop(flow);
    let (mut flow, _) = FlowRun::resume(store, run, None).unwrap();
    assert_eq!(flow.take_inbox("r")[0].message(), Some("2"));
    assert_eq!(flow.take_inbox("r").len(), 0);
}

fn words(commands: &[RuntimeCommand]) -> String {
    commands
        .iter()
        .filter_map(RuntimeCommand::message)
        .collect()
}

fn send(message: &str) -> RawJson {
    json(&format!(
        r#"{{"type":"send","runId":"r","message":"{message}"}}"#
    ))
}

fn a_flow_is_looked_at_as_it_is_now(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let run = flow.run_id();
    flow.command(&send("1")).unwrap();
    flow.start_agent("plan", "sess").unwrap();
    flow.command(&send("2")).unwrap();
    flow.record(&event(r#"{"type":"node:tick"}"#)).unwrap();
    flow.command(&send("3")).unwrap();
    let before = types(store, run, at_once());
    let state = FlowRun::inspect(store, run).unwrap();
    assert_eq!(
        (
            words(&state.inbox).as_str(),
            state.agent_sessions["plan"].as_str()
        ),
        ("123", "sess")
    );
    assert_eq!(types(store, run, at_once()), before, "nothing is written");
    let inbox = |last| {
        let options = PlaybackOptions { last, ..at_once() };
        words(
            &Playback::new(store, run, options)
                .unwrap()
                .snapshot()
                .unwrap()
                .inbox,
        )
    };
    assert_eq!(
        [
            inbox(None),
            inbox(Some(4)),
            inbox(Some(3)),
            inbox(Some(2)),
            inbox(Some(1))
        ],
        ["123", "123", "12", "12", "1"]
    );
    assert_eq!(
        kind(FlowRun::inspect(store, RunId(uuid::Uuid::nil()))),
        ErrorKind::NotFound
    );
}

fn commands_that_another_handle_receives_are_taken_in(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let mut other = FlowRun::attach(store, flow.run_id()).unwrap();
    flow.command(&send("1")).unwrap();
    other.command(&send("2")).unwrap();
    other.command(&send("3")).unwrap();
    assert_eq!(words(&flow.state().inbox), "1", "not known yet");
    flow.command(&send("4")).unwrap();
    assert_eq!(
        words(&flow.state().inbox),
        "1234",
        "in the order in which they came"
    );
    flow.save_snapshot().unwrap();
    assert_eq!(
        words(&FlowRun::inspect(store, flow.run_id()).unwrap().inbox),
        "1234",
        "each once"
    );
    other.command(&send("5")).unwrap();
    flow.refresh().unwrap();
    assert_eq!(words(&flow.take_inbox("r")), "12345");
    flow.refresh().unwrap();
    assert_eq!(words(&flow.take_inbox("r")), "");
}

/// Ends a thread also when what it disturbs has failed.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn a_flow_goes_on_while_others_write_to_its_run(store: &Store) {
    for _ in 0..5 {
        let run = store
            .runs()
            .start(NewRun::in_new_session(NewSession::default(), "coder"))
            .unwrap();
        let done = AtomicBool::new(false);
        let mut flow = std::thread::scope(|scope| {
            let _done = SetWhenDropped(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    run.next_step().unwrap();
                    run.record_message(NewMessage::assistant("on and on"))
                        .unwrap();
                }
            });
            // The recorder appends all the while.
            while store.runs().get(run.id()).unwrap().unwrap().step_count < 3 {
                std::thread::yield_now();
            }
            let mut flow = FlowRun::create(store, Some(run.id())).unwrap();
            let commander = scope.spawn(|| {
                let mut other = FlowRun::attach(store, run.id()).unwrap();
                for number in 0..20 {
                    other.command(&send(&format!("<{number}>"))).unwrap();
                }
            });
            for _ in 0..20 {
                flow.start_agent("plan", "sess").unwrap();
                flow.record(&event(r#"{"type":"node:tick"}"#)).unwrap();
                flow.finish_node("plan", serde_json::Value::Null).unwrap();
            }
            commander.join().unwrap();
            flow
        });
        flow.refresh().unwrap();
        flow.save_snapshot().unwrap();
        let expected: String = (0..20).map(|number| format!("<{number}>")).collect();
        assert_eq!(words(&flow.state().inbox), expected);
        assert_eq!(
            words(&FlowRun::inspect(store, run.id()).unwrap().inbox),
            expected
        );
        let ticks = types(store, run.id(), at_once())
            .into_iter()
            .filter(|name| name == "node:tick")
            .count();
        assert_eq!(ticks, 20);
        run.complete(None).unwrap();
        let told = store.runs().get(run.id()).unwrap().unwrap();
        assert_eq!(
            (told.status, told.step_count),
            (RunStatus::Completed, run.run().step_count)
        );
    }
}

fn ticks(store: &Store) -> FlowRun {
    let mut flow = FlowRun::create(store, None).unwrap();
    for (number, time) in [1_000, 1_500, 1_400, 3_000].into_iter().enumerate() {
        let text = if number % 2 == 0 {
            format!(r#"{{"type":"node:tick","timestamp":{time}}}"#)
        } else {
            format!(
                r#"{{"type":"agent:text","nodeId":"n","runId":"r","timestamp":{time},"content":"{number}"}}"#
            )
        };
        flow.record(&event(&text)).unwrap();
        flow.state_mut()
            .loop_counters
            .insert("seen".into(), number as u64 + 1);
        flow.save_snapshot().unwrap();
    }
    flow
}

fn playback_is_snapshot_and_events_in_order(store: &Store) {
    let flow = ticks(store);
    let playback = Playback::new(store, flow.run_id(), at_once()).unwrap();
    assert_eq!(playback.snapshot(), Some(flow.state()));
    let sequences: Vec<u64> = playback.map(|event| event.unwrap().1.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4]);
    let mut long = FlowRun::create(store, None).unwrap();
    let many = vec![event(r#"{"type":"node:tick"}"#); 1_000];
    long.record_all(&many, None).unwrap();
    let sequences = Playback::new(store, long.run_id(), at_once())
        .unwrap()
        .map(|event| event.unwrap().1.sequence);
    assert!(sequences.eq(1..=1_000), "over many pages");
}

fn playback_is_filtered_by_sequence_and_type(store: &Store) {
    let run = ticks(store).run_id();
    let sequences = |options: PlaybackOptions| {
        let playback = Playback::new(store, run, options).unwrap();
        playback
            .map(|event| event.unwrap().1.sequence)
            .collect::<Vec<_>>()
    };
    let of = |types: &[&str]| PlaybackOptions {
        types: types.iter().map(|of| (*of).to_owned()).collect(),
        ..at_once()
    };
    assert_eq!(
        sequences(PlaybackOptions {
            first: 2,
            last: Some(3),
            ..at_once()
        }),
        [2, 3]
    );
    assert_eq!(
        sequences(PlaybackOptions {
            first: 9,
            ..at_once()
        }),
        [0; 0]
    );
    assert_eq!(sequences(of(&["agent:text"])), [2, 4]);
    assert_eq!(sequences(of(&["node:*", "edge:*"])), [1, 3]);
    assert_eq!(sequences(of(&["agent:text:delta", "node:x"])), [0; 0]);
    assert_eq!(sequences(of(&["*"])), [1, 2, 3, 4]);
    assert_eq!(sequences(of(&["agent:t*", "command:*"])), [2, 4]);
    // No event ever has one of these: they are mistyped.
    for wrong in ["bogus:*", "node", "node:", "agent:txt", "commands*", ""] {
        let refused = Playback::new(store, run, of(&["node:*", wrong]));
        assert_eq!(
            refused.unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{wrong}"
        );
    }
    let early = Playback::new(
        store,
        run,
        PlaybackOptions {
            last: Some(2),
            ..at_once()
        },
    )
    .unwrap();
    assert_eq!(
        early.snapshot().unwrap().loop_counters["seen"],
        2,
        "the state as it was then"
    );
}

fn playback_goes_at_recorded_speed_a_multiple_or_at_once(store: &Store) {
    let run = ticks(store).run_id();
    let delays = |speed| {
        let playback = Playback::new(
            store,
            run,
            PlaybackOptions {
                speed,
                ..PlaybackOptions::default()
            },
        )
        .unwrap();
        playback
            .map(|event| event.unwrap().0.as_millis())
            .collect::<Vec<_>>()
    };
    assert_eq!(delays(Speed::Recorded), [0, 500, 0, 1_500]);
    assert_eq!(delays(Speed::Multiple(2.0)), [0, 250, 0, 750]);
    assert_eq!(delays(Speed::Multiple(0.5)), [0, 1_000, 0, 3_000]);
    assert_eq!(delays(Speed::AtOnce), [0; 4]);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = PlaybackOptions {
            speed: Speed::Multiple(bad),
            ..PlaybackOptions::default()
        };
        assert_eq!(
            kind(Playback::new(store, run, options)),
            ErrorKind::InvalidInput
        );
    }
    let slow = PlaybackOptions {
        speed: Speed::Multiple(f64::MIN_POSITIVE),
        ..PlaybackOptions::default()
    };
    let longest = Playback::new(store, run, slow)
        .unwrap()
        .map(|event| event.unwrap().0)
        .max();
    assert_eq!(longest, Some(Duration::MAX));
}

fn playback_goes_both_ways_and_jumps(store: &Store) {
    let run = many(store);
    let mut playback = Playback::new(store, run, at_once()).unwrap();
    let take = |playback: &mut Playback, count: usize| {
        playback
            .take(count)
            .map(|event| event.unwrap().1.sequence)
            .collect::<Vec<_>>()
    };
    assert_eq!(take(&mut playback, 3), [1, 2, 3]);
    playback.turn(true);
    assert_eq!(take(&mut playback, 9), [2, 1]);
    playback.turn(false);
    assert_eq!(take(&mut playback, 2), [2, 3]);
    playback.seek(599);
    assert_eq!(take(&mut playback, 9), [599, 600]);
    playback.turn(true);
    assert_eq!(take(&mut playback, 2), [599, 598]);
    playback.seek(0);
    assert_eq!(take(&mut playback, 1), [0; 0]);
    playback.seek(u64::MAX);
    assert_eq!(take(&mut playback, 2), [600, 599]);

    let back = PlaybackOptions {
        first: 2,
        last: Some(598),
        backward: true,
        ..at_once()
    };
    let mut playback = Playback::new(store, run, back).unwrap();
    let all = take(&mut playback, 1_000);
    assert_eq!((all.len(), all[0], all[596]), (597, 598, 2));
    assert!(all.is_sorted_by(|one, other| one > other));
    playback.seek(1);
    assert_eq!(take(&mut playback, 1), [0; 0]);
    playback.turn(false);
    assert_eq!(take(&mut playback, 1), [2]);
}

fn playback_is_filtered_by_node_and_run_and_its_silences_are_cut(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    for (node, run, at) in [
        ("a", "r1", 1_000),
        ("b", "r2", 1_100),
        ("a", "r3", 61_000),
        ("b", "r1", 61_200),
    ] {
        let text = format!(
            r#"{{"type":"node:ticked","nodeId":"{node}","runId":"{run}","timestamp":{at}}}"#
        );
        flow.record(&event(&text)).unwrap();
    }
    let id = flow.run_id();
    let told = |options: PlaybackOptions| {
        Playback::new(store, id, options)
            .unwrap()
            .map(|event| event.unwrap())
            .map(|(delay, event)| (event.sequence, delay.as_millis()))
            .collect::<Vec<_>>()
    };
    let list = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let recorded = PlaybackOptions::default;
    let of_a = PlaybackOptions {
        nodes: list(&["a"]),
        ..recorded()
    };
    assert_eq!(told(of_a.clone()), [(1, 0), (3, 60_000)]);
    let of_runs = PlaybackOptions {
        runs: list(&["r1", "r3"]),
        ..recorded()
    };
    assert_eq!(told(of_runs), [(1, 0), (3, 60_000), (4, 200)]);
    let both = PlaybackOptions {
        runs: list(&["r1"]),
        ..of_a
    };
    assert_eq!(told(both), [(1, 0)]);
    let cut = PlaybackOptions {
        silence_max_ms: Some(1_000),
        speed: Speed::Multiple(2.0),
        ..recorded()
    };
    assert_eq!(told(cut.clone()), [(1, 0), (2, 50), (3, 500), (4, 100)]);
    let back = PlaybackOptions {
        backward: true,
        ..cut
    };
    assert_eq!(told(back), [(4, 0), (3, 100), (2, 500), (1, 50)]);
}

/// A flow of 600 events.
fn many(store: &Store) -> RunId {
    let mut flow = FlowRun::create(store, None).unwrap();
    let events: Vec<_> = (0..600)
        .map(|_| event(r#"{"type":"node:ticked","nodeId":"a"}"#))
        .collect();
    flow.record_all(&events, None).unwrap();
    flow.run_id()
}

fn playback_runs_nothing(store: &Store) {
    let run = ticks(store).run_id();
    let length = || {
        pollster::block_on(store.backend().scan(runlog::engine::Position(1), u64::MAX))
            .unwrap()
            .records
            .len()
    };
    let before = length();
    assert_eq!(Playback::new(store, run, at_once()).unwrap().count(), 4);
    assert_eq!(length(), before);
}

fn a_flow_is_begun_once_and_resumed_when_it_is_there(store: &Store) {
    let flow = FlowRun::create(store, None).unwrap();
    assert_eq!(
        kind(FlowRun::create(store, Some(flow.run_id()))),
        ErrorKind::AlreadyExists
    );
    let nobody = RunId(uuid::Uuid::from_u128(7));
    assert_eq!(
        kind(FlowRun::resume(store, nobody, None)),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(Playback::new(store, nobody, at_once())),
        ErrorKind::NotFound
    );
}

fn other_records_and_states_of_a_run_are_passed_over(store: &Store) {
    use runlog::engine::{Batch, Expected, Kind, NewRecord, Op, Sequence, StreamId};
    let run = RunId(store.backend().new_id());
    let stream = StreamId(run.as_uuid());
    let other = |sequence| {
        let records = vec![NewRecord {
            labels: &[],
            kind: Kind(32),
            meta: b"",
            payload: b"a step of the run",
        }];
        let append = Op::Append {
            stream,
            expected: Expected::Any,
            records,
        };
        let state = Op::Snapshot {
            stream,
            expected: Expected::Any,
            sequence: Sequence(sequence),
            meta: b"\x01",
            payload: b"another state",
        };
        pollster::block_on(store.backend().commit(Batch::new(vec![append, state]))).unwrap();
    };
    other(1);
    let mut flow = FlowRun::create(store, Some(run)).unwrap();
    flow.start_agent("task", "sess").unwrap();
    assert_eq!(
        flow.record(&event(r#"{"type":"node:started"}"#)).unwrap(),
        2
    );
    flow.save_snapshot().unwrap();
    other(3);
    let (_, resumed) = FlowRun::resume(store, run, None).unwrap();
    assert_eq!((resumed.running.len(), resumed.sequence), (1, 4));
    assert_eq!(
        types(store, run, at_once()),
        ["node:started", "flow:resumed"]
    );
}

fn oversize_is_refused(store: &Store) {
    let mut flow = FlowRun::create(store, None).unwrap();
    let huge = "x".repeat(17 << 20);
    assert!(RuntimeEvent::parse(format!(r#"{{"type":"node:x","x":"{huge}"}}"#)).is_err());
    assert_eq!(
        kind(flow.command(&json(&format!(
            r#"{{"type":"send","runId":"r","message":"{huge}"}}"#
        )))),
        ErrorKind::TooLarge
    );
    assert!(flow.state().inbox.is_empty());
    assert_eq!(
        kind(flow.finish_node("n", huge.into())),
        ErrorKind::TooLarge
    );
    assert!(flow.state().outputs.is_empty(), "the state is as before");
    flow.save_snapshot().unwrap();
}

#[test]
fn a_flow_that_is_full_of_commands_is_saved_and_goes_on() {
    let store = Store::in_memory();
    let new = NewRun::in_new_session(NewSession::named("x"), "coder");
    let run = store.runs().start(new).unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    let send = |text: &str| RawJson::from_value(&RuntimeCommand::send("node", text)).unwrap();
    let large = send(&"m".repeat(6 << 20));
    flow.command(&large).unwrap();
    flow.command(&large).unwrap();
    let refused = flow.command(&large).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitReached);
    assert!(refused.to_string().contains("bytes of JSON"), "{refused}");
    flow.command(&send("small")).unwrap();
    // The state may be as large as without them.
    flow.state_mut()
        .state
        .insert("text".to_owned(), "s".repeat(15 << 20).into());
    flow.save_snapshot().unwrap();
    run.pause("lunch").unwrap();
    let resumed = store.runs().resume(run.id(), &Default::default()).unwrap();
    let (mut flow, _) = FlowRun::resume(&store, resumed.run.id, None).unwrap();
    assert_eq!(flow.take_inbox("node").len(), 3);
    flow.state_mut()
        .state
        .insert("more".to_owned(), "s".repeat(2 << 20).into());
    assert_eq!(
        flow.save_snapshot().unwrap_err().kind(),
        ErrorKind::TooLarge
    );
}

#[test]
fn what_is_recorded_while_a_flow_is_played_is_played_too() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let mut tick = || {
        let event = RuntimeEvent::parse(r#"{"type":"node:tick"}"#).unwrap();
        flow.record(&event).unwrap()
    };
    let last = (0..300).map(|_| tick()).last().unwrap();
    let options = PlaybackOptions {
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    };
    let id = flow.run_id();
    let mut playback = Playback::new(&store, id, options.clone()).unwrap();
    let mut next = || playback.next().map(|event| event.unwrap().1.sequence);
    while next() != Some(last) {}
    assert_eq!((next(), next()), (None, None));
    let mut tick = || {
        let event = RuntimeEvent::parse(r#"{"type":"node:tick"}"#).unwrap();
        flow.record(&event).unwrap()
    };
    let late = tick();
    assert_eq!((next(), next()), (Some(late), None));
    let late = tick();
    playback.turn(true);
    assert_eq!(playback.next().unwrap().unwrap().1.sequence, late - 2);
    playback.turn(false);
    let rest: Vec<u64> = playback.map(|event| event.unwrap().1.sequence).collect();
    assert_eq!(rest, [late - 1, late]);

    let nothing = PlaybackOptions {
        first: 2,
        last: Some(1),
        ..options
    };
    for backward in [false, true] {
        let options = PlaybackOptions {
            backward,
            ..nothing.clone()
        };
        let mut playback = Playback::new(&store, id, options).unwrap();
        assert!(playback.next().is_none());
        playback.seek(6);
        assert!(
            playback.next().is_none(),
            "it is outside of what was asked for"
        );
    }
}
