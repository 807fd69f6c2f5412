//! `test`, `wasm` and `torture`.

use std::process::Command;

use crate::{
    browser,
    child::{Beside, cargo, run, run_watched},
    node,
    report::{Counts, Report, outcome},
    tools::{self, WASM},
};

/// The crates that must run in a browser.
const CORE: [&str; 5] = [
    "runlog-log",
    "runlog-engine",
    "runlog-model",
    "runlog",
    "runlog-bindings",
];

/// The files of tests of `core/runlog` that are about its contract, and take no longer than a moment each.
const CONTRACTS: [&str; 9] = [
    "backends",
    "chat_requests",
    "chats",
    "flows",
    "folder",
    "messages",
    "repeats",
    "run_and_flow",
    "run_entries",
];

/// The quick part, a few minutes before the whole: unit tests, contract tests, and types. It builds with the settings
/// of [`all`], so that both share their caches.
pub(crate) fn quick(report: &mut Report) {
    report.count("unit tests and contracts of crates", || {
        let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
        // Its library is the engine's with locks whose order a test decides: the unit tests know nothing of them.
        command.args(["--exclude", "runlog-shuttle"]);
        for file in CONTRACTS {
            command.args(["--test", file]);
        }
        cargo_test(command)
    });
    node::quick(report);
}

/// Everything that can be tested here: with Rust, a C linker, Node and Chromium.
pub(crate) fn all(report: &mut Report) {
    let every = ["test", "--workspace", "--no-fail-fast"];
    report.count("tests of every crate", || {
        if let Err(why) = outcome(run(cargo(&every).arg("--no-run"))) {
            return (Counts::failed(), why);
        }
        // Many tests wait for a disk or a clock, and building the module works in one thread for most of its time.
        let module = Beside::start("wasm-module");
        let output = cargo_test(cargo(&every));
        module.wait();
        output
    });
    wasm(report);
    npm(report);
    browser::test(report);
}

/// What runs in Node. The npm package has the module of browsers in it, which comes first therefore.
pub(crate) fn npm(report: &mut Report) {
    browser::build(report);
    node::test(report);
}

/// The packed npm package with third-party packages.
pub(crate) fn integrations(report: &mut Report) {
    browser::build(report);
    node::integrations(report);
}

/// The npm package in Chromium.
pub(crate) fn in_browser(report: &mut Report) {
    browser::build(report);
    browser::test(report);
}

/// Builds `core/*` for WebAssembly, and runs its tests there, in Node.
pub(crate) fn wasm(report: &mut Report) {
    report.check("core for WebAssembly", || {
        tools::ensure_target(WASM)?;
        let mut command = cargo(&["build", "--lib", "--target", WASM]);
        for package in CORE {
            command.args(["--package", package]);
        }
        outcome(run(&mut command))
    });
    report.count(
        "tests in WebAssembly",
        || match tools::ensure_wasm_test_runner() {
            Ok(runner) => {
                let mut command = cargo(&[
                    "test",
                    "--package",
                    "runlog",
                    "--features",
                    "js",
                    "--target",
                    WASM,
                ]);
                command
                    .args(["--test", "wasm"])
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", runner);
                cargo_test(command)
            }
            Err(why) => (Counts::failed(), why),
        },
    );
}

/// The arguments of `torture`.
pub(crate) struct TortureOptions {
    seconds: u64,
    filter: Option<String>,
}

impl TortureOptions {
    const SECONDS_DEFAULT: u64 = 600;

    /// Reads `[--seconds N] [filter]`.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            seconds: Self::SECONDS_DEFAULT,
            filter: None,
        };
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            if argument == "--seconds" {
                let value = rest.next().ok_or("--seconds needs a number")?;
                options.seconds = value
                    .parse()
                    .map_err(|_| format!("--seconds needs a number, not `{value}`"))?;
            } else if argument.starts_with('-') || options.filter.is_some() {
                return Err(format!("`torture` does not take {argument}"));
            } else {
                options.filter = Some(argument.to_owned());
            }
        }
        Ok(options)
    }
}

/// Runs the harnesses one after another, each for as many seconds as `RUNLOG_TORTURE` says, optimised but with
/// assertions and overflow checks, ignored ones included, and with the figures they print.
pub(crate) fn torture(report: &mut Report, options: &TortureOptions) {
    report.count(&format!("harnesses, {} s each", options.seconds), || {
        let whole = [
            "--package",
            "runlog-engine",
            "--package",
            "runlog-tests",
            "--package",
            "runlog-agent-tests",
            "--lib",
            "--tests",
        ];
        // The unit tests of the engine know nothing of locks whose order a test decides.
        let schedules = ["--package", "runlog-shuttle", "--tests"];
        cargo_tests([&whole[..], &schedules].map(|targets| {
            let mut command = cargo(&["test", "--no-fail-fast"]);
            for setting in [
                "profile.torture.inherits='release'",
                "profile.torture.lto=false",
                "profile.torture.codegen-units=16",
                "profile.torture.debug-assertions=true",
                "profile.torture.overflow-checks=true",
            ] {
                command.args(["--config", setting]);
            }
            command
                .args(["--profile", "torture"])
                .args(targets)
                .args(["--", "--include-ignored"]);
            command
                .args(["--nocapture", "--test-threads=1"])
                .args(&options.filter);
            command.env("RUNLOG_TORTURE", options.seconds.to_string());
            command
        }))
    });
}

/// Runs `cargo test` and sums its `test result:` lines.
fn cargo_test(command: Command) -> (Counts, String) {
    cargo_tests([command])
}

/// The same for several, one after the other, together.
fn cargo_tests(commands: impl IntoIterator<Item = Command>) -> (Counts, String) {
    let mut counts = Counts::default();
    let mut ended = Ok(String::new());
    for mut command in commands {
        let status = run_watched(&mut command, |line| {
            if let Some(result) = parse_test_result(line) {
                counts.passed += result.passed;
                counts.failed += result.failed;
                counts.ignored += result.ignored;
            }
        });
        ended = ended.and(outcome(status));
    }
    let note = match ended {
        Ok(_) if counts.passed + counts.failed == 0 => "no test ran".to_owned(),
        Ok(note) => return (counts, note),
        Err(why) => why,
    };
    // Cargo's exit status counts even without a result line: a crate that didn't compile, a test process that died.
    counts.failed = counts.failed.max(1);
    (counts, note)
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
///
/// The words may follow other output on the line: with `--nocapture` a test can leave one unfinished.
fn parse_test_result(line: &str) -> Option<Counts> {
    let (_, result) = line.split_once("test result: ")?;
    let (_, numbers) = result.split_once(". ")?;
    let mut counts = Counts::default();
    let mut seen = 0;
    for part in numbers.split("; ") {
        let (number, word) = part.split_once(' ')?;
        let Ok(number) = number.parse() else { continue };
        match word {
            "passed" => counts.passed = number,
            "failed" => counts.failed = number,
            "ignored" => counts.ignored = number,
            _ => continue,
        }
        seen += 1;
    }
    (seen == 3).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_read_in_full() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.03s";
        assert_eq!(
            parse_test_result(line),
            Some(Counts {
                passed: 12,
                failed: 3,
                ignored: 1
            })
        );
        let after_output = format!("unfinished {line}");
        assert_eq!(
            parse_test_result(&after_output),
            Some(Counts {
                passed: 12,
                failed: 3,
                ignored: 1
            })
        );
    }

    #[test]
    fn other_lines_are_no_result() {
        for line in [
            "",
            "running 3 tests",
            "test result: ok.",
            "test result: ok. many passed",
            "test a::b ... ok",
        ] {
            assert_eq!(parse_test_result(line), None, "{line}");
        }
    }

    #[test]
    fn torture_takes_seconds_and_one_filter() {
        let options = TortureOptions::parse(&["--seconds", "5", "kill"]).expect("both are known");
        assert_eq!(
            (options.seconds, options.filter.as_deref()),
            (5, Some("kill"))
        );
        assert_eq!(
            TortureOptions::parse(&[]).expect("nothing is fine").seconds,
            TortureOptions::SECONDS_DEFAULT
        );
        for wrong in [
            &["--seconds"][..],
            &["--seconds", "x"],
            &["--fast"],
            &["a", "b"],
        ] {
            assert!(TortureOptions::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
