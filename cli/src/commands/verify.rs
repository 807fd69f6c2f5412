//! `runlog verify`: every byte of the store, checked.

use runlog::engine::{Problem, Verification};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Result},
    output::Out,
    progress::Progress,
    store, text,
};

/// The most problems that are printed; the others are counted.
const PROBLEMS_SHOWN: usize = 50;

const AFTER_HELP: &str = "\
Reads everything and changes nothing, also while another process writes. With --repair, what is damaged at the end \
of the log is cut off there, after the cut bytes were saved in a file beside it; what can be made again from the \
rest is. Damage in the middle is told, and stays as it is.

With --json: {\"sound\", \"segments\", \"records\", \"bytes\", \"torn_bytes\", \"problems\": [{\"file\", \"offset\", \
\"message\"}], \"problems_count\", \"actions\": […]}. Exit code 5 when something is damaged and stays so.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    sound: bool,
    segments: u64,
    records: u64,
    bytes: u64,
    torn_bytes: u64,
    problems: Vec<ProblemReport<'a>>,
    problems_count: u64,
    actions: &'a [String],
}

#[derive(Serialize)]
struct ProblemReport<'a> {
    file: &'a str,
    offset: u64,
    message: &'a str,
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let actions = if args.repair { store::repair(global)? } else { Vec::new() };
    let mut progress: Option<Progress> = None;
    let mut before = 0;
    let found = store::verify(global, &mut |done, total| {
        let progress = progress.get_or_insert_with(|| Progress::bytes(Some(total), out.is_json()));
        progress.about("verifying");
        progress.add(done.saturating_sub(before));
        before = done;
    });
    if let Some(progress) = &progress {
        progress.finish();
    }
    let found = found?;
    print(&found, &actions, args, out)?;
    Ok(if found.is_sound() { Exit::Ok } else { Exit::Damaged })
}

fn print(found: &Verification, actions: &[String], args: &Args, out: &mut Out) -> Result<()> {
    if out.is_json() {
        fn report(problem: &Problem) -> ProblemReport<'_> {
            ProblemReport { file: &problem.file, offset: problem.offset, message: &problem.message }
        }
        return out.value(&Report {
            sound: found.is_sound(),
            segments: found.segments,
            records: found.records,
            bytes: found.bytes,
            torn_bytes: found.torn_bytes,
            problems: found.problems.iter().map(report).collect(),
            problems_count: found.problems_count,
            actions,
        });
    }
    for action in actions {
        out.line(format!("repaired {action}"))?;
    }
    for problem in found.problems.iter().take(PROBLEMS_SHOWN) {
        let place = format!("{} at {}", problem.file, text::thousands(problem.offset));
        out.line(format!("{} {place}: {}", console::style("damaged").red().bold(), text::printable(&problem.message)))?;
    }
    let shown = found.problems.len().min(PROBLEMS_SHOWN) as u64;
    if found.problems_count > shown {
        out.line(format!("… and {} more", text::thousands(found.problems_count - shown)))?;
    }
    let read = format!(
        "{} in {}, {} read",
        text::count(found.records, "record", "records"),
        text::count(found.segments, "segment", "segments"),
        text::bytes(found.bytes)
    );
    if found.is_sound() {
        out.line(format!("{}: {read}", console::style("sound").green().bold()))?;
    } else {
        out.line(format!("{}: {read}", text::count(found.problems_count, "problem", "problems")))?;
        if !args.repair {
            out.line("restore it from a copy, or let `runlog verify --repair` save what can be saved")?;
        }
    }
    if found.torn_bytes > 0 {
        let torn = text::bytes(found.torn_bytes);
        out.line(format!("a crash left {torn} after the end, acknowledged to nobody; the next writer cuts it"))?;
    }
    Ok(())
}
