//! [`Plan`]: the writes of recovery, before the store can be appended to.
//!
//! File names first, then seals, then the tail: each is durable before the next relies on it. Bytes that were found but
//! not proven durable are written again before they are flushed. A flush alone may do nothing, because after a failed
//! flush the operating system marks the pages as clean.

use crate::{
    Result,
    log::segment::Segment,
    storage::{Access, IoContext, Storage},
    store::{published::durable::Durable, segments::seal::seal},
    sync::Arc,
};

/// Up to this many unproven bytes are made durable during the open; more of them before the first append.
const UNPROVEN_AT_OPEN_BYTES_MAX: u64 = 1 << 20;

/// The writes that are needed before the store can be appended to.
#[derive(Default)]
pub(crate) struct Plan {
    /// The second to last segment, if a crash during the rotation left it without an index block.
    pub(super) seals: Vec<SealPlan>,
    /// Bytes after the last whole batch that aren't zero: from, to.
    pub(super) zero: Option<(u64, u64)>,
    /// Bytes that are not proven durable: from, to. See [`make_durable`].
    pub(crate) unproven: Option<(u64, u64)>,
    /// The offset up to which readers may have seen them since the last boot.
    pub(super) shown: u64,
}

pub(super) struct SealPlan {
    pub(super) segment: Arc<Segment>,
    pub(super) end: u64,
    /// The index block and trailer.
    pub(super) index: Vec<u8>,
}

impl Plan {
    /// Executes the plan, durably.
    pub(crate) fn apply(&mut self, storage: &dyn Storage, durable: &mut Durable) -> Result<()> {
        let sealed_now = !self.seals.is_empty();
        let is_empty = durable.active_index.records() == 0;
        if is_empty {
            // A process that crashed between naming the last segment and flushing its name left no record there. The
            // name has to be durable before the previous segment is sealed, and before a record is acknowledged.
            storage
                .sync_dir()
                .with_context(|| format!("flushing {}", storage.describe()))?;
        }
        for plan in self.seals.drain(..) {
            let sealed = seal(storage, &plan.segment, plan.end, &plan.index)?;
            let place = durable
                .segments
                .iter()
                .position(|segment| segment.id() == sealed.id());
            if let Some(place) = place {
                durable.segments[place] = Arc::new(sealed);
            }
        }
        if let (true, [.., before, _]) = (is_empty && !sealed_now, &durable.segments[..]) {
            make_seal_durable(storage, before)?;
        }
        let Some(active) = durable.active() else {
            return Ok(());
        };
        let doing = || format!("mending the tail of {}", active.name);
        if let Some((from, to)) = self.zero {
            active.zero(from, to).with_context(doing)?;
        }
        // A few are made durable now; many would make opening slow, and are left to the first append. But records that
        // no reader has seen yet must not be visible before they are durable: a loss of power would remove them again.
        if let Some((from, to)) = self.unproven {
            let unseen = self.shown.max(from);
            if to - from <= UNPROVEN_AT_OPEN_BYTES_MAX || unseen <= from {
                active.rewrite(from, to)?;
                self.unproven = None;
            } else if unseen < to {
                active.rewrite(unseen, to)?;
                self.unproven = Some((from, unseen));
            }
        }
        Ok(())
    }
}

/// Makes the seal of a segment durable: only a record in the next one proves that it is.
fn make_seal_durable(storage: &dyn Storage, segment: &Segment) -> Result<()> {
    let Some(trailer) = segment.trailer().filter(|_| !segment.is_pack()) else {
        return Ok(());
    };
    let writable = Segment::open(storage, segment.id(), Access::Write, &segment.header.store)?;
    writable.rewrite(trailer.data_end, trailer.data_end + trailer.block_bytes())
}
