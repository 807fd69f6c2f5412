//! [`Throttle`]: how fast a compaction goes, how far it has come, and whether it goes on.

use std::{ops::ControlFlow, time::Duration};

use crate::{CompactProgress, ErrorKind, Host, OnCompactProgress};

/// After so many bytes the progress is reported, and the time is checked.
const STEP_BYTES: u64 = 1 << 20;
/// The longest that it sleeps without asking whether it is to go on.
const PAUSE_MS_MAX: u64 = 100;

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

/// What was read of the source at a place, whose damage is kept apart.
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
        // At a slow rate in steps of a pause, so that it is slow all the time.
        let step = |rate: u64| (rate / 1000 * PAUSE_MS_MAX).min(STEP_BYTES);
        if self.since < self.bytes_per_second.map_or(STEP_BYTES, step) {
            return Ok(());
        }
        if let Some(rate) = self.bytes_per_second {
            let due_ms = self.since.saturating_mul(1000) / rate;
            let taken_ms = self.host.now_ms().saturating_sub(self.step_began_ms);
            let mut left_ms = due_ms.saturating_sub(taken_ms);
            // At a slow rate that may be minutes: who ends the work, or closes the store, doesn't wait for them.
            while left_ms > 0 {
                let pause_ms = left_ms.min(PAUSE_MS_MAX);
                self.host.sleep(Duration::from_millis(pause_ms));
                left_ms -= pause_ms;
                self.tell()?;
            }
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

    /// All that was to be done is done. What was dropped unread counts now, too; nothing is left to be stopped.
    pub(crate) fn end(&mut self) {
        self.progress.bytes_done = self.progress.bytes_total;
        let _ = (self.tell)(self.progress);
    }

    /// Tells the caller how far it is.
    pub(crate) fn tell(&mut self) -> Outcome<()> {
        match (self.tell)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped::Cancelled),
        }
    }
}
