//! Transcripts of every form come back byte for byte: real ones where they lie beside the project, and always the
//! small ones that it carries.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use runlog::transcripts::{Format, Options, Transcript, parse, render};
use serde_json::Value;

/// The transcripts to read, and a line that says where they are from.
fn sources() -> Vec<(PathBuf, Vec<u8>)> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    collect(&workspace.join("cli/tests/fixtures"), &mut files);
    let carried = files.len();
    let real = workspace.join("../shared/data");
    collect(&real, &mut files);
    if files.len() == carried {
        println!(
            "checked with the {carried} transcripts that the project carries; no real ones at {}",
            real.display()
        );
    } else {
        println!(
            "checked with {carried} carried and {} real transcripts",
            files.len() - carried
        );
    }
    files
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|it| it == "jsonl" || it == "traj")
        {
            files.push(path);
        }
    }
    files.sort();
}

fn read(path: &Path, bytes: &[u8]) -> Transcript {
    parse(bytes, Options::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a source that are JSON, as a reader with another parser sees them.
fn json_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines
        .filter(|line| serde_json::from_slice::<Value>(line).is_ok())
        .collect()
}

#[test]
fn every_source_comes_back_byte_for_byte() {
    for (path, bytes) in sources() {
        let transcript = read(&path, &bytes);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let enveloped = || {
            transcript
                .entries
                .iter()
                .map(|entry| text(&render::line(entry.envelope.as_ref(), &entry.raw)))
        };
        let runs = || {
            transcript.sessions.iter().map(|session| {
                let messages: Vec<_> = transcript
                    .entries_of(session.number)
                    .map(|it| it.raw.clone())
                    .collect();
                text(&render::run(session.wrapper.as_ref(), &messages))
            })
        };
        let has_runs = transcript
            .sessions
            .iter()
            .any(|session| session.wrapper.is_some());
        let back: Vec<String> = if has_runs {
            runs().collect()
        } else {
            enveloped().collect()
        };
        let expected: Vec<String> = match transcript.format {
            Format::SweAgent => vec![text(bytes.trim_ascii())],
            _ => json_lines(&bytes).into_iter().map(text).collect(),
        };
        assert!(!back.is_empty(), "{}", path.display());
        assert_eq!(back, expected, "{}", path.display());
    }
}

/// Every tool call of a JSON value, wherever it stands: id, name and argument string.
fn calls_in(value: &Value, calls: &mut Vec<(String, String, Option<String>)>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match value {
        Value::Array(items) => items.iter().for_each(|item| calls_in(item, calls)),
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|it| it == "tool_use") {
                calls.push((text(&value["id"]), text(&value["name"]), None));
            } else if let Some(function) = fields.get("function").filter(|it| it.is_object()) {
                calls.push((
                    text(&value["id"]),
                    text(&function["name"]),
                    Some(text(&function["arguments"])),
                ));
            }
            fields.values().for_each(|field| calls_in(field, calls));
        }
        _ => {}
    }
}

#[test]
fn every_tool_call_is_found_with_its_argument_string() {
    let mut found = HashMap::new();
    for (path, bytes) in sources() {
        let transcript = read(&path, &bytes);
        let calls: Vec<_> = transcript
            .entries
            .iter()
            .flat_map(|entry| entry.tool_calls())
            .collect();
        *found.entry(transcript.format).or_insert(0) += calls.len();
        let mut expected = Vec::new();
        for entry in transcript.entries.iter().filter(|entry| entry.is_message()) {
            calls_in(
                &serde_json::from_str(entry.raw.as_str()).unwrap(),
                &mut expected,
            );
        }
        if transcript.format == Format::SweAgent {
            // Its calls are mostly Python literals, which the carried fixture and unit tests check one by one.
            assert!(calls.len() >= expected.len(), "{}", path.display());
            let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
            assert!(
                calls.iter().all(|call| is_json(&call.arguments_text())),
                "{}",
                path.display()
            );
            continue;
        }
        assert_eq!(calls.len(), expected.len(), "{}", path.display());
        for (call, (id, name, arguments)) in calls.iter().zip(expected) {
            assert_eq!(
                (call.id.as_deref(), call.name.as_str()),
                (Some(id.as_str()), name.as_str())
            );
            match arguments {
                Some(arguments) => assert_eq!(call.arguments_text(), arguments),
                None => assert!(call.arguments.starts_with('{')),
            }
        }
    }
    for format in [Format::OpenAi, Format::ClaudeCode, Format::SweAgent] {
        assert!(
            found.get(&format).is_some_and(|count| *count > 0),
            "no tool call in any {format} source"
        );
    }
}

#[test]
fn the_carried_transcripts_read_as_they_were_made() {
    let fixture = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name);
        read(&path, &fs::read(&path).unwrap())
    };
    let shape = |it: &Transcript| {
        (
            it.sessions.len(),
            it.instances.len(),
            it.entries.len(),
            it.issues.len(),
        )
    };
    assert_eq!(shape(&fixture("openai-runs.jsonl")), (2, 2, 15, 0));
    assert_eq!(shape(&fixture("openai-messages.jsonl")), (1, 1, 10, 0));
    assert_eq!(shape(&fixture("claude-code-odd.jsonl")), (1, 1, 9, 8));
    assert_eq!(shape(&fixture("swe-agent.traj")), (1, 2, 6, 0));

    let claude = fixture("claude-code.jsonl");
    assert_eq!(shape(&claude), (2, 4, 13, 0));
    let agents: Vec<_> = claude
        .instances
        .iter()
        .map(|it| (it.session, it.agent.as_str(), it.parent))
        .collect();
    let expected = [
        (0, "claude-code", None),
        (0, "searcher", Some(0)),
        (0, "tester", Some(0)),
        (1, "claude-code", None),
    ];
    assert_eq!(agents, expected);
    assert_eq!(claude.entries[1].time_ms, Some(1_751_360_401_001));

    let swe = fixture("swe-agent.traj");
    let call = swe.entries[2].tool_calls().next().unwrap();
    assert_eq!(
        (call.id.as_deref(), call.name.as_str()),
        (Some("call_1"), "create")
    );
    assert_eq!(
        call.arguments_text(),
        r#"{"path":"a b.py", "text":"it's\n"}"#
    );
}
