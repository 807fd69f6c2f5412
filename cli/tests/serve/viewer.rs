//! The viewer's place, and the link that lets a browser in.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
};

use crate::{common::Place, recorded::record, server::Server};

const READ: &str = "a-token-that-reads-0123456789";
const WRITE: &str = "a-token-that-writes-0123456789";

/// A program that writes down what it was to open, in the place of a browser.
fn browser(place: &Place) -> String {
    fs::create_dir_all(place.path("bin")).unwrap();
    let opened = place.path("opened");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$1\" >> {0}.part\nmv {0}.part {0}\n",
        opened.display()
    );
    for name in ["xdg-open", "gio", "gnome-open", "kde-open", "wslview"] {
        let path = place.write(&format!("bin/{name}"), &script);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!(
        "{}:{}",
        place.path("bin").display(),
        std::env::var("PATH").unwrap()
    )
}

fn opened(place: &Place) -> String {
    loop {
        if let Ok(text) = fs::read_to_string(place.path("opened")) {
            return text.trim().to_owned();
        }
        std::thread::yield_now();
    }
}

#[test]
fn the_first_page_may_run_nothing_of_others_and_be_in_no_frame() {
    let place = Place::new();
    record(&place);
    let server = Server::start_with(&place, &[], &[("RUNLOG_READ_TOKEN", READ)]);
    let answer = server.get("/");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = answer.header("content-security-policy").unwrap();
    for wanted in [
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(wanted), "{policy}");
    }
    assert!(
        !policy.contains("script-src 'self' 'unsafe-inline'"),
        "{policy}"
    );
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    server.get("/nothing.js").problem(404, "not_found");
    server
        .get("/..%2f..%2fetc%2fpasswd")
        .problem(404, "not_found");
    server.post("/", &[], "").problem(404, "not_found");
}

#[test]
fn without_a_token_the_browser_is_led_to_the_viewer_itself() {
    let place = Place::new();
    record(&place);
    let path = browser(&place);
    let server = Server::start_with(&place, &["--open"], &[("PATH", &path)]);
    assert_eq!(opened(&place), format!("{}/", server.url));
}

#[test]
fn a_link_lets_one_browser_in_and_is_told_to_nobody_else() {
    let place = Place::new();
    record(&place);
    let path = browser(&place);
    let env = [
        ("PATH", path.as_str()),
        ("RUNLOG_READ_TOKEN", READ),
        ("RUNLOG_WRITE_TOKEN", WRITE),
    ];
    let mut server = Server::start_with(&place, &["--open"], &env);
    // What the browser was started with is a file, which nobody else can read.
    let file = opened(&place);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let page = fs::read_to_string(&file).unwrap();
    let link = page
        .split("url=")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    // Behind what it says of writing.
    let mut told = BufReader::new(server.stderr()).lines().map(Result::unwrap);
    assert!(told.next().unwrap().contains("the store's one writer"));
    let told = told.next().unwrap();
    assert!(told.trim().ends_with(link), "{told}");

    let open = link.strip_prefix(&server.url).unwrap();
    let wrong = server.get(&format!("{open}x"));
    assert_eq!(wrong.status, 403);
    assert!(
        wrong.text().contains("was followed before"),
        "{}",
        wrong.text()
    );
    assert_eq!(wrong.header("set-cookie"), None);
    let from_a_file = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    let let_in = server.get_with(open, &from_a_file);
    assert_eq!(let_in.status, 200, "{}", let_in.text());
    let cookie = let_in.header("set-cookie").unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(READ) && !cookie.contains(WRITE));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let again = server.get_with(open, &from_a_file);
    assert_eq!((again.status, again.header("set-cookie")), (403, None));
    assert!(
        again.text().starts_with("<!doctype html>"),
        "{}",
        again.text()
    );
    // The browser that was let in is led on, when a tab is restored.
    let restored = server.get_with(open, &[("cookie", cookie.as_str())]);
    assert_eq!(
        (restored.status, restored.header("set-cookie")),
        (200, None)
    );

    let with = |more: &[(&'static str, &'static str)]| {
        let mut headers = vec![
            ("cookie", cookie.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(more);
        headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<Vec<_>>()
    };
    let ask = |path: &str, headers: Vec<(String, String)>| {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        match path {
            "/v1/sessions" => server.post(path, &headers, "{}"),
            _ => server.get_with(path, &headers),
        }
    };
    assert_eq!(ask("/v1/store", with(&[])).status, 200);
    assert_eq!(
        ask("/v1/sessions", with(&[("sec-fetch-site", "same-origin")])).status,
        201
    );
    // Another server of this machine gets the cookie, too; its pages don't write with it.
    ask("/v1/sessions", with(&[])).problem(403, "forbidden");
    ask("/v1/sessions", with(&[("sec-fetch-site", "same-site")])).problem(403, "other_site");
    ask("/v1/sessions", with(&[("origin", "http://127.0.0.1:1")])).problem(403, "other_site");
    // A token that is wrong isn't made good by a cookie.
    ask(
        "/v1/store",
        with(&[("authorization", "Bearer wrong-token-0123456789")]),
    )
    .problem(401, "unauthorized");
}
