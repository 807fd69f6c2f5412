//! Leader/follower group commit: which thread leads a group, how the group is written, and its result.
//! [`phase`](super::phase) explains the protocol.

use super::{background::MaintenanceTasks, guard::WriteGuard, shared::Shared};
use crate::{
    Error, Result,
    log::segment::Segment,
    storage::File,
    store::{
        options::Preallocation,
        staging::{
            group::{Group, Waiters, Woken, refused},
            open_group::{FlushUrgency, OpenGroup, Unwritten},
            writer::Writer,
        },
    },
    sync::{self, Arc, MutexGuard, Ordering, yield_briefly},
};

/// A group is flushed at once, without waiting for more, when it holds this many bytes.
pub(crate) const FLUSH_BYTES: usize = 256 << 10;

/// A thread that gathers others yields at most this often: about a third of the time of a flush. With very many threads
/// it is better to let the rest gather during the flush.
const YIELDS_MAX: u32 = 8;

/// It stops earlier after this many yields in a row in which no other thread joined.
const FRUITLESS_YIELDS_MAX: u32 = 3;

/// A checkpoint is saved after this many bytes, or after eight times its own size, which bounds what recovery reads
/// after a crash.
const CHECKPOINT_EVERY_BYTES: u64 = 16 << 20;

/// Writeback of unflushed bytes is started whenever there are this many: the flush at the start of a rotation, which
/// blocks appends, then has little left to do. Otherwise the page cache would hold the whole segment until then.
const WRITEBACK_EVERY_BYTES: u64 = 1 << 20;

/// The outcome of writing one group.
enum Written {
    /// It was written, and flushed if asked for, and ends at this position.
    Published(u64),
    /// The device was full; the file was restored to its previous state.
    Refused(Error),
    /// It is unknown what is on the device.
    Failed(Error),
}

/// Where a group is to be written.
struct Place {
    segment: Arc<Segment>,
    capacity: u64,
    written_end: u64,
    synced_end: u64,
}

impl Shared {
    /// Blocks until a group is done; leads it if the previous leader hands over to this thread, which it does only to
    /// threads in `waiters`.
    pub(crate) fn wait(&self, group: &Arc<Group>) -> Result<()> {
        loop {
            match group.wait() {
                Woken::Done(result) => return result,
                Woken::Lead => {
                    let writer = self.writer()?;
                    if is_open(&writer, group) {
                        self.lead_if_first(writer);
                    }
                }
            }
        }
    }

    /// Blocks until a group that was staged without waiting is done.
    pub(crate) fn join(&self, group: &Arc<Group>) -> Result<()> {
        if group.result().is_none() {
            self.check_process()?;
            let writer = self.writer()?;
            if is_open(&writer, group) {
                self.join_open(writer);
            }
        }
        self.wait(group)
    }

    /// This thread waits for the open group: leads it, unless another does.
    pub(crate) fn join_open(&self, mut writer: MutexGuard<'_, Writer>) {
        let Some(open) = &mut writer.open else { return };
        open.waiters += 1;
        self.lead_if_first(writer);
    }

    fn lead_if_first(&self, writer: MutexGuard<'_, Writer>) {
        match (writer.phase.is_idle(), writer.threads_seen > 1) {
            (false, _) => {}
            (true, true) => self.gather_then_lead(writer),
            (true, false) => self.lead(writer),
        }
    }

    /// Lets the threads that wrote with the last group join this one before it is led. They were woken a
    /// moment ago and are about to append again; without this they would form a second group, each half as
    /// large. It yields only as long as more threads come.
    fn gather_then_lead<'a>(&'a self, mut writer: MutexGuard<'a, Writer>) {
        writer.phase.start_gathering();
        let (mut yields, mut fruitless) = (0, 0);
        loop {
            let waiters = writer.open.as_ref().map_or(u32::MAX, |open| open.waiters);
            if waiters >= writer.threads_seen
                || fruitless == FRUITLESS_YIELDS_MAX
                || yields == YIELDS_MAX
            {
                break;
            }
            yields += 1;
            drop(writer);
            let is_yielded = yield_briefly();
            let Ok(again) = self.writer() else { return };
            writer = again;
            if !is_yielded {
                break;
            }
            let more = writer
                .open
                .as_ref()
                .is_some_and(|open| open.waiters > waiters);
            fruitless = if more { 0 } else { fruitless + 1 };
        }
        writer.phase.end_gathering();
        self.lead(writer);
    }

    /// Leads the open group if nothing is being written.
    pub(crate) fn lead_if_idle(&self) {
        if let Ok(writer) = self.writer()
            && writer.phase.is_idle()
            && writer.open.is_some()
        {
            self.lead(writer);
        }
    }

    /// Requests that the flusher thread lead the open group; without such a thread leads it here.
    pub(crate) fn request_flush(&self, mut writer: MutexGuard<'_, Writer>, urgency: FlushUrgency) {
        let is_idle = writer.phase.is_idle();
        let Some(open) = writer.open.as_mut().filter(|open| open.urgency < urgency) else {
            return;
        };
        open.urgency = urgency;
        // Otherwise the current leader hands over when it is done.
        if is_idle && self.has_to_lead(urgency, writer) {
            self.lead_if_idle();
        }
    }

    /// Requests the flusher thread to lead; `true` if there is none, so that this thread has to.
    fn has_to_lead(&self, urgency: FlushUrgency, writer: MutexGuard<'_, Writer>) -> bool {
        drop(writer);
        if self.options.host.has_threads() {
            !self.background.request_flush(urgency)
        } else {
            urgency == FlushUrgency::Now
        }
    }

    /// Writes, publishes and settles the open group. No other thread may be writing.
    pub(crate) fn lead(&self, writer: MutexGuard<'_, Writer>) {
        let mut is_next_left = self.lead_once(writer);
        while is_next_left {
            let Ok(writer) = self.writer() else { return };
            is_next_left = writer.phase.is_idle() && self.lead_once(writer);
        }
    }

    /// Writes one group; `true` if this thread has to lead the next one too.
    ///
    /// The group is taken out of the writer first, so that others can stage in the next one while this one is written without
    /// the lock. Publishing comes before settling: a caller that got its result must find its records.
    fn lead_once(&self, mut writer: MutexGuard<'_, Writer>) -> bool {
        let Some(mut open) = writer.open.take() else {
            return false;
        };
        let group = open.group.clone();
        writer.phase.start_writing(group.clone());
        let guard = WriteGuard::new(self);
        writer.prepare_to_write(&mut open, || self.options.host.now_ms());
        let place = Place {
            segment: writer.active.clone(),
            capacity: writer.capacity,
            written_end: writer.written_end,
            synced_end: writer.synced_end,
        };
        drop(writer);
        let end = open.end();
        let written = self.write(&mut open, &place);
        if let Written::Published(position) = &written {
            self.write_watermark(place.segment.id(), end, *position);
        }
        let Ok(mut writer) = self.writer() else {
            return false;
        };
        match written {
            Written::Published(position) => {
                let due_before = writer.due;
                writer.published(open, end, &self.durable());
                let is_due_new = writer.due.is_some() && writer.due != due_before;
                let tasks = self.tasks(&mut writer, end);
                self.watch.note(position);
                guard.end();
                let waiters = writer.phase.end().settle(Ok(()));
                // The lead is handed over before the group's own threads are woken: the device stays busy while they
                // wake up.
                let is_next_left = self.hand_over(writer);
                waiters.wake();
                self.watch.wake();
                if is_due_new {
                    self.watch_due();
                }
                if tasks != MaintenanceTasks::default() {
                    self.keep(tasks);
                }
                is_next_left
            }
            Written::Refused(error) => {
                self.refuse(writer, guard, &error);
                false
            }
            Written::Failed(error) => {
                self.fail(writer, guard, &error);
                false
            }
        }
    }

    fn write(&self, open: &mut OpenGroup, place: &Place) -> Written {
        if let Err(error) = self.check_process() {
            return Written::Failed(error);
        }
        let (segment, start, end) = (&place.segment, open.start, open.end());
        let failed =
            |error| Error::from_io(error, format!("writing {} at offset {start}", segment.name));
        match open.write_to(
            &*segment.file,
            place.capacity,
            place.synced_end < place.written_end,
        ) {
            Ok(()) => {}
            Err(Unwritten::Full(error)) => {
                return match cut_back(&*segment.file, place.written_end, end) {
                    Ok(()) => Written::Refused(failed(error)),
                    Err(_) => Written::Failed(failed(error)),
                };
            }
            Err(Unwritten::Failed(error)) => return Written::Failed(failed(error)),
        }
        let mut durable = sync::write(&self.durable);
        match durable.publish(std::mem::take(&mut open.entries), end) {
            Ok(()) => Written::Published(durable.next_position - 1),
            Err(error) => Written::Failed(error),
        }
    }

    /// The background work that is due once the active segment is this long.
    fn tasks(&self, writer: &mut Writer, end: u64) -> MaintenanceTasks {
        let make_spare =
            end > writer.capacity / 2 && !std::mem::replace(&mut writer.spare_asked, true);
        // Saving a checkpoint flushes; if appends don't, it is left to the next rotation.
        let save_checkpoint =
            writer.synced_end == end && writer.ask_for_checkpoint(end, self.checkpoint_step());
        MaintenanceTasks {
            start_writeback: writer.ask_for_writeback(WRITEBACK_EVERY_BYTES),
            make_spare,
            save_checkpoint,
            drop_dead: false,
        }
    }

    /// After how many bytes a checkpoint is saved.
    pub(crate) fn checkpoint_step(&self) -> u64 {
        CHECKPOINT_EVERY_BYTES.max(
            self.checkpoint_bytes
                .load(Ordering::Relaxed)
                .saturating_mul(8),
        )
    }

    /// Hands the lead to a thread that waits for the open group, or to the flusher thread; `true` when there is neither, and
    /// this thread has to lead again.
    pub(crate) fn hand_over(&self, mut writer: MutexGuard<'_, Writer>) -> bool {
        let Some(open) = &mut writer.open else {
            return false;
        };
        if open.waiters > 0 {
            let group = open.group.clone();
            drop(writer);
            group.offer_lead();
            return false;
        }
        let urgency = if open.staged().len() >= FLUSH_BYTES {
            FlushUrgency::Now
        } else {
            open.urgency.max(FlushUrgency::Soon)
        };
        open.urgency = urgency;
        self.has_to_lead(urgency, writer)
    }

    /// Refuses two groups because the device is full: the one that failed, and the open one, whose sequences and
    /// positions build on it. The writer's state is then as it was before both.
    fn refuse(&self, mut writer: MutexGuard<'_, Writer>, guard: WriteGuard<'_>, error: &Error) {
        let behind = writer.take_back(&self.durable()).map(|open| open.group);
        if self.options.preallocation == Preallocation::Auto {
            // The file was truncated; its space has to be preallocated again.
            (writer.capacity, writer.extendable) = (writer.written_end, true);
        }
        let flushed = writer.written_end;
        writer.flushed(flushed);
        guard.end();
        let groups = [Some(writer.phase.end()), behind];
        let waiters = groups.map(|group| group.map(|group| group.settle(Err(refused(error)))));
        drop(writer);
        waiters.into_iter().flatten().for_each(Waiters::wake);
    }

    /// Gives tasks to the maintenance thread; without threads they are skipped, which costs time later.
    pub(crate) fn keep(&self, tasks: MaintenanceTasks) {
        if self.options.host.has_threads() {
            self.background.keep(tasks);
        }
    }
}

/// Removes the partly written bytes of a refused group from the file. They must not reappear after a crash: the group's
/// batches are refused, and the next ones are written at the same offset.
fn cut_back(file: &dyn File, start: u64, end: u64) -> std::io::Result<()> {
    // A full copy-on-write file system may be unable to truncate a file either, and usually nothing was written.
    let length = usize::try_from(file.len()?.min(end).saturating_sub(start)).unwrap_or(usize::MAX);
    let mut behind = vec![0; length];
    file.read_at(start, &mut behind)?;
    if behind.iter().any(|byte| *byte != 0) {
        file.set_len(start)?;
    }
    file.sync()
}

fn is_open(writer: &Writer, group: &Arc<Group>) -> bool {
    writer
        .open
        .as_ref()
        .is_some_and(|open| Arc::ptr_eq(&open.group, group))
}
