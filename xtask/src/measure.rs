//! `bench`, `ratios`, `runs`, `spawn`, `bench-js` and `bench-browser`: what is measured, never asserted.

use std::process::ExitCode;

use crate::{
    browser,
    child::{cargo, run},
    node,
    report::{Outcome, Report, outcome},
};

/// Runs the criterion benchmarks; the words after the verb are handed to criterion.
pub(crate) fn bench(report: &mut Report, filter: &[&str]) {
    report.check("benchmarks", || {
        outcome(run(cargo(&[
            "bench",
            "--package",
            "runlog-benches",
            "--benches",
            "--",
        ])
        .args(filter)))
    });
}

/// Runs one of the programs that measure: `ratios` compares runlog with the raw floors of this machine, `runs` a store of
/// a million runs with one of a thousand, `spawn` takes the time of thousands of sub-agents. Standard output is theirs
/// alone.
pub(crate) fn program(name: &str, arguments: &[&str]) -> ExitCode {
    let mut command = cargo(&[
        "run",
        "--release",
        "--quiet",
        "--package",
        "runlog-benches",
        "--bin",
        name,
        "--",
    ]);
    close(name, outcome(run(command.args(arguments))))
}

/// Measures the npm package beside other stores.
pub(crate) fn from_javascript(arguments: &[&str]) -> ExitCode {
    close("bench-js", node::program("benches/js/run.mjs", arguments))
}

/// Measures the module in Chromium, built as it is shipped, beside what would be used there instead.
pub(crate) fn in_browser(arguments: &[&str]) -> ExitCode {
    close("bench-browser", browser::measure(arguments))
}

fn close(name: &str, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("FAILED: {name}: {why}");
            ExitCode::FAILURE
        }
    }
}
