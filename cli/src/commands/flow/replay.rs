//! `runlog flow replay`: replays the events of a flow.

use std::{thread, time::Duration};

use runlog::{
    RawJson,
    blocking::Playback,
    flows::{PlaybackOptions, RecordedEvent, Speed},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find,
    output::Out,
    pace::PaceArgs,
    store, text,
};

const AFTER_HELP: &str = "\
A replay shows what was recorded; no node, agent or tool is run. --from and --to are sequences of the flow's stream, \
both inclusive.

With --json a line for each event: {\"sequence\", \"position\", \"recorded_at_ms\", \"event\": as it was recorded}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The flow: its id, the beginning of it, or @last (the newest that no agent spawned)
    #[arg(value_name = "FLOW")]
    flow: String,
    /// The first sequence to replay
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// The last sequence to replay
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Only events of this type; one that ends in * stands for all that begin so. Can be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events of this node. Can be given several times
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// Only events of this execution of a node, or run: those whose `runId` it is. Can be given several times
    #[arg(long = "run", value_name = "ID")]
    runs: Vec<String>,
    /// From the last event to the first
    #[arg(long)]
    backward: bool,
    #[command(flatten)]
    pace: PaceArgs,
}

#[derive(Serialize)]
struct Line<'a> {
    sequence: u64,
    position: u64,
    recorded_at_ms: u64,
    event: &'a RawJson,
}

pub(super) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    if let Some(to) = args.to.filter(|to| args.from > *to) {
        return Err(Failure::usage(format!(
            "--from {} comes after --to {to}",
            args.from
        )));
    }
    let pace = args.pace.pace()?;
    let store = store::open_read_only(global)?;
    let flow = find::flow_id(&store, &args.flow)?;
    let speed = pace.map_or(Speed::AtOnce, |pace| Speed::Multiple(pace.speed));
    let options = PlaybackOptions {
        first: args.from,
        last: args.to,
        types: args.types.clone(),
        nodes: args.nodes.clone(),
        runs: args.runs.clone(),
        backward: args.backward,
        speed,
        ..PlaybackOptions::default()
    };
    let mut first_ms = None;
    for event in Playback::new(&store, flow, options)? {
        let (delay, recorded) = event?;
        if let Some(pace) = pace {
            thread::sleep(delay.min(pace.wait_max));
        }
        let at_ms = recorded.event.timestamp.unwrap_or(recorded.recorded_at_ms);
        let first_ms = *first_ms.get_or_insert(at_ms);
        print(&recorded, &since(first_ms, at_ms), out)?;
        if pace.is_some() || out.is_terminal() {
            out.flush()?;
        }
    }
    Ok(Exit::Ok)
}

/// How long after the first event another one happened. It has a sign: a replay may go backward, and the times of events are
/// those that their caller gave, in any order.
fn since(first_ms: u64, at_ms: u64) -> String {
    let sign = if at_ms < first_ms { '-' } else { '+' };
    let apart = Duration::from_millis(at_ms.abs_diff(first_ms));
    format!("{sign}{:.1} s", apart.as_secs_f64())
}

fn print(recorded: &RecordedEvent, since: &str, out: &mut Out) -> Result<()> {
    let RecordedEvent {
        sequence,
        position,
        recorded_at_ms,
        event,
    } = recorded;
    if out.is_json() {
        let (sequence, position, recorded_at_ms) = (*sequence, *position, *recorded_at_ms);
        return out.value(&Line {
            sequence,
            position,
            recorded_at_ms,
            event: &event.json,
        });
    }
    let node = text::pad(
        &text::one_line(event.node_id.as_deref().unwrap_or_default(), 16),
        17,
    );
    let kind = text::pad(&text::one_line(&event.event_type, 20), 21);
    let start = format!("{sequence:>4}  {since:>9}  {node}{kind}");
    let width = out
        .width()
        .saturating_sub(console::measure_text_width(&start))
        .max(20);
    out.line(format!("{start}{}", text::one_line(event.json.as_str(), width)).trim_end())
}
