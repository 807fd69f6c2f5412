//! `bench --check`: compares the hot paths' instructions per event with the recorded counts.
//!
//! A count says nothing of time, but it is nearly the same in every run, also beside other work, so that a change which makes a
//! path longer is seen where a benchmark on a shared machine sees noise. Cachegrind counts, which shows programs a processor of its
//! own, so that two machines give the same count; another toolchain or C library doesn't.

use std::{fmt::Write as _, fs, path::Path};

use crate::{
    child::{answer, cargo, command, root, run, target_folder},
    report::{Outcome, outcome},
    tools,
};

/// The file of the recorded counts.
const COUNTS: &str = "benches/instructions/counts.txt";
/// The tolerated deviation from a recorded count. Changes elsewhere in a crate change inlining here: by at most 2.4 %
/// so far.
const TOLERANCE: f64 = 0.03;
/// How often a path is walked in the two runs that are compared, and for how many events each time.
const WALKS: (u32, u32) = (3, 6);
const EVENTS: u32 = 1000;

/// Compares the counts with the recorded ones.
pub(crate) fn check() -> Outcome {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok("not counted: the counts are those of x86-64 and Linux".to_owned());
    }
    let text =
        fs::read_to_string(root().join(COUNTS)).map_err(|error| format!("{COUNTS}: {error}"))?;
    let (toolchain, known) = parse(&text)?;
    let counted = count()?;
    let (now, mut missed) = (this_toolchain()?, 0);
    eprintln!(
        "{:<36} {:>12} {:>12}  instructions for an event",
        "", "written down", "now"
    );
    for (path, count) in &counted {
        let before = known
            .iter()
            .find(|(known, _)| known == path)
            .map(|(_, count)| *count);
        let change = before.map(|before| count / before - 1.0);
        let is_missed = change.is_none_or(|change| change.abs() > TOLERANCE);
        missed += usize::from(is_missed);
        let change = change.map_or_else(
            || "new".to_owned(),
            |change| format!("{:+.1} %", change * 100.0),
        );
        let before = before.map_or_else(String::new, |before| format!("{before:.0}"));
        let mark = if is_missed { "  <-" } else { "" };
        eprintln!("{path:<36} {before:>12} {count:>12.0}  {change}{mark}");
    }
    let gone = known
        .iter()
        .filter(|(path, _)| !counted.iter().any(|(counted, _)| counted == path))
        .count();
    if now != toolchain {
        return Ok(format!(
            "not judged: they were counted with {toolchain}, this is {now}"
        ));
    }
    if missed + gone == 0 {
        Ok(format!("{} paths", counted.len()))
    } else {
        Err(format!(
            "{missed} paths are more than {:.0} % from what is written down, {gone} are gone; if that is meant, \
             `cargo xtask bench --check --write` writes the new counts into {COUNTS}",
            TOLERANCE * 100.0
        ))
    }
}

/// Records the counts.
pub(crate) fn write() -> Outcome {
    let mut text = format!(
        "# Instructions for an event, by `cargo xtask bench --check --write`: see docs/benchmarks.md.\n{}\n",
        this_toolchain()?
    );
    for (path, count) in count()? {
        let _ = writeln!(text, "{path} = {count:.0}");
    }
    fs::write(root().join(COUNTS), &text).map_err(|error| format!("{COUNTS}: {error}"))?;
    print!("{text}");
    Ok(String::new())
}

/// The toolchain, and what each path took with it.
fn parse(text: &str) -> Result<(String, Vec<(String, f64)>), String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let toolchain = lines.next().ok_or_else(|| format!("{COUNTS} is empty"))?;
    let counts = lines.map(|line| {
        line.rsplit_once(" = ")
            .and_then(|(path, count)| Some((path.to_owned(), count.parse().ok()?)))
            .ok_or_else(|| format!("{COUNTS}: `{line}` is no path with a count"))
    });
    Ok((toolchain.to_owned(), counts.collect::<Result<_, _>>()?))
}

fn this_toolchain() -> Result<String, String> {
    let version = answer(command("rustc").arg("--version"));
    version
        .map(|version| version.trim().to_owned())
        .ok_or_else(|| "rustc does not say its version".to_owned())
}

/// What each path takes now.
fn count() -> Result<Vec<(String, f64)>, String> {
    tools::ensure_valgrind()?;
    build()?;
    let program = target_folder().join("release/instructions");
    let paths =
        answer(command(&program).arg("list")).ok_or("the program does not list its paths")?;
    paths
        .lines()
        .map(|path| {
            let (few, many) = (
                refs(&program, path, WALKS.0)?,
                refs(&program, path, WALKS.1)?,
            );
            let events = f64::from((WALKS.1 - WALKS.0) * EVENTS);
            Ok((path.to_owned(), (many - few) / events))
        })
        .collect()
}

/// Builds the program that walks the paths.
pub(crate) fn build() -> Result<(), String> {
    let arguments = [
        "build",
        "--release",
        "--quiet",
        "--package",
        "runlog-instructions",
    ];
    outcome(run(&mut cargo(&arguments))).map(drop)
}

/// The instructions of one run of the program.
fn refs(program: &Path, path: &str, walks: u32) -> Result<f64, String> {
    let mut valgrind = command("valgrind");
    valgrind.args([
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]);
    valgrind.arg(program).arg(path).arg(walks.to_string());
    let output = valgrind
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    refs_in(&said)
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("valgrind of `{path}`: {}: {said}", output.status))
}

/// The number in the line `==1== I refs: 1,234`.
fn refs_in(said: &str) -> Option<f64> {
    said.lines().find_map(|line| {
        let (words, number) = line.split_once("refs:")?;
        (words.split_whitespace().nth(1) == Some("I"))
            .then(|| number.trim().replace(',', "").parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_out_of_what_valgrind_says() {
        let said = "==7== Cachegrind\n==7== \n==7== I   refs:      1,234,567\n==7== D refs: 9\n";
        assert_eq!(refs_in(said), Some(1_234_567.0));
        assert_eq!(refs_in("==7== D refs: 9"), None);
    }

    #[test]
    fn counts_are_read_as_they_are_written() {
        let (toolchain, counts) =
            parse("# words\nrustc 1\nappend, durable = 12\nfold = 3\n").expect("it is well-formed");
        assert_eq!(toolchain, "rustc 1");
        assert_eq!(
            counts,
            [
                ("append, durable".to_owned(), 12.0),
                ("fold".to_owned(), 3.0)
            ]
        );
        assert!(parse("rustc 1\nfold\n").is_err());
    }
}
