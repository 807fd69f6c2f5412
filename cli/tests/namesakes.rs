//! Sessions of one name in one file: those that go on with one another are one, the others are told apart.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::Place;
use serde_json::{Value, json};

/// A line of a file of runs, all of one task.
fn line(messages: &[u64]) -> String {
    let messages: Vec<Value> = messages
        .iter()
        .map(|text| json!({"role": "user", "content": text.to_string()}))
        .collect();
    json!({"session_id": "task", "messages": messages}).to_string() + "\n"
}

/// The messages of each session in the order of their names, as they were exported.
fn messages(place: &Place, count: usize) -> Vec<Vec<u64>> {
    (1..=count)
        .map(|number| {
            let name = match number {
                1 => "task".to_owned(),
                number => format!("task~{number}"),
            };
            let told = place
                .expect(0, &["export", &name, "--format", "openai"])
                .out;
            let Some(told) = told.lines().next() else {
                return Vec::new();
            };
            let told: Value = serde_json::from_str(told).unwrap();
            told["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|message| message["content"].as_str().unwrap().parse().unwrap())
                .collect()
        })
        .collect()
}

#[test]
fn thousands_of_one_name_that_begin_alike_are_all_imported_once() {
    let place = Place::in_memory();
    let lines: Vec<String> = (0..1_500).map(|last| line(&[1, 2, 1_000 + last])).collect();
    let other = json!({"session_id": "other", "messages": [{"role": "user", "content": "x"}]});
    place.write("runs.jsonl", lines.concat() + &other.to_string());
    let report = place.expect(0, &["import", "runs.jsonl"]).out;
    assert!(
        report.contains("1,501 sessions, 4,501 messages"),
        "{report}"
    );
    let report = place.expect(0, &["import", "runs.jsonl"]).out;
    assert!(report.contains("already"), "{report}");
    let last = place
        .expect(0, &["export", "task~1500", "--format", "openai"])
        .out;
    assert_eq!(last, lines[1_499]);
    assert_eq!(
        place
            .runlog(&["export", "task~1501", "--format", "openai"])
            .code,
        3
    );
}

#[test]
fn the_session_that_a_line_goes_on_with_is_the_first_that_nothing_contradicts() {
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..12 {
        let place = Place::in_memory();
        // What a comparison with every session in turn gives.
        let mut sessions: Vec<Vec<u64>> = Vec::new();
        for _ in 0..3 {
            let mut file = String::new();
            for _ in 0..12 {
                // Some are as long as what is compared by hashes, and longer.
                let begun = if round % 3 == 0 { 62 } else { 0 };
                let more = (0..random(6)).map(|_| random(2));
                let run: Vec<u64> = std::iter::repeat_n(0, begun).chain(more).collect();
                file += &line(&run);
                let fits =
                    |there: &Vec<u64>| there.iter().zip(&run).all(|(one, other)| one == other);
                match sessions.iter_mut().find(|there| fits(there)) {
                    Some(there) if there.len() < run.len() => *there = run,
                    Some(_) => {}
                    None => sessions.push(run),
                }
            }
            place.write("runs.jsonl", file);
            place.expect(0, &["import", "runs.jsonl"]);
        }
        assert_eq!(messages(&place, sessions.len()), sessions, "round {round}");
        let beyond = format!("task~{}", sessions.len() + 1);
        assert_eq!(
            place
                .runlog(&["export", &beyond, "--format", "openai"])
                .code,
            3
        );
    }
}
