//! [`ImportMark`]: the progress of an import; and the session data of a batch of entries.

use runlog_model::AgentInstance;

use crate::kernel::new_session::NewSession;

/// The progress of the import of a session that takes more than one batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ImportMark {
    /// An import has created the session, and has more to write to it.
    Creating,
    /// An import has added to a session that was there before, and has more to write to it.
    Adding,
    /// Everything was written.
    Done,
}

/// The session data of a batch, in addition to the entries.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) new_session: Option<NewSession>,
    pub(super) new_instances: Vec<AgentInstance>,
    pub(super) is_archived: bool,
    pub(super) mark: Option<ImportMark>,
}

impl About {
    pub(super) fn is_empty(&self) -> bool {
        self.new_session.is_none()
            && self.new_instances.is_empty()
            && !self.is_archived
            && self.mark.is_none()
    }
}
