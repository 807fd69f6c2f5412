//! The results of the checks, and the machine-readable closing line.

use std::{
    io,
    process::{ExitCode, ExitStatus},
    time::{Duration, Instant},
};

/// The checks of one call, in order.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    counts: Counts,
    took: Duration,
    note: String,
}

/// How many checks ended how.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    /// Those of a check that could not be done.
    pub(crate) fn failed() -> Self {
        Self {
            failed: 1,
            ..Self::default()
        }
    }
}

/// The result of one check: `Ok` with a remark (may be empty), or why it failed.
pub(crate) type Outcome = Result<String, String>;

impl Report {
    /// Runs one check that counts as one.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Outcome) {
        self.count(name, || match check() {
            Ok(note) => (
                Counts {
                    passed: 1,
                    ..Counts::default()
                },
                note,
            ),
            Err(why) => (Counts::failed(), why),
        });
    }

    /// Runs a tool that reports the counts of many checks.
    pub(crate) fn count(&mut self, name: &str, check: impl FnOnce() -> (Counts, String)) {
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let (counts, note) = check();
        if counts.failed > 0 {
            eprintln!("FAILED: {name}: {note}");
        }
        self.rows.push(Row {
            name: name.to_owned(),
            counts,
            took: start.elapsed(),
            note,
        });
    }

    /// Prints what happened, then the closing line; the exit code says whether all passed.
    pub(crate) fn close(self) -> ExitCode {
        let mut total = Counts::default();
        println!();
        for row in &self.rows {
            total.passed += row.counts.passed;
            total.failed += row.counts.failed;
            println!("{}", row.line());
        }
        if self.rows.is_empty() {
            total.failed = 1;
            println!("FAILED  nothing was checked");
        }
        println!("{} passed, {} failed", total.passed, total.failed);
        if total.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl Row {
    fn line(&self) -> String {
        let word = if self.counts.failed == 0 {
            "ok    "
        } else {
            "FAILED"
        };
        let mut line = format!(
            "{word}  {:<38} {:>6.1} s",
            self.name,
            self.took.as_secs_f64()
        );
        let Counts {
            passed,
            failed,
            ignored,
        } = self.counts;
        if passed + failed + ignored > 1 {
            line.push_str(&format!(
                "  {passed} passed, {failed} failed, {ignored} ignored"
            ));
        }
        if !self.note.is_empty() {
            line.push_str("  ");
            line.push_str(&self.note);
        }
        line
    }
}

/// Turns the end of a child process into the outcome of a check.
pub(crate) fn outcome(status: io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Ok(String::new()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("could not be run: {error}")),
    }
}
