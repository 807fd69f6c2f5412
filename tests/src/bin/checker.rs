//! `checker FOLDER`: whether the files of a store are as docs/format-v1.md says, read by the independent checker. Those of
//! a browser are looked at by it too.

use std::{env, path::Path, process::ExitCode};

use runlog_tests::checker;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("usage: checker FOLDER");
        return ExitCode::from(2);
    };
    match checker::check(Path::new(&folder)) {
        Ok(checked) => {
            println!(
                "{} records in {} segments",
                checked.records.len(),
                checked.segments.len()
            );
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
