//! `bench`, `ratios` and `runs`: what is measured, never asserted.

use std::process::ExitCode;

use crate::{
    child::{cargo, run},
    report::{Report, outcome},
};

/// Runs the criterion benchmarks; the words after the verb are handed to criterion.
pub(crate) fn bench(report: &mut Report, filter: &[&str]) {
    report.check("benchmarks", || {
        outcome(run(cargo(&["bench", "--package", "runlog-benches", "--benches", "--"]).args(filter)))
    });
}

/// Runs one of the programs that measure: `ratios` compares runlog with the raw floors of this machine, `runs` a store of
/// a million runs with one of a thousand, `spawn` takes the time of thousands of sub-agents. Standard output is theirs
/// alone.
pub(crate) fn program(name: &str, arguments: &[&str]) -> ExitCode {
    let mut command = cargo(&["run", "--release", "--quiet", "--package", "runlog-benches", "--bin", name, "--"]);
    match outcome(run(command.args(arguments))) {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("FAILED: {name}: {why}");
            ExitCode::FAILURE
        }
    }
}
