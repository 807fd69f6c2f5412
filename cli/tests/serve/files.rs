//! The files of the store, whole and by ranges.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::{common::Place, recorded::record, server::Server};

const SEGMENT: &str = "/v1/store/files/00000001.seg";

#[test]
fn a_store_can_be_taken_by_its_files() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let listed = server.json("/v1/store/files");
    let files = listed["files"].as_array().unwrap();
    let names: Vec<_> = files
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"RUNLOG") && names.contains(&"00000001.seg"),
        "{names:?}"
    );
    assert!(!names.contains(&"LOCK"), "{names:?}");
    fs::create_dir(place.path("copy")).unwrap();
    for file in files {
        let name = file["name"].as_str().unwrap();
        let answer = server.get(&format!("/v1/store/files/{name}"));
        assert_eq!(answer.status, 200);
        assert_eq!(file["size"], json!(answer.body.len()));
        assert_eq!(
            answer.body,
            fs::read(place.path("runlog-data").join(name)).unwrap(),
            "{name}"
        );
        place.write(&format!("copy/{name}"), &answer.body);
    }
    let copied = place.expect(0, &["--store", "copy", "runs", "--json"]);
    assert_eq!(copied.out, place.expect(0, &["runs", "--json"]).out);
}

#[test]
fn a_range_is_exactly_that() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let whole = server.get(SEGMENT).body;
    let size = whole.len();
    assert!(size > 100);
    for (asked, range) in [
        ("bytes=0-0", 0..1),
        ("bytes=10-19", 10..20),
        ("bytes=-7", size - 7..size),
        (&format!("bytes={}-", size - 3), size - 3..size),
        ("bytes=5-99999999999", 5..size),
    ] {
        let answer = server.get_with(SEGMENT, &[("range", asked)]);
        assert_eq!(answer.status, 206, "{asked}");
        let told = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        assert_eq!(answer.header("content-range"), Some(told.as_str()));
        assert_eq!(
            answer.header("content-length"),
            Some(range.len().to_string().as_str())
        );
        assert!(answer.body == whole[range], "{asked}");
    }
    for beyond in [format!("bytes={size}-"), "bytes=99999999999-".into()] {
        server
            .get_with(SEGMENT, &[("range", &beyond)])
            .problem(416, "range_not_satisfiable");
    }
    for all in ["bytes=0-1,5-6", "pages=1-2", "bytes=x-", "bytes=9-3"] {
        let answer = server.get_with(SEGMENT, &[("range", all)]);
        assert_eq!((answer.status, answer.body.len()), (200, size), "{all}");
    }
}

#[test]
fn a_file_that_has_changed_is_given_whole() {
    let place = Place::new();
    let recorded = record(&place);
    let server = Server::start(&place, &[]);
    let first = server.get_with(SEGMENT, &[("range", "bytes=0-9")]);
    let tag = first.header("etag").unwrap().to_owned();
    let again = |tag: &str| server.get_with(SEGMENT, &[("range", "bytes=0-9"), ("if-range", tag)]);
    assert_eq!(again(&tag).status, 206);
    assert_eq!(again("\"another\"").status, 200);
    let same = server.get_with(SEGMENT, &[("if-none-match", &tag)]);
    assert_eq!((same.status, same.body.len()), (304, 0));
    let only = |tag: &str| server.get_with(SEGMENT, &[("if-match", tag)]);
    for expected in [&tag, "*", &format!("\"another\", {tag}")] {
        assert_eq!(only(expected).status, 200, "{expected}");
    }
    for other in ["\"another\"", &format!("W/{tag}"), ""] {
        let detail = only(other).problem(412, "precondition_failed");
        assert!(detail.contains(&tag), "{detail}");
    }
    place.expect(
        0,
        &["truncate", &recorded.session.to_string(), "--after", "1"],
    );
    assert_eq!(again(&tag).status, 200);
    assert_eq!(only(&tag).status, 412);
    assert_eq!(
        server.get_with(SEGMENT, &[("if-none-match", &tag)]).status,
        200
    );
}

#[test]
fn nothing_but_the_files_of_the_store_is_given() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    place.write("secret", "secret");
    place.write("runlog-data/notes.txt", "secret");
    place.write("runlog-data/00000009.seg.tmp", "secret");
    symlink(place.path("secret"), place.path("runlog-data/00000008.seg")).unwrap();
    symlink("/dev/zero", place.path("runlog-data/END2")).unwrap();
    fs::create_dir(place.path("runlog-data/00000007.seg")).unwrap();
    let listed = server.json("/v1/store/files").to_string();
    for name in [
        "LOCK",
        "notes.txt",
        "00000009.seg.tmp",
        "00000008.seg",
        "00000007.seg",
        "END2",
        "..",
        ".",
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "..%5csecret",
        "%2fetc%2fpasswd",
        "RUNLOG%00",
        "RUNLOG/",
        "runlog",
        "%ff",
        "C:%5cRUNLOG",
        "00000001.seg%20",
        "RUNLOG%0d%0aX:%20y",
    ] {
        let answer = server.raw(&format!(
            "GET /v1/store/files/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ));
        assert!(
            answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 400"),
            "{name}: {answer}"
        );
        assert!(
            !answer.contains("secret\r\n") && !answer.ends_with("secret"),
            "{name}: {answer}"
        );
        assert!(
            !listed.contains(&format!("{name}\"")) || name.len() < 3,
            "{name}: {listed}"
        );
    }
}

#[test]
fn a_tag_is_compared_as_its_header_asks() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let tag = server.get(SEGMENT).header("etag").unwrap().to_owned();
    let weak = format!("W/{tag}");
    // A proxy that packs an answer makes its tag a weak one, and the client sends that back.
    for known in [tag.as_str(), "*", &weak, &format!("\"x\", {weak}")] {
        let answer = server.get_with(SEGMENT, &[("if-none-match", known)]);
        assert_eq!(answer.status, 304, "{known}");
    }
    let part = |headers: &[(&str, &str)]| server.get_with(SEGMENT, headers).status;
    let range = ("range", "bytes=0-0");
    assert_eq!(part(&[range, ("if-range", &tag)]), 206);
    // Of a range nothing but the very same bytes will do, and one tag.
    for other in [weak.as_str(), "*", &format!("\"x\", {tag}")] {
        assert_eq!(part(&[range, ("if-range", other)]), 200, "{other}");
    }
    assert_eq!(
        part(&[range, ("range", "bytes=1-1")]),
        200,
        "which of both is meant?"
    );
}
