//! The description of the API, tried by a program that knows nothing else of the server: Schemathesis, of a fixed version
//! from PyPI, in an environment of its own among what is built.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    common::Place,
    recorded::{PROJECT, Recorded, record},
    server::Server,
};

const VERSION: &str = "4.32.5";
const TOKEN: &str = "a-token-that-writes-0123456789";
/// What each of two runs may take; the examples and edges of every operation come first, then what is random for the rest.
const SECONDS: &str = "20";

/// Left out are only: streams, which don't end, and that what fits the schema is accepted, for a schema can't say that a
/// cursor is one that was given, and of the same list.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,missing_required_header,unsupported_method,ignored_auth";
/// Not where the parameters of paths are what we say: it takes them for its own, which are wrong on purpose.
const REFUSAL: &str = "negative_data_rejection";

/// Where the program is, installed where it isn't yet.
fn schemathesis() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schemathesis-{VERSION}"));
    let program = folder.join("bin/schemathesis");
    if program.is_file() {
        return program;
    }
    let run = |program: &Path, arguments: &[&str]| {
        let ended = Command::new(program).args(arguments).output();
        let told = ended.map_err(|error| error.to_string()).and_then(|ended| {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            ended.status.success().then_some(()).ok_or(said)
        });
        told.unwrap_or_else(|why| {
            panic!(
                "Schemathesis {VERSION} could not be installed from PyPI; Python 3.10 or later with venv and pip is \
                 needed for that (`apt-get install python3-venv`): {why}"
            )
        });
    };
    let path = folder.to_str().unwrap();
    run(Path::new("python3"), &["-m", "venv", path]);
    let package = format!("schemathesis=={VERSION}");
    let install = ["-m", "pip", "install", "--quiet", &package];
    run(&folder.join("bin/python"), &install);
    program
}

/// Has the parameters of paths name what is there, so that more than a 404 is seen.
fn configuration(recorded: &Recorded) -> String {
    let Recorded {
        session,
        instance,
        done,
        flow,
        chat,
        ..
    } = recorded;
    format!(
        r#"[parameters]
"path.id" = {PROJECT:?}
"path.session_id" = "{session}"
"path.instance_id" = "{instance}"
"path.run_id" = "{done}"
"path.chat_id" = {chat:?}
"path.name" = "finder"

[[operations]]
include-path-regex = "/v1/flows/"
parameters = {{ "path.run_id" = "{flow}" }}

[[operations]]
include-path-regex = "/v1/store/files/"
parameters = {{ "path.name" = "00000001.seg" }}
"#
    )
}

/// Runs it with these arguments beside those that all runs have, and says what it said.
fn run(server: &Server, arguments: &[&str]) -> String {
    let ended = Command::new(schemathesis())
        .args(arguments)
        .arg(format!("{}/openapi.json", server.url))
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-time", SECONDS, "--seed", "1", "--max-examples", "20"])
        .args(["--exclude-path", "/v1/tail"])
        .args(["--exclude-path-regex", "/playback$"])
        .args(["--request-timeout", "30", "--generation-database", "none"])
        // Two threads that parse at once make Python 3.11 fail (`AST constructor recursion depth mismatch`).
        .args(["--workers", "1", "--continue-on-failure", "--no-color"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(
        ended.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    // It may end for other reasons than that everything was tried.
    assert!(
        said.contains("generated") && !said.contains(" 0 generated"),
        "{said}"
    );
    said
}

#[test]
fn schemathesis_finds_nothing_that_the_description_does_not_say() {
    let place = Place::new();
    let recorded = record(&place);
    let configured = place.path("schemathesis.toml");
    fs::write(&configured, configuration(&recorded)).unwrap();
    let server = Server::start_with(&place, &[], &[("RUNLOG_WRITE_TOKEN", TOKEN)]);
    let all = format!("{CHECKS},{REFUSAL}");
    println!("{}", run(&server, &["run", "--checks", &all]));
    let file = configured.to_str().unwrap();
    let known = ["--config-file", file, "run", "--checks", CHECKS];
    println!("{}", run(&server, &known));
}
