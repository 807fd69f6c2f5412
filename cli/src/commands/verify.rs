//! `runlog verify`: every byte of the store, checked.

use runlog::log::{Repair, Verification};
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
Reads everything and changes nothing, also while another process writes; what is derived from the records is made again \
and compared. With --repair, whatever can be made again is, and the log goes on behind what can't be read: every record \
that can be read stays, no position is given out again, and what is overwritten is saved in cut-….bin before. Lists of \
sessions, runs, flows and agents go on without events that can't be read. Records that are lost are named; only a \
copy brings them back.

With --json: {\"sound\", \"segments\", \"records\", \"lost\", \"bytes\", \"torn_bytes\", \"problems\": [{\"file\", \
\"offset\", \"message\", \"is_loss\"}], \"problems_count\", \"to_restore\": […], \"actions\": […], \"saved\": […]}, where \"bytes\" counts what was \
read once it was decompressed; `runlog stat` has the size on disk. Exit code 5 when something \
is damaged and stays so.";

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
    #[serde(flatten)]
    found: &'a Verification,
    actions: &'a [String],
    saved: &'a [String],
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    out.continue_for_exit_code();
    let repaired = if args.repair {
        store::repair(global)?
    } else {
        Repair::default()
    };
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
    print(&found, &repaired, args, out)?;
    Ok(if found.is_sound() {
        Exit::Ok
    } else {
        Exit::Damaged
    })
}

fn print(found: &Verification, repaired: &Repair, args: &Args, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(&Report {
            sound: found.is_sound(),
            found,
            actions: &repaired.actions,
            saved: &repaired.saved,
        });
    }
    for action in &repaired.actions {
        out.line(format!("repaired {}", text::printable(action)))?;
    }
    for name in &repaired.saved {
        out.line(format!(
            "saved    {}: what was overwritten or put aside; `runlog salvage` reads it",
            text::printable(name)
        ))?;
    }
    for problem in found.problems.iter().take(PROBLEMS_SHOWN) {
        let place = format!("{} at {}", problem.file, text::thousands(problem.offset));
        let word = console::style(if problem.is_loss { "lost" } else { "damaged" })
            .red()
            .bold();
        out.line(format!(
            "{word} {place}: {}",
            text::printable(&problem.message)
        ))?;
    }
    let shown = found.problems.len().min(PROBLEMS_SHOWN) as u64;
    if found.problems_count > shown {
        out.line(format!(
            "… and {} more",
            text::thousands(found.problems_count - shown)
        ))?;
    }
    let read = format!(
        "{} in {}; read were {}, free space and what packs decompress to included",
        text::count(found.records, "record", "records"),
        text::count(found.segments, "segment", "segments"),
        text::bytes(found.bytes)
    );
    if found.is_sound() {
        out.line(format!(
            "{}: {read}",
            console::style("sound").green().bold()
        ))?;
    } else {
        out.line(format!(
            "{}: {read}",
            text::count(found.problems_count, "problem", "problems")
        ))?;
        out.line(advice(found, args))?;
    }
    if found.torn_bytes > 0 {
        let torn = text::bytes(found.torn_bytes);
        out.line(format!(
            "a crash left {torn} after the end, acknowledged to nobody; the next writer cuts it"
        ))?;
    }
    Ok(())
}

/// What can be done about what was found.
fn advice(found: &Verification, args: &Args) -> String {
    if !found.to_restore.is_empty() {
        return format!(
            "restore {} from a copy; or move it elsewhere and repair, which goes on without its records. Until then, a repair \
             changes nothing. `runlog salvage` prints what can be read",
            text::printable(&found.to_restore.join(", "))
        );
    }
    let is_all_lost = found.problems.iter().all(|problem| problem.is_loss);
    let advice = match (args.repair, is_all_lost) {
        (true, true) => {
            "what is lost stays lost, unless a copy is restored; the records beside it can be read, and lists go on without \
             it. A context or a chat of which a record is lost ends there with an error: `runlog salvage` prints what there is"
        }
        (true, false) => "restore it from a copy, or read what there is with `runlog salvage`",
        (false, true) => {
            "restore it from a copy, or read what there is with `runlog salvage`; `runlog verify --repair` saves what can be \
             saved, unless a repair has done that since the damage"
        }
        (false, false) => {
            "restore it from a copy, or let `runlog verify --repair` save what can be saved"
        }
    };
    advice.to_owned()
}
