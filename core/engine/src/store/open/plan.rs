//! [`Plan`]: what recovery writes before the store can be appended to.
//!
//! The names of files first, then seals, then the tail: each is durable before the next relies on it. Bytes that were found
//! but that nothing proves durable are written again before they are flushed. A flush alone may do nothing: after a flush that
//! failed, the operating system takes the pages for clean.

use crate::{
    Result,
    log::segment::Segment,
    storage::{Access, IoContext, Storage},
    store::{published::durable::Durable, segments::seal::seal},
    sync::Arc,
};

/// At most this many bytes that nothing proves durable are made so while opening; more, before the first append.
const UNPROVEN_AT_OPEN_BYTES_MAX: u64 = 1 << 20;

/// What is to be written before the store can be appended to.
#[derive(Default)]
pub(crate) struct Plan {
    /// The segment before the last, without an index block because of a crash while turning to the last.
    pub(super) seals: Vec<SealPlan>,
    /// Bytes after the last whole batch that aren't zero: from, to.
    pub(super) zero: Option<(u64, u64)>,
    /// Bytes that nothing proves durable: from, to. See [`make_durable`].
    pub(crate) unproven: Option<(u64, u64)>,
    /// Up to where readers have seen them already, while the machine was running as it is now.
    pub(super) shown: u64,
}

pub(super) struct SealPlan {
    pub(super) segment: Arc<Segment>,
    pub(super) end: u64,
    /// The index block and trailer.
    pub(super) index: Vec<u8>,
}

impl Plan {
    /// Does what is to be done, durably.
    pub(crate) fn apply(&mut self, storage: &dyn Storage, durable: &mut Durable) -> Result<()> {
        let sealed_now = !self.seals.is_empty();
        let is_empty = durable.active_index.records() == 0;
        if is_empty {
            // A process that ended between naming the last segment and flushing its name left no record there. The name has
            // to be durable before the segment before is sealed, and before a record is acknowledged.
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
        // A few are done now; many would make opening slow, and are done before the first append. But what no reader has seen
        // yet must not be seen before it is durable: a loss of power would take it back.
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
