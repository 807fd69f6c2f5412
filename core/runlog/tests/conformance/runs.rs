//! Claims about runs, on any backend. Those that begin with `scenario` are named after the requirements they show.

use std::{collections::BTreeSet, sync::Arc};

use runlog::{
    ErrorKind, NewInstance, NewMessage, NewRun, NewSession, NewToolCall, RawJson, Role, RunId,
    RunRecorder, RunStatus, Store,
    backend::Backend,
    contexts::{AppendOptions, ContextEventKind, EventOptions},
    engine::{Batch, Expected, Kind, NewRecord, Op, Position, StreamId},
    pages::Page,
    runs::{
        Dangling, ListRunMessages, ListRuns, ListToolCalls, ResumeOptions, ToolCallStatus,
        ToolOutcome, pause_reason,
    },
};
use uuid::Uuid;

use super::contexts::{raw, texts};

type Shared = Arc<dyn Backend>;

fn store(backend: Shared) -> Store {
    Store::with_backend(backend)
}

async fn start(store: &Store) -> RunRecorder {
    store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .await
        .unwrap()
}

fn asks(calls: &[(&str, &str)]) -> NewMessage {
    let calls = calls
        .iter()
        .map(|(id, name)| NewToolCall::new(*id, *name, r#"{"path": "/"}"#));
    NewMessage::assistant("").with_tool_calls(calls)
}

fn ids<T>(page: &Page<T>, id: impl Fn(&T) -> u64) -> Vec<u64> {
    page.items.iter().map(id).collect()
}

/// The last position of the log: nothing is written while it stays.
async fn end(backend: &Shared) -> Position {
    let page = backend.scan(Position::FIRST, u64::MAX).await.unwrap();
    page.records
        .last()
        .map_or(Position::ZERO, |record| record.position)
}

pub async fn scenario_message_persistence_during_execution(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    run.record_message(NewMessage::system("Be brief."))
        .await
        .unwrap();
    run.record_message(NewMessage::user("List it."))
        .await
        .unwrap();
    run.next_step().await.unwrap();
    run.record_message(asks(&[("c1", "ls")])).await.unwrap();
    run.record_tool_result(&ToolOutcome::completed("c1", RawJson::string("a")))
        .await
        .unwrap();
    // Another handle reads it while the run goes on: nothing waits for its end.
    let other = Store::with_backend(backend);
    let page = other
        .runs()
        .messages(run.id(), &ListRunMessages::default())
        .await
        .unwrap();
    let told: Vec<_> = page
        .items
        .iter()
        .map(|message| (message.run_id, message.role, message.step_number))
        .collect();
    let id = run.id();
    let expected = [
        (id, Role::System, 0),
        (id, Role::User, 0),
        (id, Role::Assistant, 1),
        (id, Role::Tool, 1),
    ];
    assert_eq!(told, expected);
    assert!(page.items.iter().all(|message| message.created_at_ms > 0));
    assert_eq!(
        other.runs().get(id).await.unwrap().unwrap().status,
        RunStatus::Running
    );
}

pub async fn scenario_message_content_format(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    let openai = r#"{ "role":"assistant","content":null, "tool_calls":[{"id":"c1","type":"function",
        "function":{"name":"ls","arguments":"{\"p\":1.0}"}}],"unknown":"\u00e9" }"#;
    let anthropic = r#"{"content":[{"type":"tool_use","id":"t1","name":"cat","input":{ "p" : 1e5 }}],"role":"assistant"}"#;
    let result = r#"{"role": "tool","tool_call_id":"c1","content":"x"}"#;
    for json in [openai, result, anthropic] {
        run.record_raw_message(raw(json)).await.unwrap();
    }
    let page = store
        .runs()
        .messages(run.id(), &ListRunMessages::default())
        .await
        .unwrap();
    let contents: Vec<_> = page
        .items
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(contents, [openai, result, anthropic]);
    let context = store.context(run.run().instance_id).await.unwrap();
    assert_eq!(
        texts(&context.get_messages().await.unwrap()),
        [openai, result, anthropic],
        "nothing is stored twice"
    );
}

pub async fn scenario_successful_tool_call_recording(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    run.next_step().await.unwrap();
    let outcome = ToolOutcome::completed("c1", raw(r#"{"files": [1.0]}"#)).took_ms(12);
    let recorded = run
        .record_tool_call(asks(&[("c1", "ls")]).to_json().unwrap(), &[outcome])
        .await
        .unwrap();
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .await
        .unwrap()
        .items;
    let [call] = calls.as_slice() else {
        panic!("{calls:?}")
    };
    assert_eq!(
        (call.run_id, call.message_id, call.tool_name.as_str()),
        (run.id(), Some(recorded.id), "ls")
    );
    assert_eq!(call.input.as_str(), r#"{"path": "/"}"#);
    assert_eq!(
        call.output.as_ref().unwrap().as_str(),
        r#"{"files": [1.0]}"#
    );
    assert_eq!(
        (call.status, call.duration_ms, call.step_number),
        (ToolCallStatus::Completed, Some(12), 1)
    );
    assert!(call.created_at_ms > 0);
}

pub async fn scenario_failed_tool_call_recording(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    let anthropic =
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"cat","input":{}}]}"#;
    for (message, id) in [
        (asks(&[("c1", "ls")]).to_json().unwrap(), "c1"),
        (raw(anthropic), "t1"),
    ] {
        run.record_raw_message(message).await.unwrap();
        run.record_tool_result(&ToolOutcome::error(id, RawJson::string("no such file")))
            .await
            .unwrap();
    }
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .await
        .unwrap()
        .items;
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(
            (call.status, call.output.unwrap().as_str()),
            (ToolCallStatus::Error, r#""no such file""#)
        );
    }
    let messages = store
        .context(run.run().instance_id)
        .await
        .unwrap()
        .get_messages()
        .await
        .unwrap();
    let anthropic = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no such file"}]}"#;
    assert_eq!(
        messages.last().unwrap().json.as_str(),
        anthropic,
        "in the provider's own form"
    );
}

pub async fn scenario_tool_call_duration_tracking(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    run.record_message(asks(&[("c1", "ls"), ("c2", "cat")]))
        .await
        .unwrap();
    for (id, duration_ms) in [("c2", 7), ("c1", 1_234)] {
        let outcome = ToolOutcome::completed(id, RawJson::string("x")).took_ms(duration_ms);
        run.record_tool_result(&outcome).await.unwrap();
    }
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .await
        .unwrap()
        .items;
    let durations: Vec<_> = calls.iter().map(|call| call.duration_ms).collect();
    assert_eq!(
        durations,
        [Some(1_234), Some(7)],
        "the tool's own time, whatever the clock says"
    );
}

pub async fn scenario_resume_a_paused_run(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    run.record_raw_message(raw(r#"{ "role":"user","content":"go" }"#))
        .await
        .unwrap();
    run.next_step().await.unwrap();
    run.record_message(asks(&[("c1", "ls")])).await.unwrap();
    run.record_tool_result(&ToolOutcome::completed("c1", RawJson::string("a")))
        .await
        .unwrap();
    run.pause(pause_reason::REQUESTED).await.unwrap();
    let before = store
        .context(run.run().instance_id)
        .await
        .unwrap()
        .get_messages()
        .await
        .unwrap();

    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .await
        .unwrap();
    assert_eq!(
        resumed.messages[..3],
        before[..],
        "the conversation exactly as it was"
    );
    let told = r#"{"role":"user","content":"Continue your work from where you left off."}"#;
    assert_eq!(texts(&resumed.messages[3..]), [told]);
    assert_eq!(
        (resumed.run.resumed_from, resumed.run.status),
        (Some(run.id()), RunStatus::Running)
    );
    assert_eq!(resumed.run.instance_id, run.run().instance_id);
    assert!(resumed.dangling.is_empty());
    let old = store.runs().get(run.id()).await.unwrap().unwrap();
    assert_eq!(
        (old.status, old.resumed_by),
        (RunStatus::Paused, Some(resumed.run.id))
    );
    let count = async |id| {
        store
            .runs()
            .messages(id, &ListRunMessages::default())
            .await
            .unwrap()
            .items
            .len()
    };
    assert_eq!(
        (count(run.id()).await, count(resumed.run.id).await),
        (3, 1),
        "each run has its own messages"
    );

    resumed.recorder.pause("again").await.unwrap();
    let message = runlog::runs::Continuation::Message(NewMessage::user("Now the tests."));
    let options = ResumeOptions {
        message,
        ..ResumeOptions::default()
    };
    let again = store.runs().resume(resumed.run.id, &options).await.unwrap();
    assert_eq!(again.messages.len(), 5);
    assert_eq!(
        again.messages[4].json.as_str(),
        r#"{"role":"user","content":"Now the tests."}"#
    );
}

pub async fn scenario_cumulative_step_counter_across_resumes(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    for _ in 0..45 {
        run.next_step().await.unwrap();
    }
    run.record_message(NewMessage::assistant("x"))
        .await
        .unwrap();
    assert_eq!(run.pause("stop").await.unwrap().step_count, 45);
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .await
        .unwrap()
        .recorder;
    assert_eq!(resumed.next_step().await.unwrap(), 46);
    let recorded = resumed
        .record_message(NewMessage::assistant("y"))
        .await
        .unwrap();
    assert_eq!(recorded.step_number, 46);
    assert_eq!(
        store
            .runs()
            .get(resumed.id())
            .await
            .unwrap()
            .unwrap()
            .step_count,
        46
    );
    let listed = store.runs().list(&ListRuns::default()).await.unwrap().items;
    assert_eq!(
        listed.iter().map(|run| run.step_count).collect::<Vec<_>>(),
        [46, 45],
        "also while it runs"
    );
    for listed in listed {
        let project = store.runs().project(listed.id).await.unwrap();
        assert_eq!(project, listed.project, "as in the list");
    }
    let none = store.runs().project(RunId(store.backend().new_id())).await;
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
}

pub async fn scenario_fresh_step_budget_per_resume(backend: Shared) {
    let store = store(backend);
    let new = NewRun {
        max_steps: Some(2),
        ..NewRun::in_new_session(NewSession::default(), "coder")
    };
    let run = store.runs().start(new).await.unwrap();
    assert_eq!(
        (
            run.next_step().await.unwrap(),
            run.next_step().await.unwrap()
        ),
        (1, 2)
    );
    assert_eq!(
        run.next_step().await.unwrap_err().kind(),
        ErrorKind::LimitReached
    );
    let paused = store.runs().get(run.id()).await.unwrap().unwrap();
    assert_eq!((paused.status, paused.step_count), (RunStatus::Paused, 2));
    assert_eq!(
        paused.pause_reason.as_deref(),
        Some(pause_reason::STEP_BUDGET)
    );

    let options = ResumeOptions {
        max_steps: Some(50),
        ..ResumeOptions::default()
    };
    let resumed = store
        .runs()
        .resume(run.id(), &options)
        .await
        .unwrap()
        .recorder;
    for step in 3..=52 {
        assert_eq!(resumed.next_step().await.unwrap(), step);
    }
    assert_eq!(
        resumed.next_step().await.unwrap_err().kind(),
        ErrorKind::LimitReached
    );
    assert_eq!(resumed.run().step_count, 52);
    let same = store
        .runs()
        .resume(resumed.id(), &ResumeOptions::default())
        .await
        .unwrap()
        .run;
    assert_eq!(
        same.max_steps,
        Some(50),
        "unless told otherwise, the budget is that of the run before"
    );
}

pub async fn scenario_max_total_steps_enforcement(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    for _ in 0..500 {
        run.next_step().await.unwrap();
    }
    run.pause("stop").await.unwrap();
    let before = end(&backend).await;
    let error = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    assert!(error.to_string().contains("maximum total steps"), "{error}");
    assert_eq!(end(&backend).await, before);
    let options = ResumeOptions {
        max_total_steps: 501,
        ..ResumeOptions::default()
    };
    assert_eq!(
        store
            .runs()
            .resume(run.id(), &options)
            .await
            .unwrap()
            .recorder
            .next_step()
            .await
            .unwrap(),
        501
    );
}

pub async fn scenario_resume_non_paused_run_rejected(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let (completed, failed, cancelled, running) = (
        start(&store).await,
        start(&store).await,
        start(&store).await,
        start(&store).await,
    );
    completed.complete(None).await.unwrap();
    failed.fail("boom").await.unwrap();
    cancelled.cancel(None).await.unwrap();
    let before = end(&backend).await;
    for run in [&completed, &failed, &cancelled, &running] {
        let error = store
            .runs()
            .resume(run.id(), &ResumeOptions::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongStatus);
        assert!(
            error
                .to_string()
                .contains("only paused runs can be resumed"),
            "{error}"
        );
    }
    running.pause("stop").await.unwrap();
    let resumed = store
        .runs()
        .resume(running.id(), &ResumeOptions::default())
        .await
        .unwrap();
    let twice = store
        .runs()
        .resume(running.id(), &ResumeOptions::default())
        .await
        .unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::WrongStatus);
    assert!(
        twice.to_string().contains(&resumed.run.id.to_string()),
        "{twice}"
    );
    assert!(end(&backend).await > before);
}

pub async fn scenario_list_agent_runs(backend: Shared) {
    let store = store(backend);
    let session = store
        .create_session(NewSession {
            project: Some("p".into()),
            ..NewSession::default()
        })
        .await
        .unwrap();
    let mut made = Vec::new();
    for number in 0..9 {
        let agent = if number % 3 == 0 { "coder" } else { "tester" };
        let new = NewRun {
            parent_run_id: (number > 4).then(|| made[0]),
            ..NewRun::in_new_instance(NewInstance::new(session.id, agent))
        };
        let run = store.runs().start(new).await.unwrap();
        made.push(run.id());
        if number % 2 == 0 {
            run.complete(Some("done")).await.unwrap();
        }
    }
    let list = async |mut filter: ListRuns| {
        filter.limit = 2;
        let mut numbers = Vec::new();
        loop {
            let page = store.runs().list(&filter).await.unwrap();
            assert!(page.items.len() <= 2);
            numbers.extend(
                page.items
                    .iter()
                    .map(|run| made.iter().position(|id| *id == run.id).unwrap()),
            );
            // Runs that start meanwhile are on no later page.
            filter.cursor = page.next;
            if filter.cursor.is_none() {
                return numbers;
            }
        }
    };
    let all = ListRuns::default;
    assert_eq!(list(all()).await, [8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(
        list(ListRuns {
            status: Some(RunStatus::Running),
            ..all()
        })
        .await,
        [7, 5, 3, 1]
    );
    assert_eq!(
        list(ListRuns {
            agent_name: Some("coder".into()),
            ..all()
        })
        .await,
        [6, 3, 0]
    );
    assert_eq!(
        list(ListRuns {
            parent_run_id: Some(made[0]),
            ..all()
        })
        .await,
        [8, 7, 6, 5]
    );
    assert_eq!(
        list(ListRuns {
            session_id: Some(session.id),
            ..all()
        })
        .await
        .len(),
        9
    );
    assert_eq!(
        list(ListRuns {
            project: Some("p".into()),
            ..all()
        })
        .await
        .len(),
        9
    );
    assert_eq!(
        list(ListRuns {
            project: Some("q".into()),
            ..all()
        })
        .await,
        [0; 0]
    );
    let coder = ListRuns {
        agent_name: Some("coder".into()),
        status: Some(RunStatus::Completed),
        ..all()
    };
    assert_eq!(list(coder).await, [6, 0]);

    let first = store
        .runs()
        .list(&ListRuns { limit: 2, ..all() })
        .await
        .unwrap();
    start(&store).await;
    let second = store
        .runs()
        .list(&ListRuns {
            limit: 2,
            cursor: first.next,
            ..all()
        })
        .await
        .unwrap();
    assert_eq!(
        second.items.iter().map(|run| run.id).collect::<Vec<_>>(),
        [made[6], made[5]]
    );
    let json = serde_json::to_value(&second.items[0]).unwrap();
    for field in [
        "id",
        "agent_name",
        "status",
        "step_count",
        "duration_ms",
        "created_at",
        "completed_at",
    ] {
        assert!(json.get(field).is_some(), "{field} of {json}");
    }
}

pub async fn scenario_get_agent_run_detail(backend: Shared) {
    let store = store(backend);
    let parent = start(&store).await;
    let session = parent.run().session_id;
    let new = NewRun {
        max_steps: Some(9),
        parent_run_id: Some(parent.id()),
        node_id: Some("build".into()),
        ..NewRun::in_new_instance(NewInstance::new(session, "coder"))
    };
    let run = store.runs().start(new).await.unwrap();
    run.pause("stop").await.unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .await
        .unwrap()
        .recorder;
    resumed.fail("boom").await.unwrap();
    let detail = store.runs().get(resumed.id()).await.unwrap().unwrap();
    assert_eq!(
        (detail.error_message.as_deref(), detail.summary.as_deref()),
        (Some("boom"), None)
    );
    assert_eq!(
        (detail.max_steps, detail.parent_run_id),
        (Some(9), Some(parent.id()))
    );
    assert_eq!(
        (detail.resumed_from, detail.node_id.as_deref()),
        (Some(run.id()), Some("build"))
    );
    assert!(detail.completed_at_ms >= Some(detail.created_at_ms) && detail.duration_ms.is_some());
    let done = parent.complete(Some("done")).await.unwrap();
    assert_eq!(
        store.runs().get(parent.id()).await.unwrap(),
        Some(done.clone())
    );
    assert_eq!(done.summary.as_deref(), Some("done"));
    assert_eq!(store.runs().get(RunId(Uuid::nil())).await.unwrap(), None);
    assert_eq!(
        store
            .runs()
            .get(RunId(done.instance_id.as_uuid()))
            .await
            .unwrap(),
        None,
        "an instance is no run"
    );
}

pub async fn scenario_list_messages_for_a_run(backend: Shared) {
    let store = store(backend);
    let session = store.create_session(NewSession::default()).await.unwrap();
    let agent = store
        .create_instance(session.id, "coder", None)
        .await
        .unwrap();
    store
        .context(agent.id)
        .await
        .unwrap()
        .append_message(NewMessage::user("before any run"))
        .await
        .unwrap();
    let first = store.runs().start(NewRun::new(agent.id)).await.unwrap();
    first
        .record_message(NewMessage::user("of another run"))
        .await
        .unwrap();
    first.complete(None).await.unwrap();
    let run = store.runs().start(NewRun::new(agent.id)).await.unwrap();
    for step in 1..=3 {
        run.next_step().await.unwrap();
        run.record_message(asks(&[("c", "ls")])).await.unwrap();
        let outcome = ToolOutcome::completed("c", RawJson::string(&step.to_string()));
        run.record_tool_result(&outcome).await.unwrap();
    }
    let mut options = ListRunMessages {
        limit: 2,
        ..ListRunMessages::default()
    };
    let mut steps = Vec::new();
    loop {
        let page = store.runs().messages(run.id(), &options).await.unwrap();
        steps.extend(page.items.iter().map(|message| message.step_number));
        options.cursor = page.next;
        if options.cursor.is_none() {
            break;
        }
        if steps.len() == 2 {
            run.record_message(NewMessage::assistant("meanwhile"))
                .await
                .unwrap();
        }
    }
    assert_eq!(
        steps,
        [1, 1, 2, 2, 3, 3, 3],
        "by step, each once, also what came meanwhile"
    );
    let second = ListRunMessages {
        step_number: Some(2),
        ..ListRunMessages::default()
    };
    assert_eq!(
        store
            .runs()
            .messages(run.id(), &second)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
}

pub async fn scenario_get_single_message(backend: Shared) {
    let store = store(backend);
    let (run, other) = (start(&store).await, start(&store).await);
    let recorded = run
        .record_raw_message(raw(r#"{"role":"user", "content":[1.0]}"#))
        .await
        .unwrap();
    let foreign = other.record_message(NewMessage::user("x")).await.unwrap();
    let message = store
        .runs()
        .message(run.id(), recorded.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        message.content.as_str(),
        r#"{"role":"user", "content":[1.0]}"#
    );
    assert_eq!((message.id, message.sequence_number), (recorded.id, 1));
    for nothing in [0, 1, foreign.id, foreign.id + 1, u64::MAX] {
        assert_eq!(
            store.runs().message(run.id(), nothing).await.unwrap(),
            None,
            "{nothing}"
        );
    }
    store
        .contexts()
        .delete_events_after(run.run().instance_id, 0)
        .await
        .unwrap();
    assert_eq!(
        store.runs().message(run.id(), recorded.id).await.unwrap(),
        None
    );
    let again = run.record_message(NewMessage::user("again")).await.unwrap();
    assert_eq!(again.sequence_number, recorded.sequence_number);
    assert_eq!(
        store.runs().message(run.id(), recorded.id).await.unwrap(),
        None,
        "another is in its place"
    );
    let page = store
        .runs()
        .messages(run.id(), &ListRunMessages::default())
        .await
        .unwrap();
    assert_eq!(
        ids(&page, |message| message.id),
        [again.id],
        "a truncation is followed"
    );
}

pub async fn scenario_list_tool_calls_for_a_run(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    for step in 0..4 {
        run.next_step().await.unwrap();
        run.record_message(asks(&[("a", "ls"), ("b", "cat")]))
            .await
            .unwrap();
        run.record_tool_result(&ToolOutcome::completed("a", RawJson::string("x")))
            .await
            .unwrap();
        // The last call of all is never answered.
        if step < 3 {
            run.record_tool_result(&ToolOutcome::error("b", RawJson::string("y")))
                .await
                .unwrap();
        }
    }
    let list = async |options: ListToolCalls| {
        let mut options = ListToolCalls {
            limit: 3,
            ..options
        };
        let mut found = Vec::new();
        loop {
            let page = store.runs().tool_calls(run.id(), &options).await.unwrap();
            assert!(page.items.len() <= 3);
            found.extend(
                page.items
                    .iter()
                    .map(|call| (call.step_number, call.tool_name.clone(), call.status)),
            );
            options.cursor = page.next;
            if options.cursor.is_none() {
                return found;
            }
        }
    };
    let all = list(ListToolCalls::default()).await;
    assert_eq!(all.len(), 8);
    assert!(all.is_sorted_by_key(|(step, ..)| *step));
    let of_status = |status| {
        all.iter()
            .filter(|(.., found)| *found == status)
            .cloned()
            .collect::<Vec<_>>()
    };
    for (status, count) in [
        (ToolCallStatus::Completed, 4),
        (ToolCallStatus::Error, 3),
        (ToolCallStatus::Pending, 1),
    ] {
        let found = list(ListToolCalls {
            status: Some(status),
            ..ListToolCalls::default()
        })
        .await;
        assert_eq!(found, of_status(status));
        assert_eq!(found.len(), count);
    }
    let named = list(ListToolCalls {
        tool_name: Some("cat".into()),
        ..ListToolCalls::default()
    })
    .await;
    assert_eq!(named.len(), 4);
    assert!(named.iter().all(|(_, name, _)| name == "cat"));
}

pub async fn scenario_get_single_tool_call(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    run.record_message(asks(&[("a", "ls"), ("b", "cat")]))
        .await
        .unwrap();
    let result = run
        .record_tool_result(&ToolOutcome::completed("b", raw("[1.0]")))
        .await
        .unwrap();
    run.record_tool_result(&ToolOutcome::completed("a", raw("[]")))
        .await
        .unwrap();
    run.record_message(asks(&[("b", "rm")])).await.unwrap();
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .await
        .unwrap()
        .items;
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(
            store
                .runs()
                .tool_call(run.id(), call.id)
                .await
                .unwrap()
                .as_ref(),
            Some(call)
        );
    }
    assert_eq!(calls[1].output.as_ref().unwrap().as_str(), "[1.0]");
    for nothing in [0, 1, result.id, calls[0].message_id.unwrap(), u64::MAX] {
        assert_eq!(
            store.runs().tool_call(run.id(), nothing).await.unwrap(),
            None,
            "{nothing}"
        );
    }
}

pub async fn scenario_new_columns_on_agent_runs(backend: Shared) {
    let store = store(backend);
    let json = serde_json::to_value(start(&store).await.run()).unwrap();
    assert_eq!(json["step_count"], 0);
    for absent in [
        "parent_run_id",
        "max_steps",
        "resumed_from",
        "error_message",
        "completed_at",
    ] {
        assert!(json.get(absent).is_none(), "{absent} of {json}");
    }
    let old: runlog::Run = serde_json::from_value(serde_json::json!({
        "id": json["id"], "session_id": json["session_id"], "instance_id": json["instance_id"],
        "agent_name": "coder", "status": "completed", "created_at": 1,
    }))
    .unwrap();
    assert_eq!(
        (old.step_count, old.parent_run_id, old.completed_at_ms),
        (0, None, None)
    );
}

pub async fn scenario_parent_child_run_relationship(backend: Shared) {
    let store = store(backend);
    let parent = start(&store).await;
    let session = parent.run().session_id;
    let mut children = BTreeSet::new();
    for _ in 0..3 {
        let instance = NewInstance {
            parent_instance_id: Some(parent.run().instance_id),
            ..NewInstance::new(session, "helper")
        };
        let new = NewRun {
            parent_run_id: Some(parent.id()),
            ..NewRun::in_new_instance(instance)
        };
        children.insert(store.runs().start(new).await.unwrap().id());
    }
    let first = store.runs().children(parent.id(), 2, None).await.unwrap();
    let rest = store
        .runs()
        .children(parent.id(), 2, first.next)
        .await
        .unwrap();
    let found: BTreeSet<RunId> = first
        .items
        .iter()
        .chain(&rest.items)
        .map(|run| run.id)
        .collect();
    assert_eq!((found, rest.next), (children, None));
    let nobody = RunId(Uuid::nil());
    assert_eq!(
        store
            .runs()
            .children(nobody, 2, None)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let orphan = NewRun {
        parent_run_id: Some(nobody),
        ..NewRun::in_new_session(NewSession::default(), "coder")
    };
    assert_eq!(
        store.runs().start(orphan).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

pub async fn late_writes_to_an_ended_run_are_refused(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    // Somebody else ends it, so that this recorder doesn't know.
    store
        .runs()
        .recorder(run.id())
        .await
        .unwrap()
        .cancel(Some("not needed"))
        .await
        .unwrap();
    let before = end(&backend).await;
    let refused = [
        run.record_message(NewMessage::user("late"))
            .await
            .unwrap_err(),
        run.record_tool_result(&ToolOutcome::completed("c", RawJson::null()))
            .await
            .unwrap_err(),
        run.record_tool_call(asks(&[("c", "ls")]).to_json().unwrap(), &[])
            .await
            .unwrap_err(),
        run.next_step().await.unwrap_err(),
        run.complete(None).await.unwrap_err(),
        run.pause("late").await.unwrap_err(),
        run.cancel(None).await.unwrap_err(),
    ];
    assert_eq!(
        refused.map(|error| error.kind()),
        [ErrorKind::WrongStatus; 7]
    );
    assert_eq!(end(&backend).await, before, "nothing is written");
    assert_eq!(run.run().status, RunStatus::Cancelled);
}

pub async fn a_paused_run_can_be_cancelled_but_not_one_that_was_resumed(backend: Shared) {
    let store = store(backend);
    let (run, resumed) = (start(&store).await, start(&store).await);
    run.pause("stop").await.unwrap();
    assert_eq!(run.cancel(None).await.unwrap().status, RunStatus::Cancelled);
    resumed.pause("stop").await.unwrap();
    store
        .runs()
        .resume(resumed.id(), &ResumeOptions::default())
        .await
        .unwrap();
    assert_eq!(
        resumed.cancel(None).await.unwrap_err().kind(),
        ErrorKind::WrongStatus
    );
}

pub async fn a_step_is_one_batch(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    let before = end(&backend).await;
    run.next_step().await.unwrap();
    assert_eq!(
        end(&backend).await,
        before,
        "counting a step writes nothing"
    );
    let outcome = ToolOutcome::completed("a", RawJson::null());
    let message = asks(&[("a", "ls")]).to_json().unwrap();
    let recorded = run.record_tool_call(message, &[outcome]).await.unwrap();
    let kinds: Vec<u8> = backend
        .scan(before.next(), 100)
        .await
        .unwrap()
        .records
        .iter()
        .map(|r| r.kind.0)
        .collect();
    assert_eq!(
        kinds,
        [128, 3, 4, 5, 33],
        "the context's stream, message, call, result, and the run's step"
    );
    assert_eq!(
        (
            recorded.sequence_number,
            recorded.last_sequence,
            recorded.step_number
        ),
        (1, 3, 1)
    );
}

pub async fn orphaned_runs_are_paused_once(backend: Shared) {
    let first = store(Arc::clone(&backend));
    let (orphan, done, kept) = (
        start(&first).await,
        start(&first).await,
        start(&first).await,
    );
    orphan.next_step().await.unwrap();
    orphan.record_message(asks(&[("a", "ls")])).await.unwrap();
    done.complete(None).await.unwrap();
    assert!(
        first.recover_runs().await.unwrap().is_empty(),
        "somebody records them"
    );
    let id = orphan.id();
    drop(orphan);
    assert_eq!(
        first.recover_runs().await.unwrap(),
        [id],
        "nobody does any more"
    );
    drop((kept, done));

    let second = Store::with_backend(backend);
    assert_eq!(second.recover_runs().await.unwrap().len(), 1);
    assert!(second.recover_runs().await.unwrap().is_empty());
    let run = second.runs().get(id).await.unwrap().unwrap();
    assert_eq!((run.status, run.step_count), (RunStatus::Paused, 1));
    assert_eq!(run.pause_reason.as_deref(), Some(pause_reason::ORPHANED));
    let paused = ListRuns {
        status: Some(RunStatus::Paused),
        ..ListRuns::default()
    };
    assert_eq!(second.runs().list(&paused).await.unwrap().items.len(), 2);
    let resumed = second
        .runs()
        .resume(id, &ResumeOptions::default())
        .await
        .unwrap();
    assert_eq!(resumed.recorder.next_step().await.unwrap(), 2);
}

pub async fn dangling_calls_are_reported_or_closed(backend: Shared) {
    let store = store(backend);
    let mut told = Vec::new();
    for dangling in [
        Dangling::Close,
        Dangling::CloseWith("the power failed".into()),
        Dangling::Report,
    ] {
        let run = start(&store).await;
        run.next_step().await.unwrap();
        run.record_message(asks(&[("a", "ls"), ("b", "cat")]))
            .await
            .unwrap();
        run.record_tool_result(&ToolOutcome::completed("a", RawJson::string("x")))
            .await
            .unwrap();
        run.pause("stop").await.unwrap();
        let options = ResumeOptions {
            dangling,
            ..ResumeOptions::default()
        };
        let resumed = store.runs().resume(run.id(), &options).await.unwrap();
        assert_eq!(
            resumed
                .dangling
                .iter()
                .map(|call| call.id.as_deref())
                .collect::<Vec<_>>(),
            [Some("b")]
        );
        let calls = store
            .runs()
            .tool_calls(run.id(), &ListToolCalls::default())
            .await
            .unwrap()
            .items;
        told.push((
            resumed.messages.len(),
            calls[1].status,
            calls[1].output.clone(),
        ));
    }
    assert_eq!(
        (told[0].0, told[0].1),
        (4, ToolCallStatus::Error),
        "of the run that made the call"
    );
    assert_eq!(
        told[1],
        (
            4,
            ToolCallStatus::Error,
            Some(RawJson::string("the power failed"))
        )
    );
    assert_eq!(
        told[2],
        (2, ToolCallStatus::Pending, None),
        "no message stands between a call and its result"
    );
}

pub async fn a_context_that_another_run_went_on_with_is_not_resumed(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    run.record_message(NewMessage::user("a")).await.unwrap();
    run.pause("stop").await.unwrap();
    let instance = run.run().instance_id;
    store
        .context(instance)
        .await
        .unwrap()
        .append_message(NewMessage::user("of no run"))
        .await
        .unwrap();
    let other = store.runs().start(NewRun::new(instance)).await.unwrap();
    other.record_message(NewMessage::user("b")).await.unwrap();
    let before = end(&backend).await;
    let error = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), end(&backend).await),
        (ErrorKind::Conflict, before)
    );
    store
        .contexts()
        .delete_events_after(instance, 2)
        .await
        .unwrap();
    let error = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .await
        .unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::WrongStatus,
        "the other one is still at work in it"
    );
    other.complete(None).await.unwrap();
    assert_eq!(
        store
            .runs()
            .resume(run.id(), &ResumeOptions::default())
            .await
            .unwrap()
            .messages
            .len(),
        3
    );
}

pub async fn many_tasks_write_one_run(backend: Shared) {
    let store = store(backend);
    let run = start(&store).await;
    let other = store.runs().recorder(run.id()).await.unwrap();
    run.next_step().await.unwrap();
    other.next_step().await.unwrap();
    for recorder in [&run, &other, &run, &other] {
        recorder
            .record_message(NewMessage::user("x"))
            .await
            .unwrap();
    }
    other.next_step().await.unwrap();
    other.record_message(NewMessage::user("y")).await.unwrap();
    assert_eq!(run.next_step().await.unwrap(), 3);
    let page = store
        .runs()
        .messages(run.id(), &ListRunMessages::default())
        .await
        .unwrap();
    assert_eq!(
        page.items
            .iter()
            .map(|message| message.step_number)
            .collect::<Vec<_>>(),
        [1, 1, 1, 1, 2]
    );
}

pub async fn what_a_run_refuses_is_written_nowhere(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    let instance = run.run().instance_id;
    let before = end(&backend).await;
    let runs = store.runs();
    let nobody = RunId(Uuid::nil());
    assert_eq!(
        runs.recorder(nobody).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        runs.resume(nobody, &ResumeOptions::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let of_nobody = runs
        .messages(nobody, &ListRunMessages::default())
        .await
        .unwrap_err();
    assert_eq!(of_nobody.kind(), ErrorKind::NotFound);

    assert_eq!(
        RawJson::parse("{ not json").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    for message in ["[]", r#"{"content":"x"}"#, r#"{"role":"nobody"}"#] {
        assert_eq!(
            run.record_raw_message(raw(message))
                .await
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
    }
    let huge = NewMessage::user("x".repeat((64 << 20) + 1));
    assert_eq!(
        run.record_message(huge).await.unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(
        run.pause(&long).await.unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    assert_eq!(
        run.complete(Some(&long)).await.unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    let stray = ToolOutcome::completed("b", RawJson::null());
    let message = asks(&[("a", "ls")]).to_json().unwrap();
    assert_eq!(
        run.record_tool_call(message.clone(), &[stray])
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    let pending = ToolOutcome {
        status: ToolCallStatus::Pending,
        ..ToolOutcome::completed("a", RawJson::null())
    };
    assert_eq!(
        run.record_tool_call(message, &[pending])
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    let elsewhere = AppendOptions {
        expected_last_sequence: Some(9),
        ..AppendOptions::default()
    };
    let error = run
        .record_raw_message_with(raw(r#"{"role":"user","content":"x"}"#), &elsewhere)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);

    let beside = || NewRun {
        concurrent: true,
        ..NewRun::new(instance)
    };
    for new in [
        NewRun {
            max_steps: Some(0),
            ..beside()
        },
        NewRun {
            agent_name: Some(String::new()),
            ..beside()
        },
        NewRun {
            messages: vec![raw("[]")],
            ..beside()
        },
        NewRun::in_new_session(NewSession::named(""), "coder"),
    ] {
        assert_eq!(
            runs.start(new).await.unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    let taken = NewRun {
        id: Some(run.id()),
        ..beside()
    };
    assert_eq!(
        runs.start(taken).await.unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        runs.list(&ListRuns {
            limit: 0,
            ..ListRuns::default()
        })
        .await
        .unwrap_err()
        .kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(end(&backend).await, before);

    let keyed = AppendOptions {
        idempotency_key: Some("k".into()),
        ..AppendOptions::default()
    };
    let message = raw(r#"{"role":"user","content":"x"}"#);
    let first = run
        .record_raw_message_with(message.clone(), &keyed)
        .await
        .unwrap();
    let second = run.record_raw_message_with(message, &keyed).await.unwrap();
    assert_eq!(
        (first.id, first.repeated, second.repeated),
        (second.id, false, true)
    );
}

pub async fn a_cursor_fits_only_the_list_it_came_from(backend: Shared) {
    let store = store(backend);
    let (run, other) = (start(&store).await, start(&store).await);
    run.record_message(NewMessage::user("x")).await.unwrap();
    run.record_message(asks(&[("a", "ls"), ("b", "ls")]))
        .await
        .unwrap();
    let runs = store.runs();
    let all = ListRuns {
        limit: 1,
        ..ListRuns::default()
    };
    let of_runs = runs.list(&all).await.unwrap().next;
    let messages = ListRunMessages {
        limit: 1,
        ..ListRunMessages::default()
    };
    let of_messages = runs.messages(run.id(), &messages).await.unwrap().next;
    let calls = ListToolCalls {
        limit: 1,
        ..ListToolCalls::default()
    };
    let of_calls = runs.tool_calls(run.id(), &calls).await.unwrap().next;
    assert!(of_runs.is_some() && of_messages.is_some() && of_calls.is_some());

    let running = Some(RunStatus::Running);
    let refused = [
        runs.list(&ListRuns {
            cursor: of_messages.clone(),
            ..all.clone()
        })
        .await
        .map(|_| ()),
        runs.list(&ListRuns {
            cursor: Some("garbage".into()),
            ..all.clone()
        })
        .await
        .map(|_| ()),
        runs.list(&ListRuns {
            cursor: of_runs.clone(),
            status: running,
            ..all.clone()
        })
        .await
        .map(|_| ()),
        runs.messages(
            run.id(),
            &ListRunMessages {
                cursor: of_calls.clone(),
                ..messages.clone()
            },
        )
        .await
        .map(|_| ()),
        runs.messages(
            other.id(),
            &ListRunMessages {
                cursor: of_messages,
                ..messages
            },
        )
        .await
        .map(|_| ()),
        runs.tool_calls(
            other.id(),
            &ListToolCalls {
                cursor: of_calls,
                ..calls
            },
        )
        .await
        .map(|_| ()),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(
        runs.list(&ListRuns {
            cursor: of_runs,
            ..all
        })
        .await
        .unwrap()
        .items[0]
            .id,
        run.id()
    );
}

pub async fn a_run_begins_with_its_messages(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let new = NewRun {
        messages: vec![
            raw(r#"{"role":"system","content":"s"}"#),
            raw(r#"{"role":"user","content":"u"}"#),
        ],
        ..NewRun::in_new_session(NewSession::titled("t"), "coder")
    };
    let run = store.runs().start(new).await.unwrap();
    let page = store
        .runs()
        .messages(run.id(), &ListRunMessages::default())
        .await
        .unwrap();
    assert_eq!(
        page.items
            .iter()
            .map(|message| message.step_number)
            .collect::<Vec<_>>(),
        [0, 0]
    );
    let session = store
        .get_session(run.run().session_id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(session.title.as_deref(), Some("t"));
    assert_eq!(
        store.root_instance(session.id).await.unwrap().id,
        run.run().instance_id
    );
    // An event that names the run, but was appended past the recorder after its end, is none of its messages.
    run.complete(None).await.unwrap();
    let event = EventOptions {
        run_id: Some(run.id()),
        ..EventOptions::default()
    };
    let options = AppendOptions {
        event,
        ..AppendOptions::default()
    };
    let contexts = store.contexts();
    let (instance, content) = (run.run().instance_id, raw(r#"{"content":"late"}"#));
    let late = contexts.append_event_with(
        instance,
        ContextEventKind::UserMessage,
        content,
        None,
        &options,
    );
    let late = late.await.unwrap();
    assert_eq!(
        store
            .runs()
            .messages(run.id(), &ListRunMessages::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    assert_eq!(
        store.runs().message(run.id(), late.position).await.unwrap(),
        None
    );
}

pub async fn events_of_others_in_a_runs_stream_disturb_nothing(backend: Shared) {
    let store = store(Arc::clone(&backend));
    let run = start(&store).await;
    for step in 1..=3 {
        let records = vec![
            NewRecord {
                labels: &[],
                kind: Kind(100),
                meta: &[],
                payload: b"{}"
            };
            3
        ];
        let op = Op::Append {
            stream: StreamId(run.id().as_uuid()),
            expected: Expected::Any,
            records,
        };
        backend.commit(Batch::new(vec![op])).await.unwrap();
        assert_eq!(run.next_step().await.unwrap(), step);
        assert_eq!(
            run.record_message(NewMessage::assistant("x"))
                .await
                .unwrap()
                .step_number,
            step
        );
    }
    let done = run.complete(None).await.unwrap();
    assert_eq!(done.step_count, 3);
    assert_eq!(store.runs().get(run.id()).await.unwrap(), Some(done));
}
