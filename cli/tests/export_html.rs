//! `runlog export --html` writes one page with a run inside, and says what is missing where it can't.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::Place;

#[cfg(not(feature = "viewer"))]
#[test]
fn a_build_without_the_viewer_says_how_to_build_it() {
    let place = Place::new();
    let refused = place.expect(1, &["export", "--html", "@last", "--output", "run.html"]);
    assert!(refused.err.contains("--features viewer"), "{refused:?}");
    assert!(refused.err.contains("cargo xtask viewer"), "{refused:?}");
    assert!(!place.path("run.html").exists());
}

#[test]
fn a_page_is_of_no_other_format() {
    let refused = Place::new().expect(2, &["export", "--html", "--format", "openai", "@last"]);
    assert!(refused.err.contains("--format"), "{refused:?}");
}

#[cfg(feature = "viewer")]
mod with_viewer {
    use std::{fs, io::Read};

    use base64::{Engine, engine::general_purpose::STANDARD};
    use runlog::{
        NewMessage, NewRun, NewSession, RunId, SessionId,
        blocking::{FlowRun, Store},
    };

    use super::Place;

    const HOSTILE: &str =
        "</title></script><script>alert(1)</script> & \u{2028}\u{202e}{{RUNLOG_RECORDING}}";

    struct Recorded {
        parent: RunId,
        child: RunId,
        /// The session of the run, of the one that it spawned, and one that is neither's.
        sessions: [SessionId; 3],
        child_agent: String,
    }

    /// A run that spawned another one in a session of its own, and one beside them.
    fn recorded(place: &Place) -> Recorded {
        let store = Store::open(place.path("runlog-data")).unwrap();
        let session = NewSession {
            title: Some(HOSTILE.to_owned()),
            ..NewSession::named("main")
        };
        let parent = store
            .runs()
            .start(NewRun::in_new_session(session, "coder"))
            .unwrap();
        parent.record_message(NewMessage::user(HOSTILE)).unwrap();
        let child = store
            .runs()
            .start(NewRun {
                parent_run_id: Some(parent.id()),
                ..NewRun::in_new_session(NewSession::named("below"), "tester")
            })
            .unwrap();
        child
            .record_message(NewMessage::assistant("Tested."))
            .unwrap();
        child.complete(Some("done")).unwrap();
        parent.complete(Some("done")).unwrap();
        let beside = NewRun::in_new_session(NewSession::named("beside"), "other");
        let other = store.runs().start(beside).unwrap();
        other.complete(None).unwrap();
        let of = |id| store.runs().get(id).unwrap().unwrap();
        let recorded = Recorded {
            parent: parent.id(),
            child: child.id(),
            sessions: [parent.id(), child.id(), other.id()].map(|id| of(id).session_id),
            child_agent: of(child.id()).instance_id.to_string(),
        };
        store.close().unwrap();
        recorded
    }

    /// What stands in the element of a page with this id.
    fn element<'a>(page: &'a str, id: &str) -> &'a str {
        let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
        rest.split_once("</script>").unwrap().0
    }

    fn recording(page: &str) -> String {
        let packed = STANDARD.decode(element(page, "runlog-recording")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    #[test]
    fn a_run_is_in_the_page_with_what_it_spawned_and_nothing_of_it_is_markup() {
        let place = Place::new();
        let recorded = recorded(&place);
        let run = recorded.parent.to_string();
        let told = place.expect(0, &["export", "--html", &run, "--output", "run.html"]);
        assert!(
            told.err.contains("wrote 2 sessions to run.html"),
            "{told:?}"
        );
        let page = fs::read_to_string(place.path("run.html")).unwrap();
        assert!(!page.contains("<script>alert(1)"));
        let (_, title) = page.split_once("<title>").unwrap();
        let (title, _) = title.split_once("</title>").unwrap();
        assert_eq!(
            title,
            "&lt;/title&gt;&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; {{RUNLOG_RECORDING}}"
        );
        // It is an export as any other.
        let text = recording(&page);
        let [session, below, beside] = recorded.sessions.map(|id| id.to_string());
        assert!(text.contains(&session) && text.contains(&below) && !text.contains(&beside));
        place.write("back.jsonl", &text);
        place.expect(0, &["--store", "back", "import", "back.jsonl"]);
        let runs = place
            .expect(0, &["--store", "back", "runs", "--json"])
            .json();
        assert_eq!(runs[0]["items"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_page_begins_with_the_agent_of_the_run_that_was_named() {
        let place = Place::new();
        let recorded = recorded(&place);
        let page = |name: &str| place.expect(0, &["export", "--html", name]).out;
        let child = page(&recorded.child.to_string());
        assert_eq!(element(&child, "runlog-agent"), recorded.child_agent);
        // A session and its name do as well, and then nothing says where it begins.
        assert_eq!(element(&page("below"), "runlog-agent"), "");
        assert!(recording(&page("@last")).contains(&recorded.sessions[2].to_string()));
        let all = place.expect(0, &["export", "--html", "--all"]).out;
        assert!(
            recorded
                .sessions
                .iter()
                .all(|id| recording(&all).contains(&id.to_string()))
        );
        let missing = place.expect(3, &["export", "--html", "nobody"]);
        assert!(missing.err.contains("no run and no session"), "{missing:?}");
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let place = Place::new();
        recorded(&place);
        place.write("run.html", "mine");
        place.expect(4, &["export", "--html", "@last", "-o", "run.html"]);
        assert_eq!(fs::read_to_string(place.path("run.html")).unwrap(), "mine");
    }

    #[test]
    fn a_flow_of_no_run_is_in_the_page_of_the_whole_store() {
        let place = Place::new();
        let store = Store::open(place.path("runlog-data")).unwrap();
        drop(FlowRun::create(&store, None).unwrap());
        store.close().unwrap();
        let refused = place.expect(3, &["export", "--html", "@last", "-o", "flow.html"]);
        assert!(refused.err.contains("`runlog export --all` has it"));
        let written = place.expect(0, &["export", "--html", "--all", "-o", "all.html"]);
        assert!(written.err.contains("1 flow of no run"), "{written:?}");
    }
}
