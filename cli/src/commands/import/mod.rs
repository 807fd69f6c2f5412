//! `runlog import`: transcripts into the store.

mod args;
mod file;
mod report;

use std::{path::PathBuf, time::Instant};

use runlog::ErrorKind;

pub(crate) use self::args::Args;
use self::{
    file::{Job, Opened, import_file},
    report::{Report, print},
};
use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    import::{
        Importer,
        archive::Archive,
        source::{self, is_stdin, name_of},
    },
    output::{self, Out},
    progress::Progress,
    store,
};

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    out.continue_for_exit_code();
    for file in args.files.iter().filter(|file| !is_stdin(file)) {
        // Checked before the store is created, so that a typo leaves nothing behind.
        std::fs::metadata(file)
            .map_err(|error| Failure::io(&error, format!("can't read {}", file.display())))?;
    }
    // Standard input is inspected before the store is created, because a store's time begins with the oldest record of
    // an archive.
    let mut stream = match args.files.iter().find(|file| is_stdin(file)) {
        Some(file) => {
            Some(Opened::new(file, args.format).map_err(|failure| failure.about(file.display()))?)
        }
        None => None,
    };
    if !global.store.join("RUNLOG").exists() {
        check_any(args)?;
    }
    let first_ms = args.files.iter().find_map(|file| match &stream {
        Some(opened) if is_stdin(file) => opened.first_time(),
        _ => Archive::of_file(file)?.first_time(),
    });
    let (store, clock) = store::open_to_import(global, first_ms)?;
    // A device has no length, and standard input none that is known.
    let length = |file: &PathBuf| {
        std::fs::metadata(file)
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|it| it.len())
    };
    let total = args.files.iter().map(length).sum();
    let mut progress = Progress::bytes(total, out.is_json());
    let mut importer = Importer::new(&store, args.project.clone());
    let mut exit = Exit::Ok;
    let mut any = false;
    for file in &args.files {
        progress.about(&name_of(file));
        let started = Instant::now();
        let opened = if is_stdin(file) { stream.take() } else { None };
        let (store, importer, progress) = (&store, &mut importer, &mut progress);
        let mut job = Job {
            file,
            opened,
            args,
            store,
            clock: &clock,
            importer,
            progress,
        };
        let (report, failure) = import_file(&mut job);
        any |= report.has_any();
        let report = Report {
            seconds: started.elapsed().as_secs_f64(),
            ..report
        };
        let mut printed = Ok(());
        progress.aside(|| printed = print(&report, out));
        printed?;
        match failure {
            Some(failure) if args.files.len() == 1 || stops_all(&failure) => {
                progress.finish();
                return Err(failure);
            }
            Some(failure) => {
                output::report(&failure, out.is_json());
                exit = Exit::Partial;
            }
            None if report.is_partial() => exit = Exit::Partial,
            None => {}
        }
    }
    progress.finish();
    if exit == Exit::Partial && !any {
        exit = Exit::Failure;
    }
    Ok(exit)
}

/// An error if none of the files can be imported: no store is made for it.
fn check_any(args: &Args) -> Result<()> {
    let mut refused = None;
    for file in &args.files {
        if is_stdin(file) {
            return Ok(());
        }
        match source::check(file, args.format) {
            Ok(()) => return Ok(()),
            Err(failure) => {
                refused.get_or_insert(failure.about(file.display()));
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Whether a failure also ends the import of the remaining files.
fn stops_all(failure: &Failure) -> bool {
    let of_the_file = [
        ErrorKind::InvalidInput.name(),
        ErrorKind::TooLarge.name(),
        "io",
        "not_found",
    ];
    !of_the_file.contains(&failure.kind())
}
