//! `runlog man`: the manual pages.

use std::{fs, path::PathBuf};

use crate::{
    failure::{Exit, Failure, Result},
    output::{Out, note},
};

#[derive(clap::Args)]
#[command(
    after_help = "For example: runlog man | man -l -\n         or: runlog man ~/.local/share/man/man1"
)]
pub(crate) struct Args {
    /// Write a page for each command into this folder, which is made when it isn't there
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, command: clap::Command, out: &mut Out) -> Result<Exit> {
    let mut page = Vec::new();
    let Some(dir) = &args.dir else {
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::io(&error, "the manual page"))?;
        out.bytes(&page)?;
        return Ok(Exit::Ok);
    };
    let about = |error: &std::io::Error| {
        Failure::io(
            error,
            format!("can't write manual pages to {}", dir.display()),
        )
    };
    fs::create_dir_all(dir).map_err(|error| about(&error))?;
    clap_mangen::generate_to(command, dir).map_err(|error| about(&error))?;
    note(
        out.is_json(),
        format!("wrote manual pages to {}", crate::text::path(dir)),
    );
    Ok(Exit::Ok)
}
