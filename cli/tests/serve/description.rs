//! The description of the API, and that it is true.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    common::Place,
    recorded::{Recorded, record},
    server::Server,
};

const WRITE: &str = "a-token-that-writes-0123456789";

struct Described {
    server: Server,
    recorded: Recorded,
    document: Value,
    _place: Place,
}

fn described() -> Described {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start_with(&place, &[], &[("RUNLOG_WRITE_TOKEN", WRITE)]);
    // Without a token: it has nothing of the store.
    let document = server.json("/openapi.json");
    Described {
        server,
        recorded,
        document,
        _place: place,
    }
}

impl Described {
    fn operations(&self) -> Vec<(&String, &String, &Value)> {
        let paths = self.document["paths"].as_object().unwrap().iter();
        paths
            .flat_map(|(path, operations)| {
                operations
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(move |(method, operation)| (path, method, operation))
            })
            .collect()
    }

    /// An address of the path, with things that are there, and the query of the examples.
    fn address(&self, path: &str, operation: &Value) -> String {
        let ask = |path: &str| {
            let token = format!("Bearer {WRITE}");
            self.server
                .get_with(path, &[("authorization", &token)])
                .json()["items"][0]["id"]
                .to_string()
        };
        let run = format!("/v1/runs/{}", self.recorded.done);
        let run_id = match path.contains("/flows/") {
            true => self.recorded.flow.to_string(),
            false => self.recorded.done.to_string(),
        };
        let (name, project) = match path.contains("/files/") {
            true => ("RUNLOG", ""),
            false => ("finder", "project=papers+%26+more&"),
        };
        let mut address = path
            .replace("{id}", "papers%20%26%20more")
            .replace("{run_id}", &run_id)
            .replace("{session_id}", &self.recorded.session.to_string())
            .replace("{instance_id}", &self.recorded.instance.to_string())
            .replace("{chat_id}", &self.recorded.chat)
            .replace("{name}", name)
            .replace("{message_id}", &ask(&format!("{run}/messages")))
            .replace("{call_id}", &ask(&format!("{run}/tool-calls")));
        assert!(!address.contains('{'), "{address}");
        address.push('?');
        if path.contains("agents/{name}") {
            address.push_str(project);
        }
        for parameter in operation["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            let examples = match &parameter["example"] {
                Value::Null => Vec::new(),
                Value::Array(all) => all.clone(),
                one => vec![one.clone()],
            };
            for example in examples {
                let text = example
                    .as_str()
                    .map_or_else(|| example.to_string(), str::to_owned);
                address.push_str(&format!("{name}={text}&"));
            }
        }
        address.trim_end_matches(['&', '?']).to_owned()
    }
}

#[test]
fn every_documented_example_is_answered_as_documented() {
    let described = described();
    let token = format!("Bearer {WRITE}");
    let mut count = 0;
    for (path, method, operation) in described.operations() {
        let address = described.address(path, operation);
        let status: u16 = operation["responses"]
            .as_object()
            .unwrap()
            .keys()
            .find(|it| it.starts_with('2'))
            .unwrap()
            .parse()
            .unwrap();
        let told = operation["responses"][status.to_string()]["content"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap();
        count += 1;
        if told == "text/event-stream" {
            let request = format!(
                "GET {address} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n"
            );
            let begun = described.server.begin(&request);
            assert!(
                begun.starts_with("HTTP/1.1 200") && begun.contains("text/event-stream"),
                "{begun}"
            );
            continue;
        }
        let answer = match method.as_str() {
            "get" => described
                .server
                .get_with(&address, &[("authorization", &token)]),
            "post" => {
                let body = &operation["requestBody"]["content"]["application/json"]["example"];
                assert!(!body.is_null(), "{path} has no example");
                let headers = [
                    ("authorization", token.as_str()),
                    ("content-type", "application/json"),
                ];
                described.server.post(&address, &headers, &body.to_string())
            }
            other => panic!("{other}"),
        };
        assert_eq!(
            answer.status,
            status,
            "{method} {address}: {}",
            answer.text()
        );
        assert_eq!(
            answer.header("content-type"),
            Some(told.as_str()),
            "{address}"
        );
    }
    assert!(count > 35, "{count} operations");
}

#[test]
fn every_reference_leads_somewhere_and_every_name_is_one() {
    let described = described();
    let document = &described.document;
    assert_eq!(document["openapi"], "3.1.0");
    let text = document.to_string();
    let mut count = 0;
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
        count += 1;
    }
    assert!(count > 20, "{count} references");
    for of_rust in ["```", "(Self::", "(crate::", "use runlog", "`None`"] {
        assert!(!text.contains(of_rust), "{of_rust:?} is in a description");
    }
    let ids = described.operations();
    let ids: Vec<_> = ids
        .iter()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    for (path, method, operation) in described.operations() {
        let parameters = operation["parameters"].as_array().unwrap();
        for parameter in parameters {
            let name = parameter["name"].as_str().unwrap();
            assert!(
                parameter["in"] == "header" || !name.contains(char::is_uppercase),
                "{path}: {name}"
            );
            assert!(
                parameter["description"].is_string(),
                "{path}: {name} isn't described"
            );
        }
        let of_path = parameters.iter().filter(|it| it["in"] == "path").count();
        assert_eq!(of_path, path.matches('{').count(), "{path}");
        assert_eq!(
            method == "post",
            operation["requestBody"].is_object(),
            "{path}"
        );
    }
}

#[test]
fn what_is_not_described_is_not_answered() {
    let described = described();
    let known: BTreeSet<&str> = described
        .operations()
        .iter()
        .map(|(path, _, _)| path.as_str())
        .collect();
    for path in [
        "/api/projects/{id}/agent-runs",
        "/api/projects/{id}/agent-runs/{run_id}",
        "/api/projects/{id}/agent-runs/{run_id}/messages",
        "/api/projects/{id}/agent-runs/{run_id}/messages/{message_id}",
        "/api/projects/{id}/agent-runs/{run_id}/tool-calls",
        "/api/projects/{id}/agent-runs/{run_id}/tool-calls/{call_id}",
        "/v1/tail",
        "/v1/store/files/{name}",
        "/openapi.json",
    ] {
        assert!(known.contains(path), "{path}");
    }
    let token = format!("Bearer {WRITE}");
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
    ];
    for (path, _, operation) in described.operations() {
        let operations = described.document["paths"][path].as_object().unwrap();
        let address = described.address(path, operation);
        if !operations.contains_key("post") {
            described
                .server
                .post(&address, &headers, "{}")
                .problem(405, "method_not_allowed");
        }
        if !operations.contains_key("get") {
            described
                .server
                .get_with(&address, &headers)
                .problem(405, "method_not_allowed");
        }
    }
}
