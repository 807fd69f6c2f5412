//! What a session takes in memory, measured. A test binary of its own, so that nothing else is measured with it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test looks at its own process, and tells"
)]

mod measured;

use measured::{id, resident};
use runlog_model::{
    AgentInstance, Catalog, CatalogEvent, Checkpointed, InstanceId, Session, SessionId,
    SessionStatus,
};

const SESSIONS: u32 = 200_000;
const BYTES_PER_SESSION_MAX: u64 = 400;

#[test]
fn a_session_with_an_instance_takes_less_than_400_bytes() {
    let mut catalog = Catalog::new();
    let before = resident();
    for number in 1..=u128::from(SESSIONS) {
        let session_id = SessionId(id(number));
        let session = CatalogEvent::SessionCreated(Session {
            id: session_id,
            name: None,
            project: None,
            title: None,
            status: SessionStatus::Active,
            metadata: None,
            copied_from: None,
            created_at_ms: 1_700_000_000_000,
            updated_at_ms: 1_700_000_000_000,
            deleted_at_ms: None,
            chat: None,
        });
        let instance = CatalogEvent::InstanceCreated(AgentInstance {
            id: InstanceId(id(number << 40)),
            session_id,
            agent_name: format!("agent {}", number % 100),
            parent_instance_id: None,
            created_at_ms: 1_700_000_000_000,
        });
        for event in [session, instance] {
            catalog.apply(catalog.last_sequence() + 1, event).unwrap();
        }
    }
    let bytes = (resident() - before) / u64::from(SESSIONS);
    println!("{bytes} bytes per session and instance of {SESSIONS}");
    assert!(bytes < BYTES_PER_SESSION_MAX, "{bytes} bytes per session");
    assert_eq!(catalog.items(), 2 * SESSIONS as usize);
}
