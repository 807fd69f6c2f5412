//! The envelope of chat and flow events: one byte of metadata, the schema version of the JSON payload.
//!
//! **Changing a payload's shape.** A new optional field needs nothing: readers keep fields they don't know. Any
//! other change raises the version, and adds one step to the `upcast` function below that turns the JSON of the
//! version before into that of the new one. Steps are chained, so that a record of version 1 is read by every
//! later build as if it had been written by it, and the folds know the newest shape only. The log is never
//! rewritten. A record of a version from the future is refused by name.

use std::borrow::Cow;

use crate::{Error, ErrorKind, Result};

/// The version that chat events are written in.
pub const CHAT_VERSION: u8 = 1;
/// The version that flow events and run snapshots are written in.
pub const FLOW_VERSION: u8 = 1;

/// Writes the envelope of a chat event.
pub fn encode_chat_meta() -> Vec<u8> {
    vec![CHAT_VERSION]
}

/// Opens the envelope of a chat event: its payload in the newest shape.
///
/// # Errors
/// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for a version that this build doesn't know,
/// [`Damaged`](ErrorKind::Damaged) for metadata that isn't an envelope.
pub fn open_chat<'a>(meta: &[u8], payload: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    open(meta, payload, CHAT_VERSION, "chat event", |_, payload| {
        payload
    })
}

/// Writes the envelope of a flow event or a run snapshot.
pub fn encode_flow_meta() -> Vec<u8> {
    vec![FLOW_VERSION]
}

/// Opens the envelope of a flow event or a run snapshot: its payload in the newest shape.
///
/// # Errors
/// As [`open_chat`].
pub fn open_flow<'a>(meta: &[u8], payload: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    open(meta, payload, FLOW_VERSION, "flow event", |_, payload| {
        payload
    })
}

/// `upcast(version, payload)` turns a payload of `version` into one of the next.
fn open<'a>(
    meta: &[u8],
    payload: &'a [u8],
    newest: u8,
    what: &str,
    upcast: impl Fn(u8, Cow<'a, [u8]>) -> Cow<'a, [u8]>,
) -> Result<Cow<'a, [u8]>> {
    let [version] = meta else {
        let length = meta.len();
        return Err(Error::damaged(format!(
            "the metadata of a {what} should be 1 byte, but has {length}"
        )));
    };
    if *version == 0 || *version > newest {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "a {what} has version {version}, this build reads versions 1 to {newest}; use a newer build"
            ),
        ));
    }
    Ok(
        (*version..newest).fold(Cow::Borrowed(payload), |payload, version| {
            upcast(version, payload)
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_payload_is_upcast_step_by_step() {
        let upcast = |version, payload: Cow<'_, [u8]>| {
            Cow::Owned([&payload, &[b'0' + version][..]].concat())
        };
        assert_eq!(&*open(&[1], b"v", 3, "test", upcast).unwrap(), b"v12");
        assert_eq!(&*open(&[3], b"v", 3, "test", upcast).unwrap(), b"v");
    }

    #[test]
    fn a_version_from_the_future_is_refused_by_name() {
        for error in [
            open_chat(&[2], b"{}").unwrap_err(),
            open_flow(&[0], b"{}").unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        }
        for meta in [&b""[..], &[1, 1]] {
            assert_eq!(
                open_chat(meta, b"{}").unwrap_err().kind(),
                ErrorKind::Damaged
            );
        }
    }
}
