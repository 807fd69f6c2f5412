//! What a store answers to every query, but for places in its log.

#![allow(missing_docs, unreachable_pub, reason = "a module of a test binary")]

use std::fmt::Debug;

use pollster::block_on;
use runlog::{
    RunStatus, Session, SessionId,
    agents::ListAgents,
    blocking::{FlowRun, Playback, Store},
    chats::{ChatFilter, ChatOrder, ListSteps, MessageFilter},
    engine::{ReadOptions, Record, Sequence, StreamId},
    flows::PlaybackOptions,
    runs::{ListRunMessages, ListRuns, ListToolCalls, ResumeOptions, ToolCallStatus},
    sessions::{Deleted, ListSessions},
    transcripts::keep::{aside_stream, envelope_matches},
};

#[derive(Default)]
pub struct Answers(pub Vec<String>);

/// The numbers of requests are places in the log, and so those of their store alone.
fn without_numbers(session: &mut Session) {
    let requests = session
        .chat
        .iter_mut()
        .flat_map(|chat| &mut chat.open_requests);
    requests.for_each(|request| request.number = 0);
}

impl Answers {
    pub fn of(store: &Store) -> Self {
        let mut answers = Self::default();
        let shown = ListSessions {
            deleted: Deleted::Shown,
            limit: 1000,
            ..ListSessions::default()
        };
        let mut sessions = store.list_sessions(&shown).unwrap().items;
        sessions.iter_mut().for_each(without_numbers);
        answers.add("sessions", &sessions);
        answers.add(
            "live",
            &store.list_sessions(&ListSessions {
                limit: 1000,
                ..ListSessions::default()
            }),
        );
        for session in sessions {
            answers.session(store, session.id);
        }
        for status in [
            None,
            Some(RunStatus::Paused),
            Some(RunStatus::Failed),
            Some(RunStatus::Running),
        ] {
            let list = ListRuns {
                status,
                limit: 1000,
                ..ListRuns::default()
            };
            answers.add("runs", &store.runs().list(&list).unwrap().items);
        }
        answers.chats(store);
        for project in [None, Some("p")] {
            answers.add("agents", &store.agents().list(&ListAgents::of(project)));
        }
        for stream in [super::rich::CUSTOM, super::rich::EMPTY] {
            answers.stream(store, stream);
        }
        answers
    }

    pub fn add(&mut self, what: &str, answer: &impl Debug) {
        self.0.push(format!("{what}: {answer:?}"));
    }

    /// What is there of a session: contexts, runs, flows, and what stands beside messages.
    pub fn session(&mut self, store: &Store, id: SessionId) {
        let mut session = store.get_session(id).unwrap();
        session.iter_mut().for_each(without_numbers);
        self.add("session", &session);
        // Of a deleted session nothing is told.
        let instances = store.instances(id).unwrap_or_default();
        self.add("instances", &instances);
        self.add("mark", &store.import_mark(id));
        let mut beside: Vec<Record> = records(store, aside_stream(id));
        for instance in &instances {
            let mut events = store
                .contexts()
                .get_events(instance.id, 1)
                .unwrap_or_default();
            events.iter_mut().for_each(|event| event.position = 0);
            self.add("events", &events);
            if store.get_session(id).unwrap().is_some() {
                self.add(
                    "messages",
                    &store.context(instance.id).unwrap().get_messages(),
                );
                self.add(
                    "dangling",
                    &store.context(instance.id).unwrap().dangling_tool_calls(),
                );
            }
            beside.extend(records(store, StreamId(instance.id.as_uuid())));
        }
        beside.sort_by_key(|record| record.position);
        for pair in beside.windows(2) {
            let is_pair = pair[0].meta == b"envelope"[..]
                && envelope_matches(pair[0].position, pair[1].position);
            self.add("beside", &(is_pair, &pair[0].payload, &pair[1].payload));
        }
        let list = ListRuns {
            session_id: Some(id),
            limit: 1000,
            ..ListRuns::default()
        };
        for run in store.runs().list(&list).unwrap().items {
            self.run(store, run.id);
        }
        self.stream(store, StreamId(id.as_uuid()));
    }

    fn run(&mut self, store: &Store, id: runlog::RunId) {
        let runs = store.runs();
        self.add("run", &runs.get(id));
        self.add("children", &runs.children(id, 100, None).unwrap().items);
        let of_100_steps = ResumeOptions {
            max_total_steps: 100,
            ..ResumeOptions::default()
        };
        self.add(
            "resumable",
            &runs
                .resumable(id, &of_100_steps)
                .map_err(|error| error.kind()),
        );
        let mut messages = runs
            .messages(
                id,
                &ListRunMessages {
                    limit: 1000,
                    ..ListRunMessages::default()
                },
            )
            .unwrap()
            .items;
        messages.iter_mut().for_each(|message| message.id = 0);
        self.add("run messages", &messages);
        let mut calls = runs
            .tool_calls(
                id,
                &ListToolCalls {
                    limit: 1000,
                    ..ListToolCalls::default()
                },
            )
            .unwrap()
            .items;
        calls
            .iter_mut()
            .for_each(|call| (call.id, call.message_id) = (0, None));
        self.add("tool calls", &calls);
        let failed = ListToolCalls {
            status: Some(ToolCallStatus::Error),
            limit: 1000,
            ..ListToolCalls::default()
        };
        let found = runs.tool_calls(id, &failed).unwrap().items;
        let failed = calls
            .iter()
            .filter(|call| call.status == ToolCallStatus::Error);
        assert_eq!(
            found
                .iter()
                .map(|call| &call.tool_call_id)
                .collect::<Vec<_>>(),
            failed.map(|call| &call.tool_call_id).collect::<Vec<_>>()
        );
        for call in &calls {
            let of_tool = ListToolCalls {
                tool_name: Some(call.tool_name.clone()),
                limit: 1000,
                ..ListToolCalls::default()
            };
            let found = runs.tool_calls(id, &of_tool).unwrap().items;
            let ids: Vec<_> = found.into_iter().map(|call| call.tool_call_id).collect();
            assert!(
                ids.contains(&call.tool_call_id),
                "{call:?} isn't among {ids:?}"
            );
        }
        self.add(
            "flow",
            &FlowRun::inspect(store, id).map_err(|error| error.kind()),
        );
        self.add("waiting", &FlowRun::waiting(store, id));
        for event in Playback::new(store, id, PlaybackOptions::default()).unwrap() {
            let (delay, mut event) = event.unwrap();
            event.position = 0;
            self.add("playback", &(delay, event));
        }
    }

    fn chats(&mut self, store: &Store) {
        let chats = store.chats();
        let deleted = ChatFilter {
            deleted: true,
            ..ChatFilter::default()
        };
        self.add("deleted chats", &chats.list_chats(&deleted).unwrap());
        for order in [ChatOrder::Created, ChatOrder::LastMessage, ChatOrder::Sort] {
            let list = chats
                .list_chats(&ChatFilter {
                    order,
                    sessions: true,
                    pagesize: 100,
                    ..ChatFilter::default()
                })
                .unwrap();
            self.add("chats", &list);
            for chat in &list.items {
                let id = &chat.chat_id;
                let mut messages = chats.get_messages(id, &MessageFilter::default()).unwrap();
                messages.iter_mut().for_each(|message| message.id = None);
                self.add("chat", &(chats.get_chat(id), &messages));
                let mut steps = chats
                    .list_steps(&ListSteps {
                        chat_id: Some(id.to_string()),
                        limit: 100,
                        ..ListSteps::default()
                    })
                    .unwrap()
                    .items;
                steps.iter_mut().for_each(|step| step.id = None);
                self.add("steps", &steps);
                self.add(
                    "last",
                    &chats
                        .get_last_incomplete_step(id)
                        .unwrap()
                        .map(|step| step.step_id),
                );
                for step in &steps {
                    let of_request = chats.get_steps(&step.request_id).unwrap();
                    let of_request: Vec<_> =
                        of_request.into_iter().map(|step| step.step_id).collect();
                    self.add("stack", &(of_request, chats.get_stack_path(&step.stack_id)));
                }
            }
        }
    }

    fn stream(&mut self, store: &Store, stream: StreamId) {
        for record in records(store, stream) {
            let Record {
                sequence,
                time_ms,
                kind,
                redacted,
                meta,
                payload,
                ..
            } = record;
            // What a copy shares, or was written in its place, is older than the copy.
            let time_ms = if record.stream == stream { time_ms } else { 0 };
            self.add(
                "record",
                &(sequence, time_ms, kind, redacted, meta, payload),
            );
        }
        // A fork whose parent isn't there has all records of its own.
        let info = block_on(store.backend().stream(stream));
        let told = info.map(|info| info.map(|info| (info.id, info.last_sequence)));
        self.add("stream", &told);
        let snapshot = block_on(store.backend().latest_snapshot(stream, Sequence::MAX))
            .ok()
            .flatten();
        self.add(
            "snapshot",
            &snapshot.map(|it| (it.sequence, it.time_ms, it.meta, it.payload)),
        );
    }
}

pub fn records(store: &Store, stream: StreamId) -> Vec<Record> {
    block_on(store.backend().read(stream, ReadOptions::default()))
        .map(|page| page.records)
        .unwrap_or_default()
}
