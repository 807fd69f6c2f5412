//! The `runlog` command: import, show, replay, fork, resume and verify AI-agent runs.

mod agent;
mod args;
mod commands;
mod demo;
mod failure;
mod import;
mod json;
mod kept;
mod output;
mod progress;
mod scripted;
mod store;
mod text;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::{args::Cli, failure::Exit, output::Out};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, and go to stdout.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            // Nobody reads any more: there is nobody to tell either.
            let _ = error.print();
            return exit.into();
        }
    };
    let json = cli.global.json;
    let mut out = Out::stdout(json);
    let done = commands::run(cli, &mut out).and_then(|exit| out.flush().map(|()| exit));
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // What was printed before the failure still counts; if it can't be, the failure is told all the same.
            let _ = out.flush();
            failure.report(json);
            failure.exit().into()
        }
    }
}
