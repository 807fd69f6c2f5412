//! [`Agent`]: plays scripts through the public interface, from wherever a killed process left them.

use runlog::{
    ErrorKind, InstanceId, NewInstance, NewMessage, NewRun, NewSession, RawJson, Result, Run,
    RunId, RunStatus, SessionId,
    blocking::{RunRecorder, Store},
    runs::{Continuation, Dangling, ListRuns, ResumeOptions, ToolCallStatus, ToolOutcome},
};

use super::{
    seen::{CUT_OFF, Seen},
    tasks::{Answer, Line, Task},
};

/// The agent of a task's root run.
pub const ROOT: &str = "service";

/// The session of a task.
pub fn session_name(task: &Task) -> String {
    format!("task {}", task.name)
}

/// The agent of a helper's run: its place among the helpers.
pub fn helper_name(number: usize) -> String {
    format!("helper {number}")
}

/// Plays scripts, and says what was acknowledged: `NAME COUNT`, `NAME done`, `NAME resumed RUN`.
pub struct Agent<'a> {
    store: &'a Store,
    say: &'a (dyn Fn(String) + Sync),
}

/// Who asked a helper.
#[derive(Clone, Copy)]
struct Caller {
    run: RunId,
    session: SessionId,
    instance: InstanceId,
}

impl Caller {
    fn of(run: &Run) -> Self {
        Self {
            run: run.id,
            session: run.session_id,
            instance: run.instance_id,
        }
    }
}

/// An instance at work, and how far it has come.
struct Work {
    run: RunRecorder,
    line: usize,
}

impl<'a> Agent<'a> {
    /// An agent that works in this store.
    pub fn new(store: &'a Store, say: &'a (dyn Fn(String) + Sync)) -> Self {
        Self { store, say }
    }

    /// Plays a task to its end.
    pub fn play(&self, task: &Task) -> Result<()> {
        self.play_for(task, ROOT, None)
    }

    fn play_for(&self, task: &Task, agent: &str, caller: Option<Caller>) -> Result<()> {
        let Some(mut work) = self.take_up(task, agent, caller)? else {
            return Ok(());
        };
        while let Some(line) = task.lines.get(work.line) {
            match line {
                Line::User(json) => {
                    work.run.record_raw_message(RawJson::parse(json.clone())?)?;
                    work.line += 1;
                }
                Line::Says { json, together } => {
                    match work.run.next_step() {
                        Err(error) if error.kind() == ErrorKind::LimitReached => {
                            work = self.resume(task, &work.run.run(), caller)?;
                            continue;
                        }
                        step => step?,
                    };
                    let json = RawJson::parse(json.clone())?;
                    let answers = task.answers_after(work.line).filter(|_| *together);
                    let outcomes = answers.map(outcome).collect::<Result<Vec<_>>>()?;
                    if *together {
                        work.run.record_tool_call(json, &outcomes)?;
                    } else {
                        work.run.record_raw_message(json)?;
                    }
                    work.line += 1 + outcomes.len();
                }
                Line::Result(answer) => {
                    self.ask_helper(task, answer, Caller::of(&work.run.run()))?;
                    work.run.record_tool_result(&outcome(answer)?)?;
                    work.line += 1;
                }
            }
            self.tell(task, work.line);
        }
        work.run.complete(Some(&format!("{} is done", task.name)))?;
        (self.say)(format!("{} done", task.name));
        Ok(())
    }

    fn ask_helper(&self, task: &Task, answer: &Answer, caller: Caller) -> Result<()> {
        match answer.helper {
            Some(number) => {
                self.play_for(&task.helpers[number], &helper_name(number), Some(caller))
            }
            None => Ok(()),
        }
    }

    /// Begins a task, or goes on with it; `None` when it is done.
    fn take_up(&self, task: &Task, agent: &str, caller: Option<Caller>) -> Result<Option<Work>> {
        let instance = match caller {
            None => match self.store.find_session(&session_name(task)) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                session => Some(self.store.root_instance(session?.id)?),
            },
            Some(caller) => {
                let instances = self.store.instances(caller.session)?;
                instances
                    .into_iter()
                    .find(|instance| instance.agent_name == agent)
            }
        };
        let Some(instance) = instance else {
            return self.begin(task, agent, caller).map(Some);
        };
        let runs = newest_first(self.store, instance.session_id, instance.id)?;
        let Some(newest) = runs.into_iter().next() else {
            return Err(runlog::Error::new(
                ErrorKind::Damaged,
                format!("instance {} has no run", instance.id),
            ));
        };
        match newest.status {
            RunStatus::Completed => Ok(None),
            _ => self.resume(task, &newest, caller).map(Some),
        }
    }

    fn begin(&self, task: &Task, agent: &str, caller: Option<Caller>) -> Result<Work> {
        let new = match caller {
            None => NewRun::in_new_session(NewSession::named(session_name(task)), agent),
            Some(caller) => {
                let instance = NewInstance {
                    parent_instance_id: Some(caller.instance),
                    ..NewInstance::new(caller.session, agent)
                };
                NewRun {
                    parent_run_id: Some(caller.run),
                    ..NewRun::in_new_instance(instance)
                }
            }
        };
        let messages = task.opening.iter().map(|json| RawJson::parse(json.clone()));
        let messages = messages.collect::<std::result::Result<Vec<_>, _>>()?;
        let run = self.store.runs().start(NewRun {
            messages,
            max_steps: task.max_steps,
            ..new
        })?;
        self.tell(task, 0);
        Ok(Work { run, line: 0 })
    }

    /// Resumes a run in one of four ways, by its number and how often it was resumed before.
    fn resume(&self, task: &Task, run: &Run, caller: Option<Caller>) -> Result<Work> {
        let seen = self.seen(task, run.instance_id)?;
        let context = self.store.context(run.instance_id)?;
        let open = context.dangling_tool_calls()?.len();
        let answers = task.lines[seen.lines..]
            .iter()
            .take(open)
            .filter_map(|line| match line {
                Line::Result(answer) => Some(answer),
                _ => None,
            });
        let answers: Vec<&Answer> = answers.collect();
        let asks_helper = answers.iter().any(|answer| answer.helper.is_some());
        let dangling = match (seen.resumes + task.lines.len()) % 4 {
            // What a helper did would be lost.
            0 | 1 if asks_helper => Dangling::Report,
            0 => Dangling::Close,
            1 => Dangling::CloseWith(CUT_OFF[1].to_owned()),
            2 => {
                for answer in &answers {
                    self.ask_helper(task, answer, Caller::of(run))?;
                }
                Dangling::Answer(
                    answers
                        .into_iter()
                        .map(outcome)
                        .collect::<Result<Vec<_>>>()?,
                )
            }
            _ => Dangling::Report,
        };
        // No message may stand between a call that is left open and its result.
        let leaves_open = dangling == Dangling::Report && open > 0;
        let message = match seen.resumes % 2 {
            1 if !leaves_open => {
                Continuation::Message(NewMessage::user("The process was killed. Go on."))
            }
            _ => Continuation::Default,
        };
        let parent_run_id = caller.map(|caller| caller.run);
        let options = ResumeOptions {
            message,
            dangling,
            parent_run_id,
            ..ResumeOptions::default()
        };
        let resumed = self.store.runs().resume(run.id, &options)?;
        (self.say)(format!("{} resumed {}", task.name, resumed.run.id));
        let line = self.seen(task, run.instance_id)?.lines;
        Ok(Work {
            run: resumed.recorder,
            line,
        })
    }

    fn seen(&self, task: &Task, instance: InstanceId) -> Result<Seen> {
        let events = self.store.contexts().get_events(instance, 1)?;
        Seen::of(task, &events).map_err(|what| runlog::Error::new(ErrorKind::Damaged, what))
    }

    fn tell(&self, task: &Task, line: usize) {
        (self.say)(format!("{} {}", task.name, task.opening.len() + line));
    }
}

/// The runs of an instance, the newest first.
pub fn newest_first(store: &Store, session: SessionId, instance: InstanceId) -> Result<Vec<Run>> {
    let mut options = ListRuns {
        session_id: Some(session),
        limit: 3,
        ..ListRuns::default()
    };
    let mut runs = Vec::new();
    loop {
        let page = store.runs().list(&options)?;
        for listed in page.items.iter().filter(|run| run.instance_id == instance) {
            runs.extend(store.runs().get(listed.id)?);
        }
        options.cursor = page.next;
        if options.cursor.is_none() {
            return Ok(runs);
        }
    }
}

fn outcome(answer: &Answer) -> Result<ToolOutcome> {
    let output = RawJson::parse(answer.output.clone())?;
    let status = if answer.is_error {
        ToolCallStatus::Error
    } else {
        ToolCallStatus::Completed
    };
    let outcome = ToolOutcome {
        status,
        ..ToolOutcome::completed(answer.id.as_str(), output)
    };
    Ok(outcome.took_ms(answer.duration_ms))
}
