//! [`Shared`]: what the handles and the threads of one open store have in common, and the group commit.
//!
//! One write is under way at a time. The thread that finds none leads: it takes the open group, writes it,
//! flushes it if one of its batches asks for that, publishes it, and hands the lead to a thread that waits
//! for the group which gathered meanwhile. A lone writer therefore never waits for another thread. Groups
//! that no thread waits for are led by the flusher thread, or where there are no threads by whoever polls.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard,
    atomic::{AtomicU64, Ordering},
};

use super::{
    background::{Background, Chores},
    durable::Durable,
    facts::{Facts, Stop},
    follow::Follower,
    group::{Asked, Group, Woken, outcome_unknown},
    keys::KeyCache,
    options::{Mode, OpenOptions},
    prepare::{self, Prepared},
    recover,
    repeat::{Keyed, Standing},
    under_way::UnderWay,
    watch::Watch,
    watermark::WatermarkFile,
    writer::{Ended, Staged, Writer},
};
use crate::{
    Appended, Batch, Durability, Error, ErrorKind, Result, SegmentId, format::files::Identity, storage::Storage,
};

/// A group of so many bytes is led at once, without waiting for more.
pub(crate) const FLUSH_BYTES: usize = 256 << 10;
/// Staging blocks while so many bytes are staged and not written.
const STAGED_BYTES_MAX: usize = 8 << 20;
/// A thread that gathers others yields at most so often: about a third of the time of a flush. With very many
/// threads it is better to have the rest gather while the flush is under way.
const YIELDS_MAX: u32 = 8;
/// It stops earlier after so many yields in a row that brought none.
const FRUITLESS_YIELDS_MAX: u32 = 3;
/// A checkpoint is saved after so many bytes, or eight times its own size: less has to be read after a crash.
const CHECKPOINT_EVERY_BYTES: u64 = 16 << 20;
/// A buffer larger than this is not kept for the next group.
const SPARE_BYTES_MAX: usize = 2 * STAGED_BYTES_MAX;

/// One open store.
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: OpenOptions,
    pub(crate) identity: Identity,
    pub(crate) durable: RwLock<Durable>,
    /// `None` for a reader.
    pub(crate) writer: Option<Mutex<Writer>>,
    /// `Some` for a reader.
    pub(crate) follower: Option<Follower>,
    pub(crate) watch: Watch,
    pub(crate) background: Background,
    /// `None` for a reader.
    pub(crate) watermark: Option<WatermarkFile>,
    /// The id of the time since the machine was started, all zeros where there is none.
    pub(crate) boot: [u8; 16],
    /// The epoch of this writer.
    pub(crate) epoch: u32,
    /// What the end marker says, where there is one: segment and offset.
    pub(crate) marked_end: Option<(SegmentId, u64)>,
    /// What holds the folder's lock, and its release.
    pub(crate) lock: Mutex<Option<Box<dyn Send + Sync>>>,
    /// The segment made ahead of need.
    pub(crate) spare: Mutex<super::segments::Spare>,
    pub(crate) spare_changed: Condvar,
    /// Where the log stood at the last checkpoint: segment and offset.
    pub(crate) checkpoint_end: Mutex<Option<(u32, u64)>>,
    /// How large the last checkpoint was.
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) keys: Mutex<KeyCache>,
}

/// What staging came to.
pub(crate) enum Outcome {
    /// Staged in a group.
    Staged(Arc<Group>, Staged),
    /// Nothing needs to be written.
    Done(Appended),
}

impl Shared {
    pub(crate) fn durable(&self) -> RwLockReadGuard<'_, Durable> {
        self.durable.read().expect("no panic under this lock")
    }

    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::ReadOnly, "the store is open for reading only; open it for writing to change it")
        })?;
        Ok(writer.lock().expect("no panic under this lock"))
    }

    /// Whether this writer was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.writer().is_ok_and(|writer| writer.is_closed())
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.options.mode == Mode::ReadOnly
    }

    /// Stages a batch and blocks until it is as durable as was asked.
    pub(crate) fn commit(&self, batch: &Batch<'_>) -> Result<Appended> {
        match self.stage(batch, Waiting::Thread)? {
            Outcome::Done(appended) => Ok(appended),
            Outcome::Staged(group, staged) => {
                self.wait(&group)?;
                Ok(appended(staged))
            }
        }
    }

    /// Stages a batch; whoever waits for the group sees to it, or else the flusher thread.
    pub(crate) fn stage(&self, batch: &Batch<'_>, waiting: Waiting) -> Result<Outcome> {
        let prepared = prepare::prepare(batch)?;
        let durability = batch.durability.unwrap_or(self.options.durability);
        let mut conflict_is_seen = false;
        let mut keyed = Keyed::of(batch, &self.identity.hash_key).filter(|_| !self.is_read_only());
        let mut facts = Facts::default();
        facts.read_redacted(self, batch)?;
        loop {
            if let Some(keyed) = &mut keyed
                && let Some(appended) = self.repeated(batch, keyed)?
            {
                return self.already_done(appended, durability);
            }
            let mut writer = self.writer()?;
            writer.check()?;
            let now_ms = self.options.host.now_ms();
            if let Some(blocker) = self.blocker(&writer, &prepared, now_ms) {
                self.clear(writer, blocker, &prepared)?;
                continue;
            }
            let durable = self.durable();
            match keyed.as_ref().map_or(Standing::New, |keyed| keyed.standing(&writer, &durable)) {
                Standing::New => {}
                Standing::LookAgain => continue,
                Standing::Staged => {
                    drop(durable);
                    drop(writer);
                    self.flush(false)?;
                    continue;
                }
            }
            let staged = match writer.stage(&durable, batch, &prepared, &facts, durability, now_ms) {
                Ok(staged) => staged,
                Err(Stop::Read(need)) => {
                    drop(durable);
                    drop(writer);
                    facts.read(self, batch, need)?;
                    continue;
                }
                Err(Stop::Publish) => {
                    drop(durable);
                    drop(writer);
                    self.flush(false)?;
                    continue;
                }
                Err(Stop::Refused(error)) if error.kind() == ErrorKind::Conflict && !conflict_is_seen => {
                    // The conflict may be with what is in line, which whoever reads again doesn't see yet. So it
                    // is told only once that is published.
                    conflict_is_seen = true;
                    let in_line = writer.open.as_ref().map(|open| open.group.clone()).or(writer.flushing.clone());
                    drop(durable);
                    drop(writer);
                    match in_line {
                        Some(group) => drop(self.join(&group)),
                        None => return Err(error),
                    }
                    continue;
                }
                Err(Stop::Refused(error)) => return Err(error),
            };
            drop(durable);
            if staged.is_empty {
                drop(writer);
                return self.already_done(appended(staged), durability);
            }
            let Some(open) = &mut writer.open else { return Ok(Outcome::Done(appended(staged))) };
            let group = open.group.clone();
            match waiting {
                Waiting::Thread => self.join_open(writer),
                Waiting::Nobody => {
                    let asked = if open.staged().len() >= FLUSH_BYTES { Asked::Now } else { Asked::Soon };
                    self.ask(writer, asked);
                }
            }
            return Ok(Outcome::Staged(group, staged));
        }
    }

    /// A batch that writes nothing: what it says is there already is made as durable as it asks.
    fn already_done(&self, appended: Appended, durability: Durability) -> Result<Outcome> {
        self.flush(durability == Durability::Sync)?;
        Ok(Outcome::Done(appended))
    }

    /// Blocks until a group is done; leads it when asked to.
    pub(crate) fn wait(&self, group: &Arc<Group>) -> Result<()> {
        loop {
            match group.wait() {
                Woken::Done(result) => return result,
                Woken::Lead => self.lead_if_open(group)?,
            }
        }
    }

    /// Blocks until a group that was staged for nobody is done.
    pub(crate) fn join(&self, group: &Arc<Group>) -> Result<()> {
        if group.result().is_none() {
            self.lead_if_open(group)?;
        }
        self.wait(group)
    }

    fn lead_if_open(&self, group: &Arc<Group>) -> Result<()> {
        let writer = self.writer()?;
        if writer.open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.group, group)) {
            self.join_open(writer);
        }
        Ok(())
    }

    /// This thread waits for the open group: leads it, unless another does.
    fn join_open<'a>(&'a self, mut writer: MutexGuard<'a, Writer>) {
        let busy = writer.is_busy();
        let threads_seen = writer.threads_seen;
        let Some(open) = &mut writer.open else { return };
        open.waiters += 1;
        if busy {
            return;
        }
        if threads_seen > 1 { self.gather_then_lead(writer) } else { self.lead(writer) }
    }

    /// Lets the threads that wrote with the last group join this one before it is led. They were woken a
    /// moment ago and are about to append again; without this they would form a second group, each half as
    /// large. It yields only as long as more threads come.
    fn gather_then_lead<'a>(&'a self, mut writer: MutexGuard<'a, Writer>) {
        writer.gathering = true;
        let (mut yields, mut fruitless) = (0, 0);
        loop {
            let waiters = writer.open.as_ref().map_or(u32::MAX, |open| open.waiters);
            if waiters >= writer.threads_seen || fruitless == FRUITLESS_YIELDS_MAX || yields == YIELDS_MAX {
                break;
            }
            yields += 1;
            drop(writer);
            std::thread::yield_now();
            let Ok(again) = self.writer() else { return };
            writer = again;
            let more = writer.open.as_ref().is_some_and(|open| open.waiters > waiters);
            fruitless = if more { 0 } else { fruitless + 1 };
        }
        writer.gathering = false;
        if writer.flushing.is_none() {
            self.lead(writer);
        }
    }

    /// Leads the open group if no write is under way.
    pub(crate) fn lead_if_idle(&self) {
        if let Ok(writer) = self.writer()
            && !writer.is_busy()
            && writer.open.is_some()
        {
            self.lead(writer);
        }
    }

    /// Has the flusher thread see to the open group, or without threads does so here.
    pub(crate) fn ask(&self, mut writer: MutexGuard<'_, Writer>, asked: Asked) {
        let busy = writer.is_busy();
        let Some(open) = &mut writer.open else { return };
        if open.asked >= asked {
            return;
        }
        open.asked = asked;
        if self.options.host.has_threads() {
            drop(writer);
            if !busy {
                self.background.ask(asked);
            }
        } else if asked == Asked::Now && !busy {
            self.lead(writer);
        }
    }

    /// Writes, publishes and completes the open group. Nothing else may be under way.
    fn lead(&self, mut writer: MutexGuard<'_, Writer>) {
        let Some(mut open) = writer.open.take() else { return };
        let group = open.group.clone();
        writer.flushing = Some(group.clone());
        let under_way = UnderWay { shared: self, group: group.clone() };
        let (segment, written_end, synced_end) = (writer.active.clone(), writer.written_end, writer.synced_end);
        let capacity = writer.capacity;
        drop(writer);
        let end = open.end();
        let entries = std::mem::take(&mut open.entries);
        let written = open
            .write_to(&*segment.file, capacity, synced_end < written_end)
            .map_err(|error| Error::from_io(error, format!("writing {} at offset {}", segment.name, open.start)));
        let published = written.and_then(|()| {
            let mut durable = self.durable.write().expect("no panic under this lock");
            durable.publish(entries, end)?;
            Ok(durable.next_position - 1)
        });
        if let Ok(position) = &published {
            self.write_watermark(segment.id(), end, *position);
        }
        let Ok(mut writer) = self.writer() else { return };
        writer.flushing = None;
        let result = match published {
            Ok(position) => {
                writer.written_end = end;
                writer.threads_seen = open.waiters + writer.open.as_ref().map_or(0, |next| next.waiters);
                if open.sync {
                    writer.synced_end = end;
                }
                writer.forget_published(&self.durable());
                if writer.spare_buffer.capacity() == 0 && open.bytes.capacity() <= SPARE_BYTES_MAX {
                    writer.spare_buffer = std::mem::take(&mut open.bytes);
                }
                let chores = self.chores(&mut writer, end);
                self.hand_over(writer);
                self.watch.advance(position);
                if chores != Chores::default() {
                    self.keep(chores);
                }
                Ok(())
            }
            Err(error) => {
                self.fail(writer, &error);
                Err(outcome_unknown(&error))
            }
        };
        under_way.end(result);
    }

    /// What is due when the active segment has reached an end.
    fn chores(&self, writer: &mut Writer, end: u64) -> Chores {
        let make_spare = end > writer.capacity / 2 && !std::mem::replace(&mut writer.spare_asked, true);
        // Saving one flushes; where appends don't, it is left to the turn of the segment.
        let save_checkpoint = writer.synced_end == end && writer.ask_for_checkpoint(end, self.checkpoint_step());
        Chores { make_spare, save_checkpoint }
    }

    /// A checkpoint is saved after so many bytes.
    pub(crate) fn checkpoint_step(&self) -> u64 {
        CHECKPOINT_EVERY_BYTES.max(self.checkpoint_bytes.load(Ordering::Relaxed).saturating_mul(8))
    }

    /// Gives the lead to one who waits for the open group, or has the flusher thread see to it.
    pub(crate) fn hand_over(&self, mut writer: MutexGuard<'_, Writer>) {
        let Some(open) = &mut writer.open else { return };
        if open.waiters > 0 {
            let group = open.group.clone();
            drop(writer);
            group.offer_lead();
        } else {
            let asked = if open.staged().len() >= FLUSH_BYTES { Asked::Now } else { open.asked.max(Asked::Soon) };
            open.asked = Asked::Nothing;
            self.ask(writer, asked);
        }
    }

    /// Poisons the writer: a write or a flush failed, and nothing can tell what of it is on the device.
    pub(crate) fn fail(&self, mut writer: MutexGuard<'_, Writer>, error: &Error) {
        writer.ended = Some(Ended::Failed(error.clone()));
        let open = writer.open.take();
        drop(writer);
        if let Some(open) = open {
            open.group.complete(Err(outcome_unknown(error)));
        }
    }

    /// Writes what is staged; flushes it too, with all that was written before, if `sync`.
    pub(crate) fn flush(&self, sync: bool) -> Result<()> {
        loop {
            let mut writer = self.writer()?;
            writer.check()?;
            if let Some(group) = writer.flushing.clone() {
                drop(writer);
                // Its outcome is told to those who wait for it; here only its end matters.
                let _ = self.wait(&group);
                continue;
            }
            if let Some(open) = &mut writer.open {
                open.sync |= sync;
                let group = open.group.clone();
                self.lead(writer);
                self.wait(&group)?;
                continue;
            }
            if !sync || writer.synced_end == writer.written_end {
                return Ok(());
            }
            self.flush_written(writer)?;
        }
    }

    /// Makes durable what was written and not flushed. No write is under way.
    fn flush_written(&self, mut writer: MutexGuard<'_, Writer>) -> Result<()> {
        let (segment, from, to) = (writer.active.clone(), writer.synced_end, writer.written_end);
        let unproven = writer.unproven_end.take().is_some();
        self.exclusively(writer, || {
            if unproven {
                return recover::make_durable(&segment, from, to);
            }
            segment.file.sync().map_err(|error| Error::from_io(error, format!("flushing {}", segment.name)))
        })?;
        let mut writer = self.writer()?;
        if writer.active.id() == segment.id() {
            writer.synced_end = writer.synced_end.max(to);
        }
        Ok(())
    }

    /// Does something while no write is under way, without the writer's lock; its failure poisons the writer.
    pub(crate) fn exclusively<T>(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let marker = Arc::<Group>::default();
        writer.flushing = Some(marker.clone());
        drop(writer);
        let under_way = UnderWay { shared: self, group: marker };
        let result = work();
        let mut writer = self.writer()?;
        writer.flushing = None;
        match &result {
            Ok(_) => self.hand_over(writer),
            Err(error) => self.fail(writer, error),
        }
        under_way.end(Ok(()));
        result
    }

    /// Why a batch can't be staged right now.
    fn blocker(&self, writer: &Writer, prepared: &Prepared, now_ms: u64) -> Option<Blocker> {
        let staged = writer.open.as_ref().map_or(0, |open| open.staged().len());
        if writer.unproven_end.is_some() {
            return Some(Blocker::Unproven);
        }
        if !writer.has_room(prepared) || !writer.time_fits(now_ms) {
            return Some(Blocker::Segment);
        }
        (staged >= STAGED_BYTES_MAX).then_some(Blocker::Backlog)
    }

    /// Clears what stands in the way of a batch: at most a flush and a new segment.
    fn clear(&self, writer: MutexGuard<'_, Writer>, blocker: Blocker, prepared: &Prepared) -> Result<()> {
        if let Some(group) = writer.flushing.clone() {
            drop(writer);
            let _ = self.wait(&group);
            return Ok(());
        }
        if writer.open.is_some() {
            self.lead(writer);
            return Ok(());
        }
        match blocker {
            Blocker::Backlog => Ok(()),
            Blocker::Unproven => self.flush_written(writer),
            Blocker::Segment => self.make_room(writer, prepared),
        }
    }
}

/// Who waits for a staged batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// This thread, which leads if it can.
    Thread,
    /// Nobody yet.
    Nobody,
}

enum Blocker {
    /// The active segment has no room, or its times can't reach the present.
    Segment,
    /// Too much is staged and not written.
    Backlog,
    /// What was found after a crash must be made durable first.
    Unproven,
}

pub(crate) fn appended(staged: Staged) -> Appended {
    Appended { last_position: staged.last_position, ops: staged.ops, repeated: false, truncated: false }
}
