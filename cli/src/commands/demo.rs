//! `runlog demo`: the main features of Runlog in one screen.
//!
//! A recording is killed half-way, recovered, resumed and forked, with a transcript that is built into the program, and
//! every step is checked against it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    args::Global,
    demo::Steps,
    failure::{Exit, Failure, Result},
    output::Out,
};

const AFTER_HELP: &str = "\
The store of the demo stays, so that it can be looked at: the last lines say how.

With --json: {\"store\", \"events\", \"acknowledged\", \"found\", \"lost\", \"open_seconds\", …, \"ok\"}. Exit code 1 when \
a check fails.";

/// The most folders of earlier demos that are skipped.
const EARLIER_MAX: u32 = 1000;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Make the store in this folder, which must be new or empty; else in a new one among the temporary files
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let folder = match &args.keep {
        Some(folder) => empty_folder(folder)?,
        None => fresh_folder(&std::env::temp_dir())?,
    };
    let global = Global {
        store: folder,
        ..global.clone()
    };
    let report = Steps::new(&global, out)?.run()?;
    if out.is_json() {
        out.value(&report)?;
    }
    Ok(if report.ok { Exit::Ok } else { Exit::Failure })
}

fn empty_folder(folder: &Path) -> Result<PathBuf> {
    let about = |error: &io::Error| {
        Failure::io(
            error,
            format!("can't make the store in {}", folder.display()),
        )
    };
    fs::create_dir_all(folder).map_err(|error| about(&error))?;
    if fs::read_dir(folder)
        .map_err(|error| about(&error))?
        .next()
        .is_some()
    {
        let message = format!(
            "{} is not empty; give a new folder for the store of the demo",
            folder.display()
        );
        return Err(Failure::new(Exit::Conflict, "already_exists", message));
    }
    Ok(folder.to_owned())
}

/// Creates a new folder.
fn fresh_folder(parent: &Path) -> Result<PathBuf> {
    for number in 1..=EARLIER_MAX {
        let name = if number == 1 {
            "runlog-demo".to_owned()
        } else {
            format!("runlog-demo-{number}")
        };
        let folder = parent.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Failure::io(
                    &error,
                    format!("can't make {}", folder.display()),
                ));
            }
        }
    }
    let message = format!(
        "{} holds {EARLIER_MAX} stores of earlier demos; remove them",
        parent.display()
    );
    Err(Failure::new(Exit::Conflict, "already_exists", message))
}
