//! [`StepFolds`]: the folds of the steps of requests that were looked at last, of chats whose own folds aren't cached.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use runlog_log::StreamInfo;
use runlog_model::SessionId;

use super::shared_fold::SharedFold;

/// The most requests whose steps are cached, and the most bytes of payload that they were made from.
const REQUESTS_MAX: usize = 4_096;
const BYTES_MAX: usize = 8 << 20;

/// The steps of requests, each as long as nothing is written to its chat, and nothing redacted in the store.
#[derive(Default)]
pub(crate) struct StepFolds {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    bytes: usize,
    of_requests: HashMap<SessionId, HashMap<String, KeptSteps>>,
    count: usize,
}

struct KeptSteps {
    /// What the chat's stream was, and the redaction count of the store, when they were read.
    read_at: (StreamInfo, u64),
    fold: SharedFold,
}

impl StepFolds {
    /// The fold of a request's steps, if nothing was written since.
    pub(crate) fn known(
        &self,
        session: SessionId,
        request: &str,
        read_at: (StreamInfo, u64),
    ) -> Option<SharedFold> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = kept.of_requests.get(&session)?.get(request)?;
        (steps.read_at == read_at).then(|| steps.fold.clone())
    }

    pub(crate) fn keep(
        &self,
        session: SessionId,
        request: &str,
        read_at: (StreamInfo, u64),
        fold: &SharedFold,
    ) {
        let bytes = fold.read().bytes();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.count >= REQUESTS_MAX || kept.bytes + bytes > BYTES_MAX {
            *kept = Kept::default();
        }
        if bytes > BYTES_MAX {
            return;
        }
        // What it replaces is counted until all are let go.
        kept.bytes += bytes;
        kept.count += 1;
        let fold = fold.clone();
        let of_session = kept.of_requests.entry(session).or_default();
        of_session.insert(request.to_owned(), KeptSteps { read_at, fold });
    }

    pub(crate) fn forget(&self, session: SessionId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.of_requests.remove(&session);
    }
}
