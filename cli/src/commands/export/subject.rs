//! The subject of an export, and its destination.

use runlog::{InstanceId, Session};

use crate::failure::Result;

/// The sessions named on the command line.
pub(super) struct Subject {
    pub(super) sessions: Vec<Session>,
    /// The agent of the first run that is named, which a page shows first.
    #[cfg_attr(
        not(feature = "viewer"),
        expect(dead_code, reason = "pages are made where the build has the viewer")
    )]
    pub(super) agent: Option<InstanceId>,
}

/// The destination of the lines.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;
