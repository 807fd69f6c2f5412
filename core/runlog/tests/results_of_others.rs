//! Results of tool calls that others record while the run that made the calls is at work: a concurrent run of the same
//! context, or a program that appends to the context. A call has its result, whoever recorded it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use runlog::{
    NewMessage, NewRun, NewSession, NewToolCall, RawJson,
    blocking::{Context, RunRecorder, Store},
    contexts::{AppendOptions, EventOptions},
    runs::{ListToolCalls, ToolCall, ToolCallStatus, ToolOutcome},
};

const TOOLS: [&str; 2] = ["ls", "rm"];

/// What is done to a context with two runs at work.
#[derive(Clone, Debug)]
enum Action {
    /// A run asks for so many calls.
    Ask { run: usize, calls: usize },
    /// One of the open calls gets its result, by a run, or by none.
    Answer {
        open: usize,
        by: Option<usize>,
        fails: bool,
    },
    /// The first run says something.
    Say,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let ask = (0..2usize, 1..3usize).prop_map(|(run, calls)| Action::Ask { run, calls });
    let by = prop_oneof![Just(None), Just(Some(0)), Just(Some(1))];
    let answer = (0..4usize, by, any::<bool>()).prop_map(|(open, by, fails)| Action::Answer {
        open,
        by,
        fails,
    });
    vec(
        prop_oneof![3 => ask, 6 => answer, 1 => Just(Action::Say)],
        1..30,
    )
}

/// What is known of a call: the run that made it, its tool, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    run: usize,
    tool: &'static str,
    ended: Option<bool>,
}

struct Room {
    store: Store,
    context: Context,
    runs: [RunRecorder; 2],
    /// By the numbers of the calls.
    known: BTreeMap<usize, Known>,
}

impl Room {
    fn new() -> Self {
        let store = Store::in_memory();
        let first = NewRun::in_new_session(NewSession::default(), "coder");
        let first = store.runs().start(first).unwrap();
        let instance = first.run().instance_id;
        let beside = NewRun {
            concurrent: true,
            ..NewRun::new(instance)
        };
        let runs = [first, store.runs().start(beside).unwrap()];
        let context = store.context(instance).unwrap();
        Self {
            store,
            context,
            runs,
            known: BTreeMap::new(),
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Ask { run, calls } => {
                let first = self.known.len();
                let made = first..first + calls;
                let tool = |number: usize| TOOLS[number % TOOLS.len()];
                let asked = made
                    .clone()
                    .map(|number| NewToolCall::new(number.to_string(), tool(number), "{}"));
                let message = NewMessage::assistant("").with_tool_calls(asked);
                // Refused while calls wait for their results.
                if self.runs[*run].record_message(message).is_ok() {
                    self.known.extend(made.map(|number| {
                        let (run, tool) = (*run, tool(number));
                        let ended = None;
                        (number, Known { run, tool, ended })
                    }));
                }
            }
            Action::Answer { open, by, fails } => {
                let mut waiting = self
                    .known
                    .iter_mut()
                    .filter(|(_, call)| call.ended.is_none());
                let Some((number, call)) = waiting.nth(*open) else {
                    return;
                };
                answer(&self.context, by.map(|by| &self.runs[by]), *number, *fails);
                call.ended = Some(*fails);
            }
            Action::Say => {
                let _ = self.runs[0].record_message(NewMessage::user("go on"));
            }
        }
    }

    /// Every list of every run has the calls that are known, with their results.
    fn check(&self) {
        for (place, run) in self.runs.iter().enumerate() {
            let of_run = |call: &&Known| call.run == place;
            let all: Vec<&Known> = self.known.values().filter(of_run).collect();
            let calls = self.calls(run, None, None);
            assert_eq!(self.told(&calls), all);
            for call in &calls {
                let alone = self.store.runs().tool_call(run.id(), call.id).unwrap();
                assert_eq!(alone.as_ref(), Some(call));
            }
            for tool in [None, Some(TOOLS[0]), Some(TOOLS[1])] {
                for status in [
                    ToolCallStatus::Pending,
                    ToolCallStatus::Completed,
                    ToolCallStatus::Error,
                ] {
                    let admitted = |call: &&ToolCall| {
                        call.status == status && tool.is_none_or(|tool| call.tool_name == tool)
                    };
                    let expected: Vec<ToolCall> = calls.iter().filter(admitted).cloned().collect();
                    assert_eq!(self.calls(run, tool, Some(status)), expected);
                }
            }
        }
    }

    /// All pages of a list, two calls each.
    fn calls(
        &self,
        run: &RunRecorder,
        tool: Option<&str>,
        status: Option<ToolCallStatus>,
    ) -> Vec<ToolCall> {
        let mut options = ListToolCalls {
            tool_name: tool.map(str::to_owned),
            status,
            limit: 2,
            ..ListToolCalls::default()
        };
        let mut calls = Vec::new();
        loop {
            let page = self.store.runs().tool_calls(run.id(), &options).unwrap();
            calls.extend(page.items);
            options.cursor = page.next;
            if options.cursor.is_none() {
                return calls;
            }
        }
    }

    /// What a list says of calls, each of which has its own result.
    fn told(&self, calls: &[ToolCall]) -> Vec<&Known> {
        let told = calls.iter().map(|call| {
            let id = call.tool_call_id.as_deref().unwrap();
            let known = &self.known[&id.parse().unwrap()];
            let ended = match call.status {
                ToolCallStatus::Pending => None,
                status => Some(status == ToolCallStatus::Error),
            };
            assert_eq!((ended, call.tool_name.as_str()), (known.ended, known.tool));
            let output = known.ended.map(|_| RawJson::string(&format!("of {id}")));
            assert_eq!(call.output, output);
            known
        });
        told.collect()
    }
}

fn answer(context: &Context, by: Option<&RunRecorder>, number: usize, fails: bool) {
    let (id, output) = (number.to_string(), format!("of {number}"));
    match by {
        Some(run) => {
            let outcome = ToolOutcome {
                status: if fails {
                    ToolCallStatus::Error
                } else {
                    ToolCallStatus::Completed
                },
                ..ToolOutcome::completed(&id, RawJson::string(&output))
            };
            run.record_tool_result(&outcome).unwrap();
        }
        None => {
            let options = AppendOptions {
                event: EventOptions {
                    tool_is_error: Some(fails),
                    ..EventOptions::default()
                },
                ..AppendOptions::default()
            };
            let message = NewMessage::tool(&id, &output);
            context.append_message_with(message, &options).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_call_has_its_result_whoever_recorded_it(actions in actions()) {
        let mut room = Room::new();
        for action in &actions {
            room.act(action);
        }
        room.check();
        for run in &room.runs {
            run.complete(None).unwrap();
        }
        room.check();
    }
}
