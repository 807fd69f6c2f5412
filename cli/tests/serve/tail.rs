//! The live tail, and playing a flow back.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::FileExt,
    sync::mpsc,
    thread,
};

use nix::sys::signal::Signal;
use runlog::{InstanceId, NewMessage, NewSession, SessionId, blocking::Store};
use serde_json::{Value, json};

use crate::{
    common::{Ends, Place},
    recorded::record,
    server::Server,
};

/// One event of a stream.
#[derive(Clone, Debug)]
struct Event {
    id: Option<u64>,
    name: String,
    data: Value,
}

/// A stream of events, read as a browser reads it.
struct Events(BufReader<Box<dyn Read + Send>>);

impl Events {
    fn of(server: &Server, path: &str, last: Option<u64>) -> Self {
        let config = ureq::Agent::config_builder().build();
        let mut request = ureq::Agent::from(config).get(format!("{}{path}", server.url));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(BufReader::new(Box::new(response.into_body().into_reader())))
    }

    /// The next event; `None` at the end.
    fn next(&mut self) -> Option<Event> {
        let mut event = Event {
            id: None,
            name: String::new(),
            data: Value::Null,
        };
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("id", id)) => event.id = id.parse().ok(),
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                Some(("retry", _)) => {}
                _ if line == "\n" && !event.name.is_empty() => return Some(event),
                _ => assert!(line == "\n" || line.starts_with(':'), "{line:?}"),
            }
        }
    }

    /// The events up to a position, without those that only tell how far it goes.
    fn up_to(&mut self, position: u64) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().unwrap();
            if event.id.is_some_and(|id| id >= position) && event.name == "position" {
                return events;
            }
            if event.name != "position" {
                events.push(event);
            }
        }
    }
}

/// A store with a context, which this process writes.
fn written(place: &Place) -> (Store, SessionId, InstanceId) {
    let store = Store::open(place.path("runlog-data")).unwrap();
    let session = store.create_session(NewSession::titled("live")).unwrap();
    let agent = store.create_instance(session.id, "coder", None).unwrap();
    (store, session.id, agent.id)
}

fn say(store: &Store, instance: InstanceId, text: &str) {
    let context = store.context(instance).unwrap();
    context.append_message(NewMessage::user(text)).unwrap();
}

fn last(server: &Server) -> u64 {
    server.json("/v1/store")["last_position"].as_u64().unwrap()
}

#[test]
fn every_record_is_told_once_in_order() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let end = last(&server);
    let events = Events::of(&server, "/v1/tail?after=0", None).up_to(end);
    let ids: Vec<u64> = events.iter().map(|event| event.id.unwrap()).collect();
    assert_eq!(ids, (1..=end).collect::<Vec<_>>());
    for topic in ["context", "run", "flow", "chat", "list", "log"] {
        assert!(
            events.iter().any(|event| event.name == topic),
            "{topic} is missing"
        );
    }
    assert!(
        !events
            .iter()
            .any(|event| event.name == "stream" || event.name == "problem")
    );
    let context = events.iter().find(|event| event.name == "context").unwrap();
    assert_eq!(context.data["session_id"], recorded.session.to_string());
    assert_eq!(context.data["agent_name"], "finder");
    assert_eq!(context.data["content"]["content"], "Find papers on logs.");
    let flow = events.iter().find(|event| event.name == "flow").unwrap();
    assert_eq!(flow.data["payload"]["type"], "flow:started");
    assert_eq!(flow.data["run_id"], recorded.flow.to_string());
}

#[test]
fn only_what_is_asked_for_is_told() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let end = last(&server);
    let told =
        |query: String| Events::of(&server, &format!("/v1/tail?after=0&{query}"), None).up_to(end);
    let of_run = told(format!("run_id={}", recorded.done));
    assert!(
        of_run
            .iter()
            .all(|it| it.data["run_id"] == recorded.done.to_string())
    );
    assert!(
        of_run.iter().any(|it| it.name == "context") && of_run.iter().any(|it| it.name == "run")
    );
    let of_session = told(format!("session_id={}&topics=context", recorded.session));
    assert_eq!(of_session.len(), 7);
    let of_instance = told(format!("instance_id={}", recorded.instance));
    assert!(of_instance.iter().filter(|it| it.name == "context").count() == 7);
    let of_topics = told("topics=flow&topics=chat".to_owned());
    assert!(
        of_topics
            .iter()
            .all(|it| it.name == "flow" || it.name == "chat")
            && of_topics.len() > 3
    );
    server
        .get("/v1/tail?topics=odd")
        .problem(400, "invalid_input");
}

#[test]
fn what_another_process_writes_comes_as_it_is_written() {
    let place = Place::new();
    let (store, session, instance) = written(&place);
    let server = Server::start(&place, &[]);
    let mut events = Events::of(&server, "/v1/tail?topics=context", None);
    let begun = events.next().unwrap();
    assert_eq!(
        (begun.name.as_str(), begun.id),
        ("position", Some(last(&server)))
    );
    for text in ["one", "two", "three"] {
        say(&store, instance, text);
        let event = std::iter::from_fn(|| events.next())
            .find(|event| event.name == "context")
            .unwrap();
        assert_eq!(event.data["content"]["content"], text);
        assert_eq!(event.data["session_id"], session.to_string());
    }
    store.close().unwrap();
}

#[test]
fn a_client_that_comes_back_has_missed_and_repeated_nothing() {
    const COUNT: usize = 1_500;
    let place = Place::new();
    let (store, _, instance) = written(&place);
    let server = Server::start(&place, &[]);
    let mut since = last(&server);
    let writer = thread::spawn(move || {
        let context = store.context(instance).unwrap();
        for number in 1..=COUNT {
            context
                .append_message(NewMessage::user(number.to_string()))
                .unwrap();
        }
        store.close().unwrap();
    });
    let (mut found, mut lost) = (Vec::new(), 0);
    while found.len() < COUNT {
        let mut events = Events::of(&server, "/v1/tail?topics=context", Some(since));
        // Each time it is lost a little later: behind, catching up, and live.
        lost += 1;
        for _ in 0..lost * 13 {
            let event = events.next().unwrap();
            since = event.id.unwrap();
            if event.name == "context" {
                found.push(event.data["sequence_number"].as_u64().unwrap());
            }
            if found.len() == COUNT {
                break;
            }
        }
    }
    writer.join().unwrap();
    assert!(lost > 3, "lost {lost} times");
    assert_eq!(found, (1..=COUNT as u64).collect::<Vec<_>>());
}

#[test]
fn a_slow_client_misses_nothing_and_holds_up_nobody() {
    const COUNT: usize = 400;
    let place = Place::new();
    let (store, _, instance) = written(&place);
    let server = Server::start(&place, &[]);
    // More than sockets and what waits for clients hold.
    let text = "x".repeat(100 << 10);
    let mut slow = Events::of(&server, "/v1/tail?topics=context", None);
    let mut quick = Events::of(&server, "/v1/tail?topics=context", None);
    let _ = (slow.next(), quick.next());
    let count = |events: &mut Events| {
        let events = std::iter::from_fn(|| events.next()).filter(|event| event.name == "context");
        events
            .take(COUNT)
            .map(|event| event.data["sequence_number"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let (found, quick) = thread::scope(|scope| {
        let quick = scope.spawn(|| count(&mut quick));
        for _ in 0..COUNT {
            say(&store, instance, &text);
        }
        let quick = quick.join().unwrap();
        (count(&mut slow), quick)
    });
    assert_eq!(quick, (1..=COUNT as u64).collect::<Vec<_>>());
    assert_eq!(found, quick);
    store.close().unwrap();
}

#[test]
fn many_clients_are_told_the_same() {
    const CLIENTS: usize = 100;
    let place = Place::new();
    let (store, _, instance) = written(&place);
    let server = Server::start(&place, &[]);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| Events::of(&server, "/v1/tail?topics=context", None))
        .collect();
    for client in &mut clients {
        assert_eq!(client.next().unwrap().name, "position");
    }
    for number in 0..20 {
        say(&store, instance, &number.to_string());
    }
    store.close().unwrap();
    for client in &mut clients {
        let events = std::iter::from_fn(|| client.next()).filter(|event| event.name == "context");
        let told: Vec<_> = events
            .take(20)
            .map(|event| event.data["content"]["content"].clone())
            .collect();
        assert_eq!(
            told,
            (0..20)
                .map(|number| json!(number.to_string()))
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn who_has_caught_up_is_told_how_far_the_log_goes_though_nothing_was_wanted() {
    let place = Place::new();
    let (store, session, instance) = written(&place);
    let server = Server::start(&place, &[]);
    let end = last(&server);
    // Its heartbeats tell how much time passes.
    let mut idle = Events::of(&server, "/v1/tail?topics=context", None);
    assert_eq!(idle.next().unwrap().id, Some(end));
    let path = format!("/v1/tail?after=0&topics=stream&session_id={session}");
    let mut client = Events::of(&server, &path, None);
    assert_eq!(client.next().unwrap().id, Some(0));
    assert_eq!(client.next().unwrap().id, Some(end));
    say(&store, instance, "on");
    assert_eq!(idle.next().unwrap().name, "context");
}

#[test]
fn each_of_many_clients_is_told_of_its_own_session_and_all_of_how_far_the_log_goes() {
    const SESSIONS: usize = 20;
    let place = Place::new();
    let (store, ..) = written(&place);
    let started: Vec<_> = (0..SESSIONS)
        .map(|_| store.start_session(NewSession::default(), "agent").unwrap())
        .collect();
    let server = Server::start(&place, &[]);
    let clients: Vec<Events> = started
        .iter()
        .flat_map(|(session, instance)| {
            [
                format!("/v1/tail?session_id={}", session.id),
                format!("/v1/tail?topics=context&instance_id={}", instance.id),
            ]
        })
        .map(|path| Events::of(&server, &path, None))
        .collect();
    // The last session is never written to.
    for number in 0..300 {
        let (_, instance) = &started[number * 7 % (SESSIONS - 1)];
        say(&store, instance.id, &number.to_string());
    }
    let end = last(&server);
    for (number, mut client) in clients.into_iter().enumerate() {
        let told: Vec<String> = client
            .up_to(end)
            .iter()
            .filter(|event| event.name == "context")
            .map(|event| {
                event.data["content"]["content"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        let expected: Vec<String> = (0..300)
            .filter(|event| event * 7 % (SESSIONS - 1) == number / 2)
            .map(|event| event.to_string())
            .collect();
        assert_eq!(told, expected, "client {number}");
    }
}

#[test]
fn the_stream_goes_on_when_its_writer_is_killed_and_another_comes() {
    let place = Place::new();
    let (store, ..) = written(&place);
    store.close().unwrap();
    let server = Server::start(&place, &[]);
    let mut events = Events::of(&server, "/v1/tail?topics=context", None);
    let mut found: Vec<Event> = Vec::new();
    for said in ["on", "and", "on and on"] {
        let line =
            format!(r#"{{"type":"message","message":{{"role":"user","content":"{said}"}}}}"#);
        let forever = format!("while echo '{line}'; do :; done");
        let mut writer = Ends(
            place
                .command(&["run", "--", "sh", "-c", &forever])
                .spawn()
                .unwrap(),
        );
        // What the one before wrote comes first.
        let mut own = 0;
        while own < 50 {
            let event = events.next().unwrap();
            assert_ne!(event.name, "problem", "{event:?}");
            own += usize::from(event.data["content"]["content"] == said);
            found.extend(Some(event).filter(|event| event.name == "context"));
        }
        // Who reads can tell what is at work from what was cut off.
        let has_writer = || server.json("/v1/store")["has_writer"] == true;
        assert!(has_writer());
        writer.0.kill().unwrap();
        writer.0.wait().unwrap();
        assert!(!has_writer());
    }
    let store = Store::open(place.path("runlog-data")).unwrap();
    assert!(!store.recovered_runs().is_empty(), "a run was left running");
    let session = store.create_session(NewSession::default()).unwrap();
    let agent = store.create_instance(session.id, "last", None).unwrap();
    say(&store, agent.id, "the last word");
    store.close().unwrap();
    while found.last().unwrap().data["content"]["content"] != "the last word" {
        found.extend(Some(events.next().unwrap()).filter(|event| event.name == "context"));
    }
    // What was told as it came is what is there.
    let end = found.last().unwrap().id.unwrap();
    let there = Events::of(&server, "/v1/tail?after=0&topics=context", None).up_to(end);
    let ids = |events: &[Event]| {
        events
            .iter()
            .map(|event| event.id.unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&found), ids(&there));
    assert!(
        found
            .iter()
            .zip(&there)
            .all(|(one, other)| one.data == other.data)
    );
}

#[test]
fn streams_end_with_the_server() {
    let place = Place::new();
    record(&place);
    let mut server = Server::start(&place, &[]);
    let mut events = Events::of(&server, "/v1/tail", None);
    assert_eq!(events.next().unwrap().name, "position");
    let (ended, has_ended) = mpsc::channel();
    let reader = thread::spawn(move || {
        while events.next().is_some() {}
        ended.send(()).unwrap();
    });
    assert_eq!(server.signal(Signal::SIGTERM).code(), Some(0));
    has_ended.recv().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_place_that_the_log_does_not_have_is_refused() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let detail = server
        .get("/v1/tail?after=999999")
        .problem(400, "invalid_input");
    assert!(detail.contains("begin anew"), "{detail}");
    server
        .get_with("/v1/tail", &[("last-event-id", "x")])
        .problem(400, "invalid_input");
}

/// Changes a byte of the first place that says this, beneath whoever has the store open.
fn damage(place: &Place, text: &str) {
    let segment = place.path("runlog-data").join("00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let found = bytes.windows(text.len());
    let found = found.enumerate().find(|(_, it)| *it == text.as_bytes());
    let at = found.unwrap().0;
    bytes[at] ^= 1;
    let file = fs::File::options().write(true).open(&segment).unwrap();
    file.write_all_at(&bytes[at..=at], at as u64).unwrap();
}

#[test]
fn a_damaged_record_is_told_in_its_place_and_the_stream_goes_on_behind_it() {
    let place = Place::new();
    let (store, _, instance) = written(&place);
    for number in 0..9 {
        say(&store, instance, &format!("message {number}"));
    }
    let server = Server::start(&place, &[]);
    let end = last(&server);
    let whole = Events::of(&server, "/v1/tail?after=0", None).up_to(end);
    let at = |text: &str| {
        let is_it = |it: &&Event| it.data["content"]["content"] == text;
        whole.iter().find(is_it).unwrap().id
    };
    let (one, other) = (at("message 3").unwrap(), at("message 4").unwrap());
    let live = Events::of(&server, "/v1/tail", None);
    damage(&place, "message 3");
    damage(&place, "message 4");
    let read = |path: &str, last| Events::of(&server, path, last).up_to(end);
    let events = read("/v1/tail?after=0", None);
    let (lost, rest): (Vec<_>, Vec<_>) = events.into_iter().partition(|it| it.name == "damaged");
    assert_eq!(lost.len(), 1, "neighbours are told together");
    let of_lost = |name: &str| lost[0].data[name].as_u64();
    assert_eq!(
        (lost[0].id, of_lost("position"), of_lost("last_position")),
        (Some(other), Some(one), Some(other))
    );
    let detail = lost[0].data["detail"].as_str().unwrap();
    assert!(detail.contains("runlog verify"), "{detail}");
    let kept = whole
        .iter()
        .filter(|it| it.id != Some(one) && it.id != Some(other));
    let ids = |events: &[&Event]| events.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(
        ids(&rest.iter().collect::<Vec<_>>()),
        ids(&kept.collect::<Vec<_>>())
    );
    // Whoever asks for something else is told too: whose it was isn't known any more.
    let of_others = read("/v1/tail?after=0&topics=flow", None);
    assert_eq!(of_others.len(), 1);
    assert_eq!(read("/v1/tail?topics=flow", Some(one)).len(), 1);
    // Nothing of that concerns who is past it.
    say(&store, instance, "and on");
    let mut live = live;
    let event = std::iter::from_fn(|| live.next())
        .find(|it| it.name != "position")
        .unwrap();
    assert_eq!(event.data["content"]["content"], "and on");
    store.close().unwrap();
}

#[test]
fn a_segment_that_is_damaged_to_its_end_is_one_event() {
    let place = Place::new();
    let (store, _, instance) = written(&place);
    for number in 0..600 {
        say(&store, instance, &format!("message {number}"));
    }
    let server = Server::start(&place, &[]);
    let end = last(&server);
    let segment = place.path("runlog-data").join("00000001.seg");
    let bytes = fs::read(&segment).unwrap();
    let text = b"message 0";
    let from = bytes.windows(text.len()).position(|it| it == text).unwrap();
    let file = fs::File::options().write(true).open(&segment).unwrap();
    let noise = vec![0xa5; bytes.len() - from];
    file.write_all_at(&noise, from as u64).unwrap();
    let events = Events::of(&server, "/v1/tail?after=0", None).up_to(end);
    let lost: Vec<_> = events.iter().filter(|it| it.name == "damaged").collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].data["last_position"].as_u64(), Some(end));
    assert!(lost[0].data["position"].as_u64().unwrap() <= end - 599);
    drop(store);
}

#[test]
fn a_flow_is_played_back_from_any_event_on() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let path = format!("/v1/flows/{}/playback?speed=4", recorded.flow);
    let all = |last| {
        let mut events = Events::of(&server, &path, last);
        std::iter::from_fn(|| events.next()).collect::<Vec<_>>()
    };
    let told = all(None);
    let names: Vec<_> = told.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["snapshot", "event", "event", "event", "end"]);
    assert_eq!(told[1].data["event"]["type"], "flow:started");
    let rest = all(told[1].id);
    let types: Vec<_> = rest
        .iter()
        .filter_map(|event| event.data["event"]["type"].as_str())
        .collect();
    assert_eq!(types, ["node:started", "node:done"]);
    // Whoever connects again by itself, as browsers do, ends that when it is told that there is nothing more.
    assert!(
        server
            .get(&path)
            .text()
            .ends_with("id: end\nevent: end\ndata: {}\n\n")
    );
    let over = server.get_with(&path, &[("last-event-id", "end")]);
    assert_eq!((over.status, over.text().as_str()), (204, ""));
    server
        .get(&format!("/v1/flows/{}/playback?speed=-1", recorded.flow))
        .problem(400, "invalid_input");
    server
        .get("/v1/flows/0198c7e0-0000-7000-8000-000000000001/playback")
        .problem(404, "not_found");
}
