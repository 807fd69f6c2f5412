//! The `runlog` command: import, show, replay, fork, resume and verify AI-agent runs.

mod agent;
mod args;
mod cli;
mod commands;
mod demo;
mod elsewhere;
mod failure;
mod filters;
mod find;
mod fixtures;
mod history;
mod import;
mod json;
mod lines;
mod mcp;
mod output;
mod owners;
mod pace;
mod progress;
mod read;
mod record_line;
mod search;
mod serve;
mod signals;
mod store;
mod table;
mod text;
mod view;
#[cfg(feature = "viewer")]
mod viewer_files;

use std::{
    ffi::OsString,
    io::Write as _,
    num::{IntErrorKind, ParseIntError},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use crate::{
    cli::Cli,
    failure::{Exit, Failure},
    output::Out,
};

fn main() -> ExitCode {
    let arguments = arguments();
    if arguments.get(1).is_some_and(|first| first == demo::AGENT) {
        return ended(demo::agent(&arguments[1..]), false);
    }
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => return misused(error).into(),
    };
    let json = cli.global.json;
    let mut out = Out::stdout(json);
    let done = cli::run(cli, &mut out).and_then(|exit| out.flush().map(|()| exit));
    if done.is_err() {
        // Output before the failure is still printed; if that fails, the original failure is reported nevertheless.
        let _ = out.flush();
    }
    ended(done, json)
}

fn ended(done: failure::Result<Exit>, json: bool) -> ExitCode {
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::report(&failure, json);
            failure.exit().into()
        }
    }
}

/// The arguments, in which `help run` stands for `run --help`: clap's own command of that name would be one of each command's
/// subcommands, in its help, the manual and the completions.
fn arguments() -> Vec<OsString> {
    let mut given: Vec<OsString> = std::env::args_os().collect();
    if given.get(1).is_some_and(|first| first == "help") {
        given.remove(1);
        given.push("--help".into());
    }
    given
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = Cli::command()
        // The error says that they are too small, instead of an argument `-1` that nobody knows.
        .mut_subcommands(|command| command.allow_negative_numbers(true))
        .term_width(output::width().min(cli::HELP_WIDTH_MAX))
        .try_get_matches_from(arguments)?;
    // The demo creates its own store: a named one would be ignored silently.
    let names_store =
        |matches: &ArgMatches| matches.value_source("store") == Some(ValueSource::CommandLine);
    if let Some(("demo", of_demo)) = matches.subcommand()
        && (names_store(&matches) || names_store(of_demo))
    {
        return Err(Cli::command().error(
            ErrorKind::ArgumentConflict,
            "the demo makes a store of its own; say with `--keep DIR` where, instead of --store",
        ));
    }
    if let Some(("serve", of_serve)) = matches.subcommand()
        && let Some(folder) = of_serve.get_one::<PathBuf>("folder")
        && let Some(store) = [&matches, of_serve]
            .into_iter()
            .find(|matches| names_store(matches))
            .and_then(|matches| matches.get_one::<PathBuf>("store"))
        && store != folder
    {
        let (store, folder) = (store.display(), folder.display());
        return Err(Cli::command().error(
            ErrorKind::ArgumentConflict,
            format!("two stores are named, {store} with --store and {folder} without; `serve` serves one"),
        ));
    }
    Cli::from_arg_matches(&matches)
}

/// An argument that is no option, but a file that is there.
fn file_like_an_option(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    std::env::args_os()
        .skip(1)
        .take_while(|it| it != "--")
        .filter_map(|it| it.into_string().ok())
        .find(|it| it.starts_with('-') && Path::new(it).is_file())
}

/// What clap says of wrong arguments. Of a value that is no whole number in words of its own: the standard library's "invalid
/// digit found in string" doesn't say what is expected.
fn message_of(error: &clap::Error, with_styles: bool) -> String {
    let rendered = error.render();
    let text = if with_styles {
        rendered.ansi().to_string()
    } else {
        rendered.to_string()
    };
    let source = std::error::Error::source(error);
    let Some(parse) = source.and_then(|source| source.downcast_ref::<ParseIntError>()) else {
        return text;
    };
    let expected = match parse.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "the number is out of range",
        _ => "a whole number is expected, none below 0",
    };
    text.replacen(&parse.to_string(), expected, 1)
}

/// Reports wrong arguments; help and the version arrive here too, and go to stdout.
fn misused(mut error: clap::Error) -> Exit {
    // No argument starts with a dash by itself, so the tip to pass a misspelt option as a value leads nowhere.
    if let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) {
        let tips: Vec<_> = tips
            .into_iter()
            .filter(|tip| !tip.to_string().contains(" as a value, "))
            .collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    let tip = file_like_an_option(&error)
        .map(|file| format!("a file whose name begins with a dash is given as ./{file}"));
    if let Some(tip) = &tip {
        let tip = vec![tip.clone().into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    }
    if !error.use_stderr() {
        // It fails if the output was closed, and then the failure can't be reported either.
        let _ = error.print();
        return Exit::Ok;
    }
    // The arguments couldn't be parsed, so search them; those after `--` are the agent's.
    let is_json = std::env::args_os()
        .skip(1)
        .take_while(|it| it != "--")
        .any(|it| it == "--json");
    if is_json {
        let text = message_of(&error, false);
        // The rest is usage help for people.
        let what = text
            .split("\n\n")
            .next()
            .unwrap_or(&text)
            .trim_start_matches("error: ");
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let what = tip.map_or_else(|| what.clone(), |tip| format!("{what}; {tip}"));
        output::report(&Failure::usage(what), true);
    } else {
        // Where nobody reads it, its exit code says as much.
        let text = message_of(&error, console::colors_enabled_stderr());
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Exit::Usage
}
