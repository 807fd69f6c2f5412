//! `runlog completions`: a completion script for a shell.

use crate::{
    failure::{Exit, Result},
    output::Out,
};

#[derive(clap::Args)]
#[command(
    after_help = "For example: runlog completions bash > ~/.local/share/bash-completion/completions/runlog"
)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, mut command: clap::Command, out: &mut Out) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "runlog", &mut script);
    out.bytes(&script)?;
    Ok(Exit::Ok)
}
