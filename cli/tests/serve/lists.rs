//! Sessions, contexts, chats, flows and agents.

use runlog::{
    AgentDefinition, NewMessage, NewSession, RawJson,
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestDetails, RequestEnd},
};
use serde_json::{Value, json};

use crate::{
    common::Place,
    recorded::{PROJECT, record},
    server::Server,
};

#[test]
fn runs_are_found_in_every_project() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    assert_eq!(
        server.json("/v1/runs")["items"].as_array().unwrap().len(),
        3
    );
    let run = server.json(&format!("/v1/runs/{}", recorded.other));
    assert_eq!(
        (&run["status"], &run["agent_name"]),
        (&json!("failed"), &json!("finder"))
    );
    let messages = server.json(&format!("/v1/runs/{}/messages?limit=1", recorded.done));
    let id = &messages["items"][0]["id"];
    let one = server.json(&format!("/v1/runs/{}/messages/{id}", recorded.done));
    assert_eq!(one["content"]["content"], "Find papers on logs.");
    let calls = server.json(&format!(
        "/v1/runs/{}/tool-calls?status=error",
        recorded.done
    ));
    let id = &calls["items"][0]["id"];
    let call = server.json(&format!("/v1/runs/{}/tool-calls/{id}", recorded.done));
    assert_eq!(call["duration_ms"], 7);
}

#[test]
fn sessions_lead_to_contexts_whose_events_come_in_pages() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let sessions = server.json("/v1/sessions?limit=10");
    assert!(
        sessions["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["id"] == recorded.session.to_string())
    );
    let session = server.json(&format!("/v1/sessions/{}", recorded.session));
    assert_eq!(
        (&session["title"], &session["project"]),
        (&json!("Find papers"), &json!(PROJECT))
    );
    let told = server.get("/v1/sessions/zzz");
    let told = told.problem(400, "invalid_input");
    assert!(told.contains("in the path can't be \"zzz\""), "{told}");
    let instances = server.json(&format!("/v1/sessions/{}/instances", recorded.session));
    assert_eq!(instances["items"][0]["id"], recorded.instance.to_string());
    let instance = server.json(&format!("/v1/instances/{}", recorded.instance));
    assert_eq!(instance["agent_name"], "finder");

    let events = format!("/v1/instances/{}/events", recorded.instance);
    let whole = server.json(&events);
    let count = whole["items"].as_array().unwrap().len();
    assert_eq!(count, 7, "five messages and two calls: {whole}");
    let (mut found, mut first) = (Vec::new(), json!(1));
    while !first.is_null() {
        let page = server.json(&format!("{events}?first={first}&limit=3"));
        found.extend(page["items"].as_array().unwrap().clone());
        first = page["next"].clone();
    }
    assert_eq!(Value::Array(found), whole["items"]);
    assert!(
        server.json(&format!("{events}?first=100"))["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    server
        .get(&format!("{events}?limit=0"))
        .problem(400, "invalid_input");
}

#[test]
fn instances_and_agents_come_in_pages_with_cursors_that_fit_one_list_only() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let [session, other] = [(); 2].map(|()| store.create_session(NewSession::default()).unwrap());
    let made: Vec<_> = (0..7)
        .map(|number| {
            let agent = AgentDefinition::new(format!("agent {number}"), "");
            store.agents().define(agent).unwrap();
            let instance = store.create_instance(session.id, "worker", None).unwrap();
            instance.id.to_string()
        })
        .collect();
    store.close().unwrap();
    let server = Server::start(&place, &[]);
    let walk = |path: &str, field: &str| {
        let (mut found, mut pages, mut asked) = (Vec::new(), 0, format!("{path}?limit=3"));
        loop {
            let page = server.json(&asked);
            let items = page["items"].as_array().unwrap();
            found.extend(
                items
                    .iter()
                    .map(|it| it[field].as_str().unwrap().to_owned()),
            );
            pages += 1;
            let Some(next) = page["next"].as_str() else {
                break;
            };
            asked = format!("{path}?limit=3&cursor={next}");
        }
        (found, pages, asked)
    };
    let instances = format!("/v1/sessions/{}/instances", session.id);
    let (found, pages, last) = walk(&instances, "id");
    assert_eq!((found, pages), (made, 3));
    let (_, cursor) = last.split_once("cursor=").unwrap();
    let names = (0..7).map(|number| format!("agent {number}")).collect();
    let (found, pages, last) = walk("/v1/agents", "name");
    assert_eq!((found, pages), (names, 3));
    let (_, of_agents) = last.split_once("cursor=").unwrap();
    for refused in [
        format!("/v1/sessions/{}/instances?cursor={cursor}", other.id),
        format!("{instances}?cursor={of_agents}"),
        format!("{instances}?cursor=odd"),
        format!("{instances}?limit=0"),
        format!("/v1/agents?project=p&cursor={of_agents}"),
        format!("/v1/agents?cursor={cursor}"),
        "/v1/agents?cursor=agent%201".to_owned(),
        "/v1/agents?limit=0".to_owned(),
    ] {
        server.get(&refused).problem(400, "invalid_input");
    }
}

#[test]
fn a_page_of_large_events_ends_before_its_limit_and_goes_on() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let session = store.create_session(NewSession::default()).unwrap();
    let agent = store.create_instance(session.id, "large", None).unwrap();
    let context = store.context(agent.id).unwrap();
    for _ in 0..30 {
        context
            .append_message(NewMessage::user("x".repeat(1 << 20)))
            .unwrap();
    }
    store.close().unwrap();
    let server = Server::start(&place, &[]);
    let (mut sequences, mut pages, mut first) = (Vec::new(), 0, json!(1));
    while !first.is_null() {
        let answer = server.get(&format!(
            "/v1/instances/{}/events?first={first}&limit=1000",
            agent.id
        ));
        assert!(answer.body.len() < 16 << 20, "{} bytes", answer.body.len());
        let page = answer.json();
        let items = page["items"].as_array().unwrap().iter();
        sequences.extend(items.map(|event| event["sequence_number"].as_u64().unwrap()));
        pages += 1;
        first = page["next"].clone();
    }
    assert_eq!(sequences, (1..=30).collect::<Vec<_>>());
    assert!(pages > 2, "{pages} pages");
}

#[test]
fn the_requests_of_a_chat_tell_what_they_took() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
    let begun = chats.begin_request(&chat, NewRequest::new("travel"), asked);
    let mut request = begun.unwrap();
    let usage = RequestDetails {
        usage: Some(RawJson::parse(r#"{"tokens":7}"#).unwrap()),
        ..RequestDetails::default()
    };
    request.describe(usage).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    store.close().unwrap();
    let server = Server::start(&place, &[]);
    let requests = server.json(&format!("/v1/chats/{chat}/requests"));
    assert_eq!(requests["items"][0]["usage"], json!({"tokens": 7}));
    assert_eq!(requests["items"][0]["status"], "completed");
    assert_eq!(requests["next"], json!(null));
    server
        .get("/v1/chats/nothing/requests")
        .problem(404, "not_found");
}

#[test]
fn chats_have_messages_and_steps() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let chats = server.json("/v1/chats?page_size=5&assistant_id=helper");
    assert_eq!(
        chats
            .pointer("/data/0/chat_id")
            .or(chats.pointer("/items/0/chat_id"))
            .unwrap(),
        &json!(recorded.chat),
        "{chats}"
    );
    let chat = server.json(&format!("/v1/chats/{}", recorded.chat));
    assert_eq!(chat["assistant_id"], "helper");
    let messages = server.json(&format!("/v1/chats/{}/messages?role=user", recorded.chat));
    assert_eq!(messages["items"][0]["props"]["content"], "hello");
    assert_eq!(messages["next"], json!(null));
    let after = messages["items"][0]["message_id"].as_str().unwrap();
    let none = server.json(&format!(
        "/v1/chats/{}/messages?start_after={after}",
        recorded.chat
    ));
    assert_eq!(none["items"], json!([]));
    let hits = server.json("/v1/messages?text=HELLO&limit=5");
    assert_eq!(hits["items"][0]["chat_id"], json!(recorded.chat));
    server.get("/v1/messages").problem(400, "invalid_input");
    let steps = server.json(&format!("/v1/chats/{}/steps?type=llm", recorded.chat));
    assert_eq!(steps["items"][0]["input"], json!({"a": 1}));
    server
        .get(&format!(
            "/v1/chats/{}/steps?chat_id=another",
            recorded.chat
        ))
        .problem(400, "invalid_input");
    server.get("/v1/chats/nothing").problem(404, "not_found");
    server
        .get("/v1/chats/nothing/steps")
        .problem(404, "not_found");
}

#[test]
fn flows_tell_their_state_and_what_happened() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let flows = server.json("/v1/flows");
    assert_eq!(flows["items"][0]["run_id"], recorded.flow.to_string());
    let flow = format!("/v1/flows/{}", recorded.flow);
    assert_eq!(server.json(&flow)["run_id"], recorded.flow.to_string());
    assert!(server.json(&format!("{flow}/state"))["nodeStatus"].is_object());
    let events = server.json(&format!("{flow}/events?types=node:*"));
    let types = events["items"].as_array().unwrap().iter();
    let types: Vec<_> = types
        .map(|it| it["event"]["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["node:started", "node:done"]);
    let first = server.json(&format!("{flow}/events?limit=1"));
    let rest = server.json(&format!("{flow}/events?first={}", first["next"]));
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
    server
        .get("/v1/flows/0198c7e0-0000-7000-8000-000000000001")
        .problem(404, "not_found");
}

#[test]
fn agents_are_those_of_a_project() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let project = "project=papers+%26+more";
    let agents = server.json(&format!("/v1/agents?{project}"));
    assert_eq!(agents["items"][0]["name"], "finder");
    let agent = server.json(&format!("/v1/agents/finder?{project}"));
    assert_eq!(agent["system_prompt"], "You find papers.");
    let available = server.json(&format!("/v1/available-agents?{project}"));
    assert_eq!(available["items"][0]["name"], "finder");
    assert_eq!(available["items"][0].get("system_prompt"), None);
    server.get("/v1/agents/finder").problem(404, "not_found");
}

#[test]
fn what_another_process_writes_is_there() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let count = || {
        server.json("/v1/sessions")["items"]
            .as_array()
            .unwrap()
            .len()
    };
    let before = count();
    let store = Store::open(place.path("runlog-data")).unwrap();
    store.create_session(NewSession::titled("later")).unwrap();
    assert_eq!(count(), before + 1);
    store.close().unwrap();
}

#[test]
fn a_text_is_searched_for_in_everything_in_pages() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let whole = server.json("/v1/search?text=PAPERS&limit=1000");
    let items = whole["items"].as_array().unwrap();
    let said = items
        .iter()
        .find(|hit| hit["event_type"] == "user_message")
        .unwrap();
    assert_eq!(said["session_id"], recorded.session.to_string());
    assert_eq!(said["excerpt"], "Find papers on logs.");
    assert_eq!(
        (&said["agent_name"], &said["truncated"]),
        (&json!("finder"), &json!(false))
    );
    assert!(items.len() > 2, "{whole}");
    let (mut found, mut query) = (Vec::new(), "text=papers&limit=1".to_owned());
    loop {
        let page = server.json(&format!("/v1/search?{query}"));
        found.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("text=papers&limit=1&cursor={next}");
    }
    assert_eq!(Value::Array(found), whole["items"]);
    let one = server.json(&format!(
        "/v1/search?text=papers&session_id={}",
        recorded.session
    ));
    for hit in one["items"].as_array().unwrap() {
        assert_eq!(hit["session_id"], recorded.session.to_string());
    }
    for (query, wanted) in [
        ("", "text"),
        ("text=", "1 to 65536 bytes"),
        ("text=a&cursor=0", "is not the `next` of a page"),
        ("text=a&limit=0", "give a `limit` of 1"),
        ("text=a&limit=1001", "at most 1000"),
        ("text=a&session_id=1", "not an id"),
    ] {
        let told = server.get(&format!("/v1/search?{query}"));
        let told = told.problem(400, "invalid_input");
        assert!(told.contains(wanted), "{query}: {told}");
    }
}

#[test]
fn a_context_that_is_too_large_to_be_given_at_once_is_refused() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let (_, agent) = store
        .start_session(NewSession::titled("large"), "finder")
        .unwrap();
    let context = store.context(agent.id).unwrap();
    let large = "x".repeat(13 << 20);
    for _ in 0..5 {
        context.append_message(NewMessage::user(&large)).unwrap();
    }
    store.close().unwrap();
    let server = Server::start(&place, &[]);
    let path = format!("/v1/instances/{}/messages", agent.id);
    let detail = server.get(&path).problem(413, "too_large");
    assert!(detail.contains("in pages"), "{detail}");
}
