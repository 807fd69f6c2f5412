//! Runlog beside other embedded stores: all of them in turns, in one run, each set for the same promise.
//!
//! `cargo xtask bench --peers` builds and runs it. It judges nothing; what a store can't do, or fails at, is said.

mod at_rest;
mod chart;
mod child;
mod conversations;
mod durable;
mod events;
mod million;
mod report;
mod run;
mod stores;

use std::{env, io, process::ExitCode, time::Duration};

use run::{Run, Settings};

const USAGE: &str = "usage: cargo xtask bench --peers [--quick] [--rounds N] [--only NAME,NAME] [--write] [words of a row]\n\
       or: cargo xtask bench --peers at-rest FILE [BYTES]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.split_first() {
        Some((&"child", rest)) => child::main(rest),
        Some((&"at-rest", rest)) => at_rest::main(rest),
        _ => parse(&words).and_then(|(settings, is_written)| measure(settings, is_written)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[&str]) -> io::Result<(Settings, bool)> {
    let mut settings = Settings {
        rounds: 5,
        slice: Duration::from_millis(200),
        streams: 1000,
        filter: String::new(),
        only: Vec::new(),
    };
    let mut is_written = false;
    let mut words = words.iter().copied();
    let usage = || io::Error::other(USAGE);
    while let Some(word) = words.next() {
        match word {
            "--quick" => {
                (settings.rounds, settings.slice, settings.streams) =
                    (3, Duration::from_millis(60), 100)
            }
            "--write" => is_written = true,
            "--rounds" => {
                let rounds = words.next().and_then(|rounds| rounds.parse().ok());
                settings.rounds = rounds.filter(|rounds| *rounds > 0).ok_or_else(usage)?;
            }
            "--only" => {
                let names = words.next().ok_or_else(usage)?;
                settings.only = names.split(',').map(str::to_owned).collect();
            }
            filter if !filter.starts_with('-') && settings.filter.is_empty() => {
                filter.clone_into(&mut settings.filter)
            }
            _ => return Err(usage()),
        }
    }
    Ok((settings, is_written))
}

fn measure(settings: Settings, is_written: bool) -> io::Result<()> {
    let mut run = Run::new(settings)?;
    durable::measure(&mut run)?;
    million::measure(&mut run)?;
    conversations::measure(&mut run)?;
    let page = report::markdown(&run);
    println!("{page}");
    if is_written {
        report::write(&run, &page)?;
    }
    Ok(())
}
