//! What is exported, and where to.

use runlog::{InstanceId, Session};

use crate::failure::Result;

/// What the command line names.
pub(super) struct Subject {
    pub(super) sessions: Vec<Session>,
    /// The agent of the first run that is named, which a page shows first.
    #[cfg_attr(
        not(feature = "viewer"),
        expect(dead_code, reason = "pages are made where the build has the viewer")
    )]
    pub(super) agent: Option<InstanceId>,
}

/// Where the lines go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;
