//! The definitions of agents: defined, changed, found and listed, by callers that wait, in memory and on disk.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    AgentDefinition, ErrorKind, RawJson,
    agents::{AgentVisibility, ListAgents},
    blocking::Store,
    chats::Updates,
};

both! {
    an_agent_is_defined_once_in_its_project
    an_update_changes_some_fields_and_is_an_event
    a_put_writes_only_what_changed
    agents_are_listed_by_page_and_visibility
    another_handle_sees_what_was_defined
    an_agent_that_is_deleted_is_in_no_list_and_can_be_defined_again
}

fn of_project(project: &str, name: &str) -> AgentDefinition {
    AgentDefinition {
        project: Some(project.into()),
        ..AgentDefinition::new(name, "")
    }
}

fn an_agent_is_defined_once_in_its_project(store: &Store) {
    let agents = store.agents();
    let defined = agents.define(of_project("p", "coder")).unwrap();
    assert!(defined.created_at_ms > 0 && defined.created_at_ms == defined.updated_at_ms);
    assert_eq!(
        agents.define(of_project("p", "coder")).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    agents.define(of_project("q", "coder")).unwrap();
    assert_eq!(agents.get(Some("p"), "coder").unwrap(), Some(defined));
    assert_eq!(agents.get(None, "coder").unwrap(), None);
    assert_eq!(
        agents.define(of_project("p", "")).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

fn an_update_changes_some_fields_and_is_an_event(store: &Store) {
    let agents = store.agents();
    agents.define(of_project("p", "coder")).unwrap();
    let updates = Updates::new().with("max_steps", RawJson::parse("5").unwrap());
    let updated = agents.update(Some("p"), "coder", &updates).unwrap();
    assert_eq!(
        (updated.max_steps, updated.name.as_str()),
        (Some(5), "coder")
    );
    assert!(updated.updated_at_ms >= updated.created_at_ms);
    assert_eq!(
        agents.update(None, "coder", &updates).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let engine = pollster::block_on(
        store
            .to_async()
            .backend()
            .stream(runlog::agents::AGENTS_STREAM),
    )
    .unwrap()
    .unwrap();
    assert_eq!(engine.last_sequence.0, 2);
}

fn a_put_writes_only_what_changed(store: &Store) {
    let agents = store.agents();
    let first = agents.put(of_project("p", "coder")).unwrap();
    assert_eq!(agents.put(of_project("p", "coder")).unwrap(), first);
    let other = AgentDefinition {
        description: "Writes Rust.".into(),
        ..of_project("p", "coder")
    };
    let second = agents.put(other).unwrap();
    assert_eq!(
        (second.description.as_str(), second.created_at_ms),
        ("Writes Rust.", first.created_at_ms)
    );
    let events = pollster::block_on(
        store
            .to_async()
            .backend()
            .stream(runlog::agents::AGENTS_STREAM),
    )
    .unwrap()
    .unwrap();
    assert_eq!(events.last_sequence.0, 2);
}

fn an_agent_that_is_deleted_is_in_no_list_and_can_be_defined_again(store: &Store) {
    let agents = store.agents();
    agents.define(of_project("p", "coder")).unwrap();
    agents.define(of_project("q", "coder")).unwrap();
    agents.delete(Some("p"), "coder").unwrap();
    assert_eq!(agents.get(Some("p"), "coder").unwrap(), None);
    assert!(
        agents
            .list(&ListAgents::of(Some("p")))
            .unwrap()
            .items
            .is_empty()
    );
    assert!(agents.list_available_agents(Some("p")).unwrap().is_empty());
    assert_eq!(
        agents.list(&ListAgents::of(Some("q"))).unwrap().items.len(),
        1
    );
    let again = agents.delete(Some("p"), "coder").unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound);
    assert!(again.to_string().contains("\"coder\""), "{again}");
    agents.define(of_project("p", "coder")).unwrap();
    let another = runlog::Store::with_backend(std::sync::Arc::clone(store.to_async().backend()));
    assert!(
        pollster::block_on(another.agents().get(Some("p"), "coder"))
            .unwrap()
            .is_some()
    );
}

fn agents_are_listed_by_page_and_visibility(store: &Store) {
    let agents = store.agents();
    for (index, visibility) in AgentVisibility::ALL.into_iter().cycle().take(7).enumerate() {
        agents
            .define(AgentDefinition {
                visibility,
                ..of_project("p", &format!("agent-{index}"))
            })
            .unwrap();
    }
    let mut names = Vec::new();
    let mut options = ListAgents {
        limit: 3,
        ..ListAgents::of(Some("p"))
    };
    loop {
        let page = agents.list(&options).unwrap();
        names.extend(page.items.into_iter().map(|agent| agent.name));
        let Some(next) = page.next else { break };
        options.cursor = Some(next);
    }
    assert_eq!(
        names,
        (0..7)
            .map(|index| format!("agent-{index}"))
            .collect::<Vec<_>>()
    );
    let internal = ListAgents {
        visibility: Some(AgentVisibility::Internal),
        ..ListAgents::of(Some("p"))
    };
    assert_eq!(agents.list(&internal).unwrap().items.len(), 2);
    let none = agents.list(&ListAgents {
        limit: 0,
        ..ListAgents::of(None)
    });
    assert_eq!(none.unwrap_err().kind(), ErrorKind::InvalidInput);
    let cursor = options.cursor.unwrap();
    for (cursor, project) in [("agent-1", "p"), ("", "p"), (&cursor, "q")] {
        let refused = agents.list(&ListAgents {
            cursor: Some(cursor.to_owned()),
            ..ListAgents::of(Some(project))
        });
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{cursor:?}");
    }
}

fn another_handle_sees_what_was_defined(store: &Store) {
    let other = store.to_async();
    store.agents().define(of_project("p", "coder")).unwrap();
    let listed = pollster::block_on(other.agents().list_available_agents(Some("p"))).unwrap();
    assert_eq!(listed[0].name, "coder");
    store
        .agents()
        .update(
            Some("p"),
            "coder",
            &Updates::new().with("flow_type", RawJson::string("loop")),
        )
        .unwrap();
    let listed = pollster::block_on(other.agents().list_available_agents(Some("p"))).unwrap();
    assert_eq!(listed[0].flow_type, "loop");
}
