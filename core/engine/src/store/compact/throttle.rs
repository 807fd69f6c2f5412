//! [`Throttle`]: how fast a compaction goes, how far it has come, and whether it goes on.

use std::{ops::ControlFlow, time::Duration};

use crate::{CompactProgress, ErrorKind, Host, OnCompactProgress};

/// After so many bytes the caller is told, and the time is looked at.
const STEP_BYTES: u64 = 1 << 20;

/// Why the writing of a pack ended before its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// It was told to.
    Cancelled,
    /// Something that it reads is damaged: the source at this place, of those that become the pack.
    Damaged(usize),
    /// It failed.
    Failed(crate::Error),
}

/// The result of writing a pack, or of a part of it.
pub(crate) type Outcome<T> = Result<T, Stopped>;

impl From<crate::Error> for Stopped {
    fn from(error: crate::Error) -> Self {
        Self::Failed(error)
    }
}

/// What was read of the source at a place, whose damage is told apart.
pub(crate) fn damaged_at<T>(place: usize, read: crate::Result<T>) -> Outcome<T> {
    read.map_err(|error| match error.kind() {
        ErrorKind::Damaged => Stopped::Damaged(place),
        _ => Stopped::Failed(error),
    })
}

/// Told of every byte that is read and written.
pub(crate) struct Throttle<'a> {
    host: &'a dyn Host,
    bytes_per_second: Option<u64>,
    tell: &'a mut OnCompactProgress<'a>,
    progress: CompactProgress,
    since: u64,
    step_began_ms: u64,
}

impl<'a> Throttle<'a> {
    pub(crate) fn new(
        host: &'a dyn Host,
        bytes_per_second: Option<u64>,
        bytes_total: u64,
        tell: &'a mut OnCompactProgress<'a>,
    ) -> Self {
        Self {
            host,
            bytes_per_second: bytes_per_second.filter(|bytes| *bytes > 0),
            tell,
            progress: CompactProgress {
                bytes_done: 0,
                bytes_total,
            },
            since: 0,
            step_began_ms: host.now_ms(),
        }
    }

    /// So many bytes were moved; of them, so many are of what is rewritten.
    pub(crate) fn moved(&mut self, bytes: u64, rewritten: u64) -> Outcome<()> {
        self.since += bytes;
        self.progress.bytes_done += rewritten;
        if self.since < STEP_BYTES {
            return Ok(());
        }
        if let Some(rate) = self.bytes_per_second {
            let due_ms = self.since.saturating_mul(1000) / rate;
            let taken_ms = self.host.now_ms().saturating_sub(self.step_began_ms);
            let left = due_ms.saturating_sub(taken_ms);
            self.host.sleep(Duration::from_millis(left));
        }
        self.since = 0;
        self.step_began_ms = self.host.now_ms();
        self.tell()
    }

    /// How much was rewritten up to now.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.progress.bytes_done
    }

    /// What was rewritten since then was in vain, and is rewritten again but for so many bytes, which are left.
    pub(crate) fn begin_again(&mut self, bytes_done: u64, bytes_left: u64) {
        let in_vain = self.progress.bytes_done - bytes_done;
        let total = self.progress.bytes_total.saturating_add(in_vain);
        self.progress.bytes_total = total.saturating_sub(bytes_left);
    }

    /// Tells the caller how far it is.
    pub(crate) fn tell(&mut self) -> Outcome<()> {
        match (self.tell)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped::Cancelled),
        }
    }
}
