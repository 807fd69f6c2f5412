//! `cargo xtask <verb>`: the one entry point to test, lint and measure.
//!
//! Every verb runs all of its checks even when one fails, streams what they print, and ends in one line `N passed, N
//! failed`; it exits with 1 when anything failed and with 2 when it was called wrongly. The crate depends on nothing
//! but a small reader of libraries, with the same features in every build, so that it builds fast and is never rebuilt
//! during a running `cargo test`.

mod addon;
mod binary;
mod browser;
mod child;
mod floors;
mod gate;
mod instructions;
mod lengths;
mod lint;
mod measure;
mod modules;
mod node;
mod platforms;
mod report;
mod sources;
mod test;
mod tokens;
mod tools;
mod unused;

use std::process::ExitCode;

use report::Report;

const USAGE: &str = "\
usage: cargo xtask <verb>

  test                 unit, integration and doc tests of every crate, core/* in WebAssembly, and the npm packages
  test --quick         of these the unit tests, the contracts of calls and the types: three minutes when nothing is to be
                       built, against the half hour of the whole
  lint [--advisories]  formatting, clippy, docs, licences and sources of dependencies, house rules;
                       --advisories also asks the RustSec database, which needs the network
  lint --ahead         only installs and compiles what it needs
  lint floors          of these only that imports point down, in no circle, in every crate
  wasm                 core/* built for wasm32-unknown-unknown, and tested there in Node, alone
  wasm-module          the WebAssembly module of browsers, built, made small, and put where the npm package has it
  viewer               that, and the replay viewer over it, built into viewer/dist
  browser              that, and the npm package's contracts of calls and the viewer in Chromium
  node                 the npm packages' tests, alone
  integrations         the packed npm package built by Next, and beside the Claude Agent SDK's types (three minutes)
  generate             the TypeScript in sdk/src/generated, from the types of Rust; `test` finds it stale
  docs                 the pages of the public APIs, of the crates and of the npm package (lint does it too)
  addon [--release]    the Node addon for this machine, where the tests and benches/js find it; the release is stripped
  addon --release (--target NAME | --all)
                       npm packages of the addon, built for any platform of bindings-node/platforms.json, looked
                       into, and laid out in target/npm; docs/releasing.md tells the rest
  bench [filter]       criterion benchmarks, those whose name contains the filter
  bench --check [--write]
                       instructions of the hot paths, against what is written down (lint does it too); --write renews that
  bench --peers [--quick] [--rounds N] [--only NAME,NAME] [--write] [words]
                       runlog beside other stores, in turns (half an hour, --quick some minutes; building RocksDB takes
                       longer, unless ROCKSDB_LIB_DIR names the system's); --write puts the tables into docs/benchmarks.md
  bench --peers at-rest FILE [BYTES]
                       conversations like a file's, compacted by each store: bytes on disk, and reading one (two minutes)
  ratios [--json] [--quick] [--rounds N] [words]
                       runlog against raw floors of this machine, interleaved, with the targets
  runs                 first pages of a million runs beside those of a thousand, and opening them (two minutes)
  spawn [agents [events]]
                       thousands of sub-agents in one call: time, events/s, events for each flush, memory
  week [runs]          a week of an agent platform in fast motion, so many runs a day (10,000 unless given): how long an append
                       takes from the first day to the last, and the disk beside what was said (some minutes)
  bench-js [--rounds N] [--slice MS] [--quiet SECONDS] [--json] [words]
                       the npm package beside other stores of JavaScript's, in turns (two minutes)
  bench-browser [--rounds N] [--slice MS] [--json] [words]
                       the module in Chromium beside SQLite's, IndexedDB and files of JSON lines, in turns (two minutes)
  bench-http [tails] [--rounds N] [--seconds N] [--json]
                       the history of runs over HTTP, by `runlog serve` and by a server over tables of PostgreSQL, asked by wrk in
                       turns (five minutes); `tails`: a thousand clients that follow a store, and what that costs its writer
  bench-chats          lists and saves of chats beside the same rows in tables of SQLite, in turns (three minutes)
  torture [--seconds N] [filter]
                       the harnesses with a long budget: N seconds each (600 unless given)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((&verb, rest)) = arguments.split_first() else {
        return refuse("which verb?");
    };
    let mut report = Report::default();
    match (verb, rest) {
        ("test", []) => test::all(&mut report),
        ("test", ["--quick"]) => test::quick(&mut report),
        ("node", []) => test::npm(&mut report),
        ("addon", rest) => addon::run_verb(&mut report, rest),
        ("wasm", []) => test::wasm(&mut report),
        ("wasm-module", []) => browser::build(&mut report),
        ("viewer", []) => {
            browser::build(&mut report);
            report.check("the viewer", browser::viewer);
        }
        ("browser", []) => test::in_browser(&mut report),
        ("integrations", []) => test::integrations(&mut report),
        ("generate", []) => node::generate(&mut report),
        ("docs", []) => lint::docs(&mut report),
        ("lint", ["--ahead"]) => lint::ahead(&mut report),
        ("lint", []) => lint::all(&mut report, lint::Advisories::Skip),
        ("lint", ["floors"]) => lint::floors(&mut report),
        ("lint", ["--advisories"]) => lint::all(&mut report, lint::Advisories::Ask),
        ("bench", ["--check"]) => {
            report.check("instructions of the hot paths", instructions::check)
        }
        ("bench", ["--check", "--write"]) => {
            report.check("counts written down", instructions::write)
        }
        ("bench", ["--peers", rest @ ..]) => return measure::peers(rest),
        ("bench", rest) => measure::bench(&mut report, rest),
        ("ratios" | "runs" | "spawn" | "week", rest) => return measure::program(verb, rest),
        ("bench-js", rest) => return measure::from_javascript(rest),
        ("bench-browser", rest) => return measure::in_browser(rest),
        ("bench-http", rest) => return measure::over_http(rest),
        ("bench-chats", rest) => return measure::chats(rest),
        ("torture", rest) => match test::TortureOptions::parse(rest) {
            Ok(options) => test::torture(&mut report, &options),
            Err(why) => return refuse(&why),
        },
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        (
            "test" | "wasm" | "wasm-module" | "viewer" | "browser" | "node" | "integrations"
            | "generate" | "docs" | "lint",
            _,
        ) => {
            return refuse(&format!("`{verb}` does not take {}", rest.join(" ")));
        }
        _ => return refuse(&format!("there is no verb `{verb}`")),
    }
    report.close()
}

fn refuse(why: &str) -> ExitCode {
    eprint!("{why}\n\n{USAGE}");
    ExitCode::from(2)
}
