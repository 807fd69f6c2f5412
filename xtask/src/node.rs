//! The JavaScript side: the Node addon, the npm packages, their types and their tests.

use std::{fs, path::Path, process::Command, time::SystemTime};

use crate::{
    addon::{self, Profile},
    child::{answer, cargo, command, root, run, run_watched},
    platforms::{Version, version},
    report::{Counts, Outcome, Report, outcome},
};

/// The oldest Node that will do.
const NODE_VERSION_MIN: Version = (20, 12);
/// The folders with a package-lock.json of their own that tests need.
const LOCKED: [&str; 2] = [".", "sdk/test/runtimes"];

/// Generates the TypeScript types from the Rust types.
pub(crate) fn generate(report: &mut Report) {
    report.check("generated TypeScript", || {
        let mut command = cargo(&["test", "-p", "runlog-bindings", "--test", "generated"]);
        outcome(run(command.env("RUNLOG_GENERATE", "1")))
    });
}

/// Builds what the tests need, and runs them.
pub(crate) fn test(report: &mut Report) {
    let mut built = None;
    report.check("addon and packages of Node", || {
        let addon = ensure_node()
            .and_then(|()| install_all())
            .and_then(|()| addon::build_here(Profile::Dev))?;
        let name = addon
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        built = Some(addon);
        Ok(name)
    });
    // Without them every test would fail for the same reason.
    if let Some(addon) = built {
        report.check("what the addon needs", || {
            addon::check_here(&addon, Profile::Dev)
        });
        report.count("tests of the npm package", || vitest("test"));
    }
}

/// The quick checks of the JavaScript side, which need only its sources and the addon: types and contract tests.
pub(crate) fn quick(report: &mut Report) {
    report.check("types of TypeScript", check_types);
    report.count("contracts of the npm package", || {
        vitest_with_addon("test:quick")
    });
}

/// `integrations`: the packed package with third-party packages, which are installed anew each time.
pub(crate) fn integrations(report: &mut Report) {
    report.count("integrations of the npm package", || {
        vitest_with_addon("test:integrations")
    });
}

/// Checks the types of everything in TypeScript.
pub(crate) fn check_types() -> Outcome {
    ensure_node()?;
    install(".")?;
    outcome(run(&mut npm(&[
        "run",
        "--silent",
        "check",
        "--workspaces",
        "--if-present",
    ])))
}

/// Builds the pages of the public API of the npm package, into `target/docs-js`; every warning is an error.
pub(crate) fn docs() -> Outcome {
    ensure_node()?;
    install(".")?;
    outcome(run(&mut npm(&[
        "run",
        "--silent",
        "docs",
        "--workspace",
        "sdk",
    ])))
    .map(|_| "target/docs-js".to_owned())
}

/// Runs a program of this repository.
pub(crate) fn program(path: &str, arguments: &[&str]) -> Outcome {
    ensure_node()?;
    install(".")?;
    outcome(run(command("node").arg(root().join(path)).args(arguments)))
}

/// Checks that Node and npm are installed. They are never installed from here.
fn ensure_node() -> Result<(), String> {
    let (major, minor) = NODE_VERSION_MIN;
    let wanted = format!("Node {major}.{minor} or later is needed, with npm: https://nodejs.org");
    let found = answer(command("node").arg("--version"))
        .ok_or_else(|| format!("node is missing. {wanted}"))?;
    if parse_version(&found).is_none_or(|found| found < NODE_VERSION_MIN) {
        return Err(format!("node is {}. {wanted}", found.trim()));
    }
    answer(&mut npm(&["--version"]))
        .map(drop)
        .ok_or_else(|| format!("npm is missing. {wanted}"))
}

/// Reads `v20.20.2`.
fn parse_version(text: &str) -> Option<Version> {
    version(text.trim().strip_prefix('v')?)
}

/// Checks that Node is installed, and installs the packages' npm dependencies.
pub(crate) fn ensure_installed() -> Result<(), String> {
    ensure_node()?;
    install(".")
}

fn install_all() -> Result<(), String> {
    LOCKED.iter().try_for_each(|folder| install(folder))
}

/// Installs the dependencies of a package-lock.json, unless they are installed already.
fn install(folder: &str) -> Result<(), String> {
    let place = root().join(folder);
    let installed = place.join("node_modules/.package-lock.json");
    if modified(&installed) >= modified(&place.join("package-lock.json")) && installed.exists() {
        return Ok(());
    }
    outcome(run(
        npm(&["ci", "--no-audit", "--no-fund"]).current_dir(&place)
    ))
    .map(drop)
    .map_err(|why| format!("npm ci in {folder}: {why}"))
}

/// When a file was last modified; `None` if it doesn't exist.
pub(crate) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = command(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.args(arguments);
    command
}

/// As [`vitest`], with the addon built first.
fn vitest_with_addon(script: &str) -> (Counts, String) {
    match ensure_node()
        .and_then(|()| install("."))
        .and_then(|()| addon::build_here(Profile::Dev))
    {
        Ok(_) => vitest(script),
        Err(why) => (Counts::failed(), why),
    }
}

/// Runs a script of the SDK's that runs tests, and reads how many there were.
fn vitest(script: &str) -> (Counts, String) {
    watch_vitest(npm(&["run", "--silent", script, "--workspace", "sdk"]))
}

/// Runs a script of tests that need a browser.
pub(crate) fn vitest_in_browser(package: &str, script: &str, chromium: &Path) -> (Counts, String) {
    let mut command = npm(&["run", "--silent", script, "--workspace", package]);
    command.env("RUNLOG_CHROMIUM", chromium);
    watch_vitest(command)
}

fn watch_vitest(mut command: Command) -> (Counts, String) {
    let mut counts = Counts::default();
    let status = run_watched(command.env("NO_COLOR", "1"), |line| {
        if let Some(found) = parse_tests_line(line) {
            counts = found;
        }
    });
    match outcome(status) {
        Ok(_) if counts.passed + counts.failed == 0 => (
            Counts {
                failed: 1,
                ..counts
            },
            "no test ran".to_owned(),
        ),
        Ok(note) => (counts, note),
        Err(why) => (
            Counts {
                failed: counts.failed.max(1),
                ..counts
            },
            why,
        ),
    }
}

/// Reads `      Tests  1 failed | 135 passed | 2 skipped (138)`.
fn parse_tests_line(line: &str) -> Option<Counts> {
    let rest = line.trim().strip_prefix("Tests ")?;
    let (parts, _) = rest.rsplit_once('(')?;
    let mut counts = Counts::default();
    for part in parts.split('|') {
        let (number, word) = part.trim().split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "passed" => counts.passed = number,
            "failed" => counts.failed = number,
            _ => counts.ignored += number,
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_tests_is_read_in_full() {
        let line = "      Tests  1 failed | 135 passed | 2 skipped | 3 todo (141)";
        assert_eq!(
            parse_tests_line(line),
            Some(Counts {
                passed: 135,
                failed: 1,
                ignored: 5
            })
        );
        assert_eq!(
            parse_tests_line(" Tests  7 passed (7)"),
            Some(Counts {
                passed: 7,
                failed: 0,
                ignored: 0
            })
        );
        for other in [
            "",
            "Test Files  1 passed (1)",
            "Tests",
            "Tests  many passed (7)",
        ] {
            assert_eq!(parse_tests_line(other), None, "{other}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_version("v20.20.2\n"), Some((20, 20)));
        assert!(parse_version("v9.11.0").is_some_and(|version| version < NODE_VERSION_MIN));
        assert_eq!(parse_version("20"), None);
    }
}
