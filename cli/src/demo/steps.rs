//! The demo's steps: record, kill, recover, resume, fork, verify; each is checked, timed and printed.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{self, Command, Stdio},
    time::{Duration, Instant},
};

use runlog::{
    AgentInstance, Session, blocking::Store, sessions::CopySession, transcripts::NewContextEvent,
};
use serde::{Deserialize, Serialize};

use super::{
    agent::AGENT,
    shell::{called, quoted},
    transcript::messages,
};
use crate::{
    args::Global,
    commands::{copy, truncate},
    failure::{Failure, Result},
    find,
    output::Out,
    store, text, view,
};

/// The session's name.
const NAME: &str = "demo";
/// How long the agent thinks before each message, so that there is something to see.
const PAUSE_MS: u64 = 4;
/// What the recorded session is called.
const TITLE: &str = "Invoices are dated a day early";
/// How many of the first events are shown.
const SHOWN: usize = 5;
/// How many tool calls without a result are named.
const CALLS_NAMED: usize = 3;

/// The results of the demo.
#[derive(Serialize, Default)]
pub(crate) struct Report {
    store: String,
    messages: usize,
    events: u64,
    acknowledged: u64,
    found: u64,
    lost: u64,
    record_seconds: f64,
    open_seconds: f64,
    dangling_tool_calls: usize,
    resumed_events: u64,
    resume_seconds: f64,
    fork_at: u64,
    fork_seconds: f64,
    truncate_after: u64,
    truncate_seconds: f64,
    original_events: u64,
    fork_events: u64,
    records_verified: u64,
    /// Whether every check held.
    pub(crate) ok: bool,
}

pub(crate) struct Steps<'a> {
    global: &'a Global,
    out: &'a mut Out,
    program: PathBuf,
    messages: Vec<&'static str>,
    /// The context's last sequence after each message.
    last_of: Vec<u64>,
    report: Report,
}

/// The lines of `runlog run --json` that are looked at.
#[derive(Deserialize)]
struct RunLine {
    ack: Option<AckLine>,
}

#[derive(Deserialize)]
struct AckLine {
    last_sequence: u64,
}

/// A process that is killed when its handle is dropped.
struct Running(process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> Steps<'a> {
    /// The steps, on a store that they create.
    pub(crate) fn new(global: &'a Global, out: &'a mut Out) -> Result<Self> {
        let program =
            env::current_exe().map_err(|error| Failure::io(&error, "can't find this program"))?;
        let messages = messages();
        let mut last_of = Vec::with_capacity(messages.len());
        let mut last = 0;
        for message in &messages {
            last += events_of(message)?.len() as u64;
            last_of.push(last);
        }
        let report = Report {
            store: global.store.display().to_string(),
            messages: messages.len(),
            events: last,
            ok: true,
            ..Report::default()
        };
        Ok(Self {
            global,
            out,
            program,
            messages,
            last_of,
            report,
        })
    }

    /// Runs all of them.
    pub(crate) fn run(mut self) -> Result<Report> {
        let calls = self.report.events - self.report.messages as u64;
        self.say(&format!(
            "A coding agent fixes a bug: {}, {}, {}.",
            text::count(self.report.messages as u64, "message", "messages"),
            text::count(calls, "tool call", "tool calls"),
            text::count(self.report.events, "event", "events")
        ))?;
        self.say(&format!(
            "Everything is kept in {}.",
            text::path(&self.global.store)
        ))?;
        self.record_and_kill()?;
        self.recover()?;
        self.resume()?;
        self.fork()?;
        self.verify()?;
        self.farewell()?;
        Ok(self.report)
    }

    /// The command that records the demo's agent.
    fn recorder(&self, with: &[&str], pause_ms: u64) -> Result<Running> {
        let pause_ms = pause_ms.to_string();
        let child = Command::new(&self.program)
            .arg("--store")
            .arg(&self.global.store)
            .args(["--json", "run"])
            .args(with)
            .arg("--")
            .arg(&self.program)
            .args([AGENT, "--pause-ms", &pause_ms])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        child
            .map(Running)
            .map_err(|error| Failure::io(&error, "can't start the recorder"))
    }

    fn record_and_kill(&mut self) -> Result<()> {
        self.head(
            1,
            "Record",
            "`runlog run -- AGENT`: each event is durable before the next",
        )?;
        let half = self.report.events / 2;
        let started = Instant::now();
        let mut running = self.recorder(
            &["--name", NAME, "--title", TITLE, "--agent", "coder"],
            PAUSE_MS,
        )?;
        let pid = running.0.id();
        let lines = running.0.stdout.take().map(BufReader::new);
        let mut acknowledged = 0;
        let mut shown = 0;
        let mut is_killed = false;
        for line in lines.into_iter().flat_map(BufRead::lines) {
            // A line that was cut by the kill is not an acknowledgement.
            let Some(ack) = line.ok().and_then(|line| ack_of(&line)) else {
                continue;
            };
            for sequence in acknowledged + 1..=ack {
                if shown < SHOWN {
                    shown += 1;
                    self.event(sequence)?;
                }
            }
            acknowledged = ack;
            if acknowledged >= half && !is_killed {
                is_killed = true;
                // SIGKILL: nothing of the recorder runs any more, not even to tidy up.
                running
                    .0
                    .kill()
                    .map_err(|error| Failure::io(&error, "can't kill the recorder"))?;
                self.report.record_seconds = started.elapsed().as_secs_f64();
            }
        }
        drop(running);
        self.report.acknowledged = acknowledged;
        let took = text::duration(Duration::from_secs_f64(self.report.record_seconds));
        self.say(&format!(
            "     … {acknowledged} events acknowledged in {took}"
        ))?;
        self.head(
            2,
            "Kill",
            &format!("SIGKILL to the recorder, process {pid}, in the middle of its work"),
        )?;
        self.check(
            is_killed && acknowledged < self.report.events,
            "it was killed before it was done",
        )
    }

    fn recover(&mut self) -> Result<()> {
        self.head(
            3,
            "Recover",
            "open the store again, and compare it with what was acknowledged",
        )?;
        let started = Instant::now();
        let store = store::open_quietly(self.global)?;
        self.report.open_seconds = started.elapsed().as_secs_f64();
        let recovery = store.backend().maintenance().recovery()?;
        let (_, agent) = self.session(&store)?;
        let context = store.context(agent.id)?;
        let found = context.get_last_sequence()?;
        let dangling = context.dangling_tool_calls()?;
        let same = self.is_prefix(&store, &agent)?;
        store.close()?;
        let acknowledged = self.report.acknowledged;
        self.report.found = found;
        self.report.lost = acknowledged.saturating_sub(found);
        self.report.dangling_tool_calls = dangling.len();
        let took = text::duration(Duration::from_secs_f64(self.report.open_seconds));
        let scanned = recovery.records_scanned;
        let torn = match recovery.torn_bytes {
            0 => String::new(),
            bytes => format!(", cut {} of a write that was under way", text::bytes(bytes)),
        };
        self.say(&format!(
            "     open for writing after {took}: looked at {scanned} records{torn}"
        ))?;
        if !dangling.is_empty() {
            let what = text::count(dangling.len() as u64, "tool call has", "tool calls have");
            let named = dangling.iter().take(CALLS_NAMED);
            let mut named: Vec<_> = named
                .map(|call| format!("{} ({})", call.name, call.sequence_number))
                .collect();
            if dangling.len() > CALLS_NAMED {
                named.push("…".to_owned());
            }
            for line in text::wrap(
                &format!("     {what} no result: {}", named.join(", ")),
                self.out.width(),
            ) {
                self.say(&line)?;
            }
        }
        let lost = self.report.lost;
        self.check(
            lost == 0 && same,
            &format!(
                "acknowledged {acknowledged}, found {found}: {lost} lost, every byte as it was sent"
            ),
        )
    }

    fn resume(&mut self) -> Result<()> {
        self.head(
            4,
            "Resume",
            "`runlog run --resume demo -- AGENT`: it gets its context and goes on",
        )?;
        let started = Instant::now();
        let mut running =
            self.recorder(&["--resume", NAME, "--no-message", "--leave-tool-calls"], 0)?;
        let lines = running.0.stdout.take().map(BufReader::new);
        let mut last = self.report.found;
        for line in lines.into_iter().flat_map(BufRead::lines) {
            last = line.ok().and_then(|line| ack_of(&line)).unwrap_or(last);
        }
        let status = running
            .0
            .wait()
            .map_err(|error| Failure::io(&error, "can't wait for the recorder"))?;
        self.report.resume_seconds = started.elapsed().as_secs_f64();
        self.report.resumed_events = last.saturating_sub(self.report.found);
        let store = store::open_read_only(self.global)?;
        let (_, agent) = self.session(&store)?;
        let last = store.context(agent.id)?.get_last_sequence()?;
        let is_whole = self.is_prefix(&store, &agent)? && last == self.report.events;
        let took = text::duration(Duration::from_secs_f64(self.report.resume_seconds));
        self.say(&format!(
            "     {} more events in {took}, the start of both processes included",
            self.report.resumed_events
        ))?;
        let messages = self.report.messages;
        self.check(
            status.success() && is_whole,
            &format!("all {messages} messages are there, once, in order, byte for byte"),
        )
    }

    fn fork(&mut self) -> Result<()> {
        let at = self.last_of[self.last_of.len() / 2];
        let after = self.last_of[self.last_of.len() / 3];
        self.head(
            5,
            "Fork",
            &format!("copy it up to event {at}; in the copy, forget what came after {after}"),
        )?;
        let store = store::open_quietly(self.global)?;
        let (session, agent) = self.session(&store)?;
        let started = Instant::now();
        let options = CopySession {
            up_to_sequence: Some(at),
            name: Some(format!("{NAME}-fork")),
            ..CopySession::default()
        };
        let fork = copy::copy(&store, &session, &options)?;
        self.report.fork_seconds = started.elapsed().as_secs_f64();
        let fork_agent = store.root_instance(fork.id)?;
        let copied = store.context(fork_agent.id)?.get_last_sequence()?;
        let started = Instant::now();
        let forgotten = truncate::truncate(&store, &fork, after)?;
        self.report.truncate_seconds = started.elapsed().as_secs_f64();
        let original = store.context(agent.id)?.get_last_sequence()?;
        let left = store.context(fork_agent.id)?.get_last_sequence()?;
        let same = self.is_prefix(&store, &fork_agent)? && self.is_prefix(&store, &agent)?;
        store.close()?;
        let (fork_took, truncate_took) = (
            text::duration(Duration::from_secs_f64(self.report.fork_seconds)),
            text::duration(Duration::from_secs_f64(self.report.truncate_seconds)),
        );
        self.say(&format!(
            "     shared {copied} events with the copy in {fork_took}; forgot {forgotten} there in {truncate_took}"
        ))?;
        self.report.fork_at = at;
        self.report.truncate_after = after;
        self.report.original_events = original;
        self.report.fork_events = left;
        self.check(
            copied == at
                && left == after
                && forgotten == at - after
                && original == self.report.events
                && same,
            &format!("the copy has {left} events, the original still {original}, untouched"),
        )
    }

    fn verify(&mut self) -> Result<()> {
        self.head(6, "Verify", "read every byte of the store")?;
        let found = store::verify(self.global, &mut |_, _| {})?;
        self.report.records_verified = found.records;
        self.check(
            found.is_sound(),
            &format!(
                "{} are sound",
                text::count(found.records, "record", "records")
            ),
        )
    }

    fn farewell(&mut self) -> Result<()> {
        let store = quoted(&self.global.store);
        let runlog = called(&self.program);
        self.say("")?;
        let result = if self.report.ok {
            "All checks held."
        } else {
            "A check failed: see FAILED above."
        };
        self.say(&format!("{result} Look around:"))?;
        for rest in [
            "runs",
            "show demo | less",
            "replay demo --speed 0.05",
            "stat",
            "show demo-fork | tail -n 20",
        ] {
            self.say(&format!("  {runlog} --store {store} {rest}"))?;
        }
        if cfg!(feature = "viewer") {
            self.say("Or in a browser, until Ctrl-C:")?;
            self.say(&format!("  {runlog} --store {store} serve --open"))
        } else {
            self.say("A build with the viewer (`--features viewer`) shows it in a browser.")
        }
    }

    fn session(&self, store: &Store) -> Result<(Session, AgentInstance)> {
        let session = find::session(store, NAME)?;
        let agent = store.root_instance(session.id)?;
        Ok((session, agent))
    }

    /// Whether the messages of a context are the first ones of the transcript, byte for byte.
    fn is_prefix(&self, store: &Store, agent: &AgentInstance) -> Result<bool> {
        let stored = store.context(agent.id)?.get_messages()?;
        let stored: Vec<&str> = stored.iter().map(|it| it.json.as_str()).collect();
        Ok(self.messages.starts_with(&stored))
    }

    /// Shows the event at a sequence of the transcript.
    fn event(&mut self, sequence: u64) -> Result<()> {
        let index = self.last_of.partition_point(|last| *last < sequence);
        let first = index
            .checked_sub(1)
            .map_or(0, |before| self.last_of[before])
            + 1;
        let events = events_of(self.messages[index])?;
        let place = usize::try_from(sequence - first).unwrap_or_default();
        let Some(event) = events.get(place) else {
            return Ok(());
        };
        let kind = text::pad(view::kind_name(event.kind), 11);
        let said = view::summary_of(
            event.kind,
            &event.content,
            self.out.width().saturating_sub(24),
        );
        self.say(&format!(
            "  {sequence:>5}  {}  {said}",
            view::styled(event.kind, &kind)
        ))
    }

    fn head(&mut self, number: u32, name: &str, what: &str) -> Result<()> {
        let name = console::style(text::pad(name, 8)).bold().cyan().to_string();
        self.say(&format!("{number}  {name} {what}"))
    }

    fn check(&mut self, holds: bool, what: &str) -> Result<()> {
        self.report.ok &= holds;
        let result = if holds {
            console::style("ok").green().bold()
        } else {
            console::style("FAILED").red().bold()
        };
        self.say(&format!("     {result}: {what}"))
    }

    fn say(&mut self, line: &str) -> Result<()> {
        if self.out.is_json() {
            return Ok(());
        }
        self.out.line(line)?;
        self.out.flush()
    }
}

fn ack_of(line: &str) -> Option<u64> {
    serde_json::from_str::<RunLine>(line)
        .ok()?
        .ack
        .map(|ack| ack.last_sequence)
}

fn events_of(message: &str) -> Result<Vec<NewContextEvent>> {
    let json = runlog::RawJson::parse(message.to_owned())?;
    Ok(NewContextEvent::of_message(json, &Default::default())?)
}
