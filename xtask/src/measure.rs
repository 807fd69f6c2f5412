//! `bench`, `ratios`, `runs`, `spawn`, `week`, `bench-js`, `bench-browser`, `bench-http` and `bench-chats`:
//! measurements, which assert nothing.

use std::process::ExitCode;

use crate::{
    addon::{self, Profile},
    browser,
    child::{cargo, root, run, target_folder},
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

/// Measures Runlog beside other stores, by a package of its own: it has its own lock file, and its own folder in `target/`.
/// RocksDB's headers are read by libclang, and its C++ takes long: a system's library is taken where `ROCKSDB_LIB_DIR` names it.
pub(crate) fn peers(arguments: &[&str]) -> ExitCode {
    close("bench --peers", apart("peers", arguments))
}

/// Measures chats beside the same rows in tables of SQLite.
pub(crate) fn chats(arguments: &[&str]) -> ExitCode {
    close("bench-chats", apart("chats", arguments))
}

/// Runs a package of `benches/` that is outside the workspace.
fn apart(name: &str, arguments: &[&str]) -> Outcome {
    let manifest = format!("benches/{name}/Cargo.toml");
    let mut command = cargo(&["run", "--release", "--locked", "--manifest-path"]);
    command.arg(manifest).arg("--").args(arguments);
    outcome(run(
        command.env("CARGO_TARGET_DIR", target_folder().join(name))
    ))
}

/// Runs one of the programs that measure: `ratios` compares runlog with the raw floors of this machine, `runs` a store of
/// a million runs with one of a thousand, `spawn` takes the time of thousands of sub-agents, `week` that of appends in a platform. Standard output is theirs
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

/// Measures the module in Chromium, built as it is shipped, beside its alternatives there.
pub(crate) fn in_browser(arguments: &[&str]) -> ExitCode {
    close("bench-browser", browser::measure(arguments))
}

/// Measures `runlog serve`, beside a server over tables of PostgreSQL or with a thousand clients that follow.
pub(crate) fn over_http(arguments: &[&str]) -> ExitCode {
    close("bench-http", http(arguments))
}

fn http(arguments: &[&str]) -> Outcome {
    node::ensure_installed()?;
    addon::build_here(Profile::Dev)?;
    node::program("sdk/scripts/build.mjs", &[])?;
    outcome(run(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "runlog-cli",
    ])))?;
    let target = target_folder();
    let command = target.join("release/runlog").display().to_string();
    if let Some((&"tails", rest)) = arguments.split_first() {
        let all: Vec<&str> = [&[command.as_str()], rest].concat();
        return node::program("benches/http/tails.mjs", &all);
    }
    let own = target.join("http");
    let mut other = cargo(&["build", "--release", "--manifest-path"]);
    other.arg(root().join("benches/http/Cargo.toml"));
    outcome(run(other.env("CARGO_TARGET_DIR", &own)))?;
    let server = own.join("release/history-over-postgres");
    let server = server.display().to_string();
    let all: Vec<&str> = [&[command.as_str(), server.as_str()], arguments].concat();
    node::program("benches/http/run.mjs", &all)
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
