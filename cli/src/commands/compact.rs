//! `runlog compact`: frees the disk space of unreferenced records.

use runlog::log::{Codec, CompactOptions, CompactScope, Compaction, Stat};

use crate::{
    args::{Global, at_least},
    failure::{Exit, Failure, Result},
    output::{Out, Report},
    progress::Compacting,
    store, text,
};

const AFTER_HELP: &str = "\
What was truncated or deleted and no copy shares is given up for good, and so are the payloads of what was redacted; all \
else is gathered by stream and compressed, and reads as before. Nothing else changes: no position, no sequence, no byte. \
Other processes may go on reading. Stopped half-way, it has done a part, and the next one does the rest.

With --json: {\"store\", \"dry_run\", \"files_before\", \"files_after\", \"bytes_before\", \"bytes_after\", \
\"records_dropped\", \"payloads_erased\", \"segments_left\", \"segments_damaged\", \"is_cancelled\"}, where the bytes are those \
of the files that were rewritten, and of those in their place; `runlog stat` has the size of the whole.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only say what would be done; another process may be writing
    #[arg(long)]
    dry_run: bool,
    /// Which segments are rewritten
    #[arg(long, value_enum, default_value_t = Scope::All)]
    scope: Scope,
    /// How what stays is compressed
    #[arg(long, value_enum, default_value_t = Compression::Zstd)]
    codec: Compression,
    /// Read and write at most so many bytes a second
    #[arg(long, value_name = "BYTES", value_parser = at_least::<u64>(1))]
    bytes_per_second: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Scope {
    /// All, with what was written last
    All,
    /// All that are no longer written to
    Sealed,
    /// Those of which less than half is in use
    Sparse,
    /// Those of which nothing is in use
    Dead,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Compression {
    /// The smallest
    Zstd,
    /// Larger, and read faster
    Lz4,
    /// Not compressed
    Plain,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    out.continue_for_exit_code();
    let options = CompactOptions {
        scope: match args.scope {
            Scope::All => CompactScope::All,
            Scope::Sealed => CompactScope::Sealed,
            Scope::Sparse => CompactScope::Sparse,
            Scope::Dead => CompactScope::Dead,
        },
        codec: match args.codec {
            Compression::Zstd => Codec::Zstd,
            Compression::Lz4 => Codec::Lz4,
            Compression::Plain => Codec::Plain,
        },
        dry_run: args.dry_run,
        bytes_per_second: args.bytes_per_second,
    };
    let store = if args.dry_run {
        store::open_read_only(global)?
    } else {
        store::open(global)?
    };
    let mut progress = Compacting::new(out.is_json());
    let done = store.compact_with(options, |at| progress.at(at));
    progress.finish();
    let done = done.map_err(Failure::of_argument)?;
    store.close()?;
    // The files in place of those that were rewritten aren't all that there is: there is a new segment to write to. It has
    // its size once the writer has closed it.
    let store = store::open_read_only(global)?;
    let stat = pollster::block_on(store.backend().maintenance().stat())?;
    out.report(global, args.dry_run, done, |report, out| {
        print(report, &stat, out)
    })
}

fn print(report: &Report<Compaction>, stat: &Stat, out: &mut Out) -> Result<()> {
    let done = &report.done;
    if done.segments_damaged > 0 {
        let left = text::count(done.segments_damaged, "damaged segment", "damaged segments");
        out.line(format!(
            "left {left} as before; `runlog verify` says what is damaged"
        ))?;
    }
    if done.files_before == 0 {
        return out.line("nothing to compact");
    }
    let dropped = text::count(done.records_dropped, "record", "records");
    let erased = match done.payloads_erased {
        0 => String::new(),
        count => format!(
            ", {} erased",
            text::count(count, "redacted payload", "redacted payloads")
        ),
    };
    let (before, after) = (
        text::bytes(done.bytes_before),
        text::bytes(done.bytes_after),
    );
    if report.dry_run {
        return out.line(format!(
            "would give up {dropped}{erased}, and rewrite {before} as at most {after}"
        ));
    }
    out.line(format!(
        "gave up {dropped}{erased}; rewrote {before} as {after}; the store has {} in {} now",
        text::bytes(stat.segment_bytes),
        text::count(stat.segments, "segment", "segments")
    ))
}
