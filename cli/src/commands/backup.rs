//! `runlog backup`: a copy of the store while it is used.

use std::path::PathBuf;

use runlog::log::{Backup, BackupOptions};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::Out,
    store, text,
};

const AFTER_HELP: &str = "\
FOLDER is then a store: `runlog --store FOLDER …` looks at it, and to restore it, copy the folder. The next backup to it \
copies what is new. Another process may go on writing; the backup has what it had acknowledged when the backup began. One \
that was cut off is a store that ends earlier, and the next one completes it.

What is copied is checked, and with --verify all that the backup has. Where the store is damaged, everything is copied all \
the same, and the command says which segment is damaged and where, and ends with 5; but what the backup has is never \
written over by what is damaged. A store that is too damaged to be opened isn't backed up at all: copy its folder with any \
tool before you repair it.

With --json: {\"store\", \"backup\", \"segments_copied\", \"segments_kept\", \"bytes_copied\", \"last_position\"}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where the backup is: an empty folder, or that of an earlier backup of this store
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Compare all bytes that the backup has, and copy again what is damaged; else its ends and samples are compared
    #[arg(long)]
    verify: bool,
}

#[derive(Serialize)]
struct Report {
    store: String,
    backup: String,
    #[serde(flatten)]
    done: Backup,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    out.continue_for_exit_code();
    let done = store::open_read_only(global)?.backup_with(
        &args.folder,
        BackupOptions {
            verify: args.verify,
        },
    );
    let done = done.map_err(Failure::of_argument)?;
    let report = Report {
        store: global.store.display().to_string(),
        backup: args.folder.display().to_string(),
        done,
    };
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Ok);
    }
    let until = text::thousands(done.last_position.0);
    let copied = text::count(done.segments_copied, "segment", "segments");
    let folder = text::path(&args.folder);
    out.line(format!(
        "{folder} has all up to position {until}; copied {copied}, {}",
        text::bytes(done.bytes_copied)
    ))?;
    Ok(Exit::Ok)
}
