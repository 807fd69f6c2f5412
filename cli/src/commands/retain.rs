//! `runlog retain`: deletes the sessions that match retention rules.

use std::ops::ControlFlow;

use runlog::{
    RunStatus,
    retention::{RetainStage, Retained, RetentionPolicy},
};

use crate::{
    args::{Global, at_least},
    failure::{Exit, Failure, Result},
    output::{Out, Report},
    progress::Progress,
    store, text,
};

const AFTER_HELP: &str = "\
A session goes when every rule that is given says so: what one of them keeps, stays. To have each of several limits for itself, \
run the command once for each. Never given up are sessions with a run that is running, or paused and not yet resumed (unless --status paused says so), and \
sessions that have a copy that is kept. Without a rule the command is refused: --older-than, --keep-last, --max-bytes, --status, \
--deleted, or --deltas by itself.

With --deltas no session goes: streaming deltas are dropped of which an agent:text, agent:thinking or agent:complete has the whole \
text. Where none has it they are the only text, and stay.

Runs stay listed with how they ended; all else that a session has is gone. The disk space is given back by --compact, or the \
next `runlog compact`.

With --json: {\"store\", \"dry_run\", \"sessions\", \"session_ids\", \"runs\", \"records\", \"bytes\", \"deltas\", \"deltas_kept\", \"kept_at_work\", \
\"kept_for_copies\", \"kept_changed\", \"is_cancelled\", \"compaction\"}; at most 1,000 ids.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Args {
    /// Rule: nothing has happened in it for longer, such as 30d, 12h, 45m or 90s
    #[arg(long, value_name = "AGE", value_parser = milliseconds)]
    older_than: Option<u64>,
    /// Rule: so many sessions were in use later
    #[arg(long, value_name = "COUNT", value_parser = at_least::<u64>(1))]
    keep_last: Option<u64>,
    /// Rule: with those that were in use later it has more than so many bytes, such as 10G, 500M or 4096
    #[arg(long, value_name = "BYTES", value_parser = size)]
    max_bytes: Option<u64>,
    /// Rule: its last run has this status; may be given several times
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Vec<RunStatus>,
    /// Rule: it was deleted; sessions that weren't stay
    #[arg(long)]
    deleted: bool,
    /// Instead of sessions: streaming deltas of flows whose whole text has stood for longer, such as 1h
    #[arg(long, value_name = "AGE", value_parser = age, conflicts_with_all = ["older_than", "keep_last", "max_bytes", "status", "deleted", "project", "archived"])]
    deltas: Option<u64>,
    /// Only sessions of this project
    #[arg(long)]
    project: Option<String>,
    /// Only sessions that were archived
    #[arg(long)]
    archived: bool,
    /// Only say what would be given up, and how much
    #[arg(long)]
    dry_run: bool,
    /// Give the disk space back at once
    #[arg(long, conflicts_with = "dry_run")]
    compact: bool,
}

/// A number and its unit.
fn parts(text: &str) -> std::result::Result<(u64, &str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.starts_with(['.', ',', '_']) {
        return Err(format!("{text:?} doesn't begin with a whole number"));
    }
    let number = number.parse().map_err(|_| too_large(text))?;
    Ok((number, unit))
}

fn times(text: &str, number: u64, unit: u64) -> std::result::Result<u64, String> {
    match number.checked_mul(unit) {
        Some(product) => Ok(product),
        None => Err(too_large(text)),
    }
}

fn too_large(text: &str) -> String {
    format!("{text:?} is too large")
}

/// The status of a run that has stopped.
fn status(text: &str) -> std::result::Result<RunStatus, String> {
    match text.parse() {
        Ok(RunStatus::Running) => {
            Err("a run that is at work isn't given up; cancel it first".to_owned())
        }
        Ok(status) => Ok(status),
        Err(_) => Err("it should be paused, completed, failed or cancelled".to_owned()),
    }
}

fn at_least_one(number: u64) -> std::result::Result<u64, String> {
    match number {
        0 => Err("it would keep nothing; give at least 1, or leave it out".to_owned()),
        _ => Ok(number),
    }
}

/// Milliseconds, at least 1.
fn age(text: &str) -> std::result::Result<u64, String> {
    milliseconds(text).and_then(at_least_one)
}

fn milliseconds(text: &str) -> std::result::Result<u64, String> {
    let (number, unit) = parts(text)?;
    let unit = match unit {
        "d" => 24 * 60 * 60 * 1_000,
        "h" => 60 * 60 * 1_000,
        "m" => 60 * 1_000,
        "s" => 1_000,
        "" => return Err(format!("{text:?} needs a unit: d, h, m or s, such as 30d")),
        _ => {
            return Err(format!(
                "{text:?} has an unknown unit; d, h, m or s, such as 30d"
            ));
        }
    };
    times(text, number, unit)
}

fn size(text: &str) -> std::result::Result<u64, String> {
    let (number, unit) = parts(text)?;
    let unit = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => {
            return Err(format!(
                "{text:?} has an unknown unit; K, M, G or T, or none for bytes"
            ));
        }
    };
    times(text, number, unit).and_then(at_least_one)
}

/// An error if no rule is given, or one alone that keeps nothing.
fn check(args: &Args) -> Result<()> {
    let is_restricted = args.keep_last.is_some()
        || args.max_bytes.is_some()
        || !args.status.is_empty()
        || args.deleted
        || args.project.is_some()
        || args.archived;
    if args.older_than == Some(0) && !is_restricted {
        return Err(Failure::usage(
            "an age of 0 for --older-than by itself would keep nothing; give a longer one, such as 30d, or --keep-last COUNT, --max-bytes BYTES, \
             --status STATUS, --deleted, --project NAME or --archived too",
        ));
    }
    let has_rule = args.older_than.is_some()
        || args.keep_last.is_some()
        || args.max_bytes.is_some()
        || !args.status.is_empty()
        || args.deleted
        || args.deltas.is_some();
    if has_rule {
        return Ok(());
    }
    Err(Failure::usage(
        "no rule says which sessions go, so that all would; give --older-than AGE, --keep-last COUNT, --max-bytes BYTES, \
         --status STATUS or --deleted, several where each has to say so, or --deltas AGE by itself",
    ))
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    out.continue_for_exit_code();
    check(args)?;
    let policy = RetentionPolicy {
        older_than_ms: args.older_than,
        keep_last: args.keep_last,
        max_bytes: args.max_bytes,
        statuses: args.status.clone(),
        deleted: args.deleted,
        deltas_older_than_ms: args.deltas,
        project: args.project.clone(),
        archived: args.archived,
        dry_run: args.dry_run,
        compact: args.compact,
    };
    let store = if args.dry_run {
        store::open_read_only(global)?
    } else {
        store::open(global)?
    };
    let is_json = out.is_json();
    let mut progress: Option<(RetainStage, u64, Progress)> = None;
    let done = store.retain_with(&policy, |at| {
        if progress
            .as_ref()
            .is_none_or(|(stage, ..)| *stage != at.stage)
        {
            if let Some((_, _, before)) = &progress {
                before.finish();
            }
            let total = Some(at.total);
            let bar = match at.stage {
                RetainStage::Compacting => Progress::bytes(total, is_json),
                RetainStage::Looking | RetainStage::GivingUp | RetainStage::DroppingDeltas => {
                    Progress::count(total, is_json)
                }
            };
            bar.about(match at.stage {
                RetainStage::Looking => "looking through the sessions",
                RetainStage::GivingUp => "giving up sessions",
                RetainStage::DroppingDeltas => "reading flows",
                RetainStage::Compacting => "compacting",
            });
            progress = Some((at.stage, 0, bar));
        }
        if let Some((_, before, bar)) = &mut progress {
            bar.add(at.done.saturating_sub(*before));
            *before = at.done;
        }
        ControlFlow::Continue(())
    });
    if let Some((_, _, bar)) = &progress {
        bar.finish();
    }
    let done = done.map_err(Failure::of_argument)?;
    store.close()?;
    out.report(global, args.dry_run, done, print)
}

fn print(report: &Report<Retained>, out: &mut Out) -> Result<()> {
    let done = &report.done;
    let sessions = |count| text::count(count, "session", "sessions");
    let gave_up = if report.dry_run {
        "would give up"
    } else {
        "gave up"
    };
    let what = format!(
        "{} with {} and {}, {}",
        sessions(done.sessions),
        text::count(done.runs, "run", "runs"),
        text::count(done.records, "record", "records"),
        text::bytes(done.bytes)
    );
    let deltas = |count| text::count(count, "delta", "deltas");
    out.line(match (done.sessions, done.deltas) {
        (0, 0) => "nothing to give up".to_owned(),
        (0, count) => format!("{gave_up} {}, {}", deltas(count), text::bytes(done.bytes)),
        _ => format!("{gave_up} {what}"),
    })?;
    if done.deltas_kept > 0 {
        let kept = deltas(done.deltas_kept);
        out.line(format!("kept {kept}: no event has their whole text"))?;
    }
    for (count, why) in [
        (
            done.kept_at_work,
            "a run of it is running, or paused and not yet resumed",
        ),
        (done.kept_for_copies, "a copy of it stays"),
        (done.kept_changed, "it was written to meanwhile"),
    ] {
        if count > 0 {
            out.line(format!("kept {}: {why}", sessions(count)))?;
        }
    }
    if let Some(compaction) = &done.compaction {
        let (before, after) = (
            text::bytes(compaction.bytes_before),
            text::bytes(compaction.bytes_after),
        );
        out.line(match compaction.bytes_before {
            0 => "nothing to compact".to_owned(),
            _ => format!("compacted: rewrote {before} as {after}"),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_have_units_and_anything_else_is_refused() {
        assert_eq!(age("30d"), Ok(2_592_000_000));
        assert_eq!(age("90s"), Ok(90_000));
        assert_eq!(milliseconds("0d"), Ok(0));
        assert_eq!(size("10G"), Ok(10 << 30));
        assert_eq!(size("4096"), Ok(4096));
        for wrong in [
            "",
            "0d",
            "30",
            "d",
            "-1d",
            "1.5h",
            "99999999999999999999d",
            "9999999999999999d",
        ] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        let message = status("odd").unwrap_err();
        assert!(
            message.contains("paused") && !message.contains("running"),
            "{message}"
        );
        assert_eq!(status("failed"), Ok(RunStatus::Failed));
        for wrong in ["", "0", "0K", "G", "10X", "10GB", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
