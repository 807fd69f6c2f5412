//! Who is answered, and who isn't.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{common::Place, recorded::record, server::Server};

const READ: &str = "a-token-that-reads-0123456789";
const WRITE: &str = "a-token-that-writes-0123456789";

#[test]
fn it_says_where_it_listens_and_ends_in_order() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new();
        record(&place);
        let mut server = Server::start(&place, &[]);
        assert!(
            server.url.starts_with("http://127.0.0.1:"),
            "{}",
            server.url
        );
        assert!(server.json("/v1/store")["last_position"].as_u64().unwrap() > 0);
        // A connection that asks nothing doesn't hold it up.
        let _idle = server.connect();
        let status = server.signal(signal);
        assert_eq!(status.code(), Some(0), "{signal}");
        let mut said = String::new();
        server.stderr().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }
}

#[test]
fn a_second_signal_ends_it_without_those_who_are_still_answered() {
    let place = Place::new();
    let recorded = record(&place);
    let mut server = Server::start_with(&place, &[], &[("RUNLOG_WRITE_TOKEN", WRITE)]);
    let body = r#"{"messages":[{"role":"user","content":"Late."}]}"#;
    let head = format!(
        "POST /v1/instances/{}/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WRITE}\r\n\
         content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        recorded.instance,
        body.len()
    );
    let mut slow = server.connect();
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 1024];
    // It waits for the body now.
    let count = slow.read(&mut answer).unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 100"));
    server.send(Signal::SIGINT);
    while TcpStream::connect(("127.0.0.1", server.port)).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    server.send(Signal::SIGINT);
    // Before the time is over that the first one alone leaves it.
    for _ in 0..300 {
        if server.child().try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = slow.write_all(body.as_bytes());
    assert!(matches!(slow.read(&mut answer), Ok(0) | Err(_)));
    assert_eq!(server.child().wait().unwrap().code(), Some(0));
}

#[test]
fn it_ends_if_the_folder_of_the_store_is_removed_or_replaced() {
    for (writes, is_replaced) in [(false, false), (false, true), (true, true)] {
        let place = Place::new();
        record(&place);
        let mut server = Server::start(&place, if writes { &["--write"] } else { &[] });
        if is_replaced {
            fs::rename(place.path("runlog-data"), place.path("before")).unwrap();
            record(&place);
        } else {
            fs::remove_dir_all(place.path("runlog-data")).unwrap();
        }
        let status = server.child().wait().unwrap();
        let mut said = String::new();
        server.stderr().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        let expected = if is_replaced {
            "was replaced by another one while it was served"
        } else {
            "was removed or renamed while it was served"
        };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_store_may_be_named_behind_the_options_and_the_address_is_json_for_programs() {
    let place = Place::new();
    record(&place);
    fs::rename(place.path("runlog-data"), place.path("elsewhere")).unwrap();
    for (arguments, has_token) in [
        (&["--json", "elsewhere"][..], false),
        (&["--json", "--write", "elsewhere"], true),
    ] {
        let mut process = common_serve(&place, arguments);
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(process.0.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let url = told["url"].as_str().unwrap();
        assert!(url.starts_with("http://127.0.0.1:"));
        let token = told["write_token"].as_str();
        assert_eq!(token.is_some_and(|token| token.len() > 40), has_token);
    }
}

fn common_serve(place: &Place, arguments: &[&str]) -> crate::common::Ends {
    let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
    all.extend(arguments);
    crate::common::Ends(place.command(&all).spawn().unwrap())
}

#[test]
fn what_cannot_be_served_is_told() {
    let place = Place::new();
    let said = place.expect(3, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(said.err.contains("no store at"), "{}", said.err);
    record(&place);
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let said = place.expect(2, &["serve", "--listen", address]);
        assert!(said.err.contains("a token is needed"), "{}", said.err);
        let said = place.expect(2, &["serve", "--write", "--listen", address]);
        assert!(said.err.contains("a token is needed"), "{}", said.err);
    }
    place.write("short", "abc");
    let said = place.expect(2, &["serve", "--read-token-file", "short"]);
    assert!(said.err.contains("needs 16"), "{}", said.err);
    let said = place.expect(3, &["serve", "--read-token-file", "missing"]);
    assert!(said.err.contains("missing"), "{}", said.err);
    place.write("token", READ);
    let said = place.expect(
        2,
        &[
            "serve",
            "--read-token-file",
            "token",
            "--write-token-file",
            "token",
        ],
    );
    assert!(said.err.contains("the same"), "{}", said.err);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = place.expect(1, &["serve", "--listen", &address]);
    assert!(
        said.err.contains(&format!("can't listen at {address}")),
        "{}",
        said.err
    );
}

#[test]
fn with_a_token_nobody_else_is_answered() {
    let place = Place::new();
    record(&place);
    let server = Server::start_with(&place, &[], &[("RUNLOG_READ_TOKEN", READ)]);
    let refused = server.get("/v1/store");
    refused.problem(401, "unauthorized");
    assert!(
        refused
            .header("www-authenticate")
            .unwrap()
            .starts_with("Bearer")
    );
    for wrong in [
        "Bearer x",
        "Bearer",
        "Basic YTpi",
        &format!("Bearer {READ}x"),
        READ,
    ] {
        server
            .get_with("/v1/store", &[("authorization", wrong)])
            .problem(401, "unauthorized");
    }
    for right in [format!("Bearer {READ}"), format!("bearer  {READ}")] {
        assert_eq!(
            server
                .get_with("/v1/store", &[("authorization", &right)])
                .status,
            200
        );
    }
    let twice = |one: &str, other: &str| {
        let request = format!(
            "GET /v1/store HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {one}\r\nAuthorization: Bearer {other}\r\nConnection: close\r\n\r\n"
        );
        server.raw(&request)
    };
    // A proxy and the server might each look at another one.
    for answer in [twice(READ, "x"), twice("x", READ)] {
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    // In an address a token would stand in logs.
    server
        .get(&format!("/v1/store?token={READ}"))
        .problem(401, "unauthorized");
}

#[test]
fn tokens_are_read_from_files_and_the_one_that_writes_reads_too() {
    let place = Place::new();
    record(&place);
    place.write("token", format!("{WRITE}\n"));
    let server = Server::start(&place, &["--write-token-file", "token"]);
    server.get("/v1/store").problem(401, "unauthorized");
    let token = format!("Bearer {WRITE}");
    assert_eq!(
        server
            .get_with("/v1/store", &[("authorization", &token)])
            .status,
        200
    );
    // It is the writer now.
    let said = place.expect(4, &["truncate", "@last", "--after", "1"]);
    assert!(said.err.contains("open for writing"), "{}", said.err);
}

#[test]
fn other_hosts_and_other_sites_get_nothing() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &["--allow-host", "runlog.example"]);
    let ask = |headers: &str| {
        server.raw(&format!(
            "GET /v1/store HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n"
        ))
    };
    for host in [
        "127.0.0.1:{port}",
        "localhost:{port}",
        "LOCALHOST",
        "[::1]:{port}",
        "runlog.example:{port}",
        "RUNLOG.example",
    ] {
        let answer = ask(&format!("Host: {host}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    for host in [
        "evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "runlog.example.evil.example",
    ] {
        let answer = ask(&format!("Host: {host}"));
        assert!(answer.starts_with("HTTP/1.1 421"), "{host}: {answer}");
        assert!(answer.contains("--allow-host"), "{answer}");
    }
    for headers in [
        "Host: ",
        "X: y",
        "Host: localhost\r\nHost: evil.example",
        "Host: user@localhost",
        "Host: a b",
    ] {
        let answer = ask(headers);
        assert!(answer.starts_with("HTTP/1.1 400"), "{headers}: {answer}");
    }
    let absolute =
        "GET http://evil.example/v1/store HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(server.raw(absolute).starts_with("HTTP/1.1 400"));
    let own = "Host: 127.0.0.1:{port}\r\n";
    for headers in [
        "Origin: http://127.0.0.1:{port}",
        "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Site: none",
    ] {
        let answer = ask(&format!("{own}{headers}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{headers}: {answer}");
    }
    for headers in [
        "Origin: http://evil.example",
        "Origin: http://127.0.0.1:1",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate",
    ] {
        let answer = ask(&format!("{own}{headers}"));
        assert!(answer.starts_with("HTTP/1.1 403"), "{headers}: {answer}");
        assert!(
            !answer.to_lowercase().contains("access-control"),
            "{answer}"
        );
    }
    let preflight = server.raw(&format!("OPTIONS /v1/store HTTP/1.1\r\n{own}Access-Control-Request-Method: GET\r\nConnection: close\r\n\r\n"));
    assert!(preflight.starts_with("HTTP/1.1 405"), "{preflight}");
}

#[test]
fn answers_tell_browsers_to_keep_and_guess_nothing() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    for path in ["/v1/store", "/v1/nothing"] {
        let answer = server.get(path);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(
            answer
                .header("content-security-policy")
                .unwrap()
                .contains("default-src 'none'")
        );
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn what_is_not_there_is_a_problem_that_says_so() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let detail = server.get("/v1/odd").problem(404, "not_found");
    assert!(detail.contains("/v1/odd"), "{detail}");
    server
        .post("/v1/store", &[], "")
        .problem(405, "method_not_allowed");
    server.get("/v1/runs/odd").problem(400, "invalid_input");
    server
        .get("/v1/runs/..%2f..%2fRUNLOG")
        .problem(400, "invalid_input");
    server
        .get("/v1/runs/0198c7e0-0000-7000-8000-000000000001")
        .problem(404, "not_found");
    let detail = server
        .get("/v1/runs?agentId=x")
        .problem(400, "invalid_input");
    assert!(detail.contains("`agent_name`"), "{detail}");
    server.get("/v1/runs?limit=0").problem(400, "invalid_input");
    server
        .get("/v1/runs?limit=1001")
        .problem(400, "invalid_input");
    server
        .get("/v1/runs?cursor=odd")
        .problem(400, "invalid_input");
}

#[test]
fn requests_without_measure_are_cut_off() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let long = "x".repeat(400 << 10);
    let answer = server.raw(&format!(
        "GET /v1/store?{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ));
    assert!(
        answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 414"),
        "{answer}"
    );
    let answer = server.raw(&format!(
        "GET /v1/store HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"
    ));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many = (0..500)
        .map(|index| format!("X-{index}: y\r\n"))
        .collect::<String>();
    let answer = server.raw(&format!(
        "GET /v1/store HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"
    ));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let answer = server.raw("GET /v1/store HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil\r\n\r\n");
    assert!(!answer.contains("evil"), "{answer}");
    assert_eq!(
        server.json("/v1/store")["streams"]
            .as_u64()
            .map(|it| it > 0),
        Some(true)
    );
}
