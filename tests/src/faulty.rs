//! [`FaultyStorage`]: a folder in memory that loses what a real one may lose, and fails when it is told to.
//!
//! What a file holds is kept twice: as every handle sees it, and as the device has it. In between stand the writes
//! and changes of length that nothing has flushed. `sync` promotes those of one file and `sync_dir` the names; a
//! durable write promotes its own range and the file's length, nothing else. A crash then drops, keeps, cuts or
//! mixes by sector each write, and keeps or drops each change of length and name, each on its own: there is no
//! order among them.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use runlog_engine::storage::{Access, Allocation, File, Storage};

use crate::checker::Files;

mod disk;
#[cfg(test)]
mod tests;

use disk::{Disk, FileId};

/// What a fault does to the operations that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It fails with an input/output error. A write may have written a part; a flush forgets what it was to flush,
    /// so that no later one makes it durable.
    Io,
    /// It fails because the device is full, if it is one that can need space. A flush forgets as with `Io`.
    Full,
    /// A read ends early, if it is one.
    ShortRead,
    /// The power goes: what was not flushed is at the mercy of [`FaultyStorage::crashed`], the operation itself
    /// included, and every later one fails.
    PowerLoss,
    /// Operations of this kind make nothing durable and say that they did. No storage that can be used is like
    /// that: it is here to see that tests notice.
    Lie(Call),
}

/// How long a fault lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// One operation fails.
    Once,
    /// All fail from then on.
    ForGood,
}

/// The operation that is to fail, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// How many of the operations that the failure can hit go well before.
    pub after: u64,
    /// What happens.
    pub failure: Failure,
    /// For how long.
    pub lasting: Lasting,
}

/// What was done to the storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Which operation.
    pub call: Call,
    /// The file, by the name it had when it was opened.
    pub name: String,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A method of the storage or of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "they are named after the methods")]
pub enum Call {
    Create,
    Open,
    List,
    Rename,
    Remove,
    SyncDir,
    CreateDir,
    Lock,
    ReadAt,
    WriteAt,
    Sync,
    WriteDurableAt,
    SetLen,
    Len,
    Allocate,
}

impl Call {
    fn is_met_by(self, failure: Failure) -> bool {
        match failure {
            Failure::Io | Failure::PowerLoss => true,
            Failure::Full => matches!(
                self,
                Self::Create
                    | Self::Rename
                    | Self::Remove
                    | Self::SyncDir
                    | Self::CreateDir
                    | Self::Lock
                    | Self::WriteAt
                    | Self::Sync
                    | Self::WriteDurableAt
                    | Self::SetLen
                    | Self::Allocate
            ),
            Failure::ShortRead => self == Self::ReadAt,
            Failure::Lie(call) => self == call,
        }
    }
}

/// A folder in memory with faults. Clones share it.
#[derive(Clone, Default)]
pub struct FaultyStorage {
    world: Arc<Mutex<World>>,
    gate: Arc<Gate>,
    /// The life that this clone belongs to, if it belongs to one: with that it ends.
    process: Option<u64>,
}

/// Where operations of a kind wait until they are let go on.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    held: Option<Call>,
    waiting: usize,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, call: Call) {
        let mut state = self.state();
        if state.held != Some(call) {
            return;
        }
        state.waiting += 1;
        self.changed.notify_all();
        while state.held == Some(call) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}

#[derive(Clone, Default)]
struct World {
    disk: Disk,
    /// Counts crashes and kills: handles and locks of an earlier life are dead.
    life: u64,
    /// Counts crashes.
    boot: u8,
    /// Whether it has no way to tell one start of the machine from another.
    has_no_boot_id: bool,
    /// The locked names, and by whom.
    locked: BTreeMap<String, String>,
    fault: Option<Fault>,
    /// How many operations the fault could have hit so far.
    met: u64,
    /// How many faults were injected.
    injected: u64,
    /// The first operation that failed.
    hit: Option<Operation>,
    is_powerless: bool,
    is_paused: bool,
    /// How many bytes the device has room for, if that is limited.
    room: Option<u64>,
    trace: Vec<Operation>,
}

/// What becomes of an operation.
enum Fate {
    Done,
    /// It is done as if nothing was wrong, but makes nothing durable.
    Lied,
    /// Done as far as nobody can know, then an error.
    Failed(Failure, io::Error),
}

impl World {
    /// How much of a write the device has room for.
    fn fitting<'a>(&self, id: FileId, offset: u64, bytes: &'a [u8]) -> &'a [u8] {
        let Some(room) = self.room else { return bytes };
        let count = self.disk.fitting(id, offset, bytes.len() as u64, room);
        &bytes[..usize::try_from(count).expect("no more than there are")]
    }

    fn meet(&mut self, call: Call, name: &str, offset: u64, bytes: u64) -> Fate {
        if self.is_paused {
            return Fate::Done;
        }
        let operation = Operation {
            call,
            name: name.to_owned(),
            offset,
            bytes,
        };
        self.trace.push(operation.clone());
        if self.is_powerless {
            return Fate::Failed(Failure::Io, io::Error::other("the power is gone"));
        }
        let Some(fault) = self.fault.filter(|fault| call.is_met_by(fault.failure)) else {
            return Fate::Done;
        };
        let place = self.met;
        self.met += 1;
        let hit = match fault.lasting {
            Lasting::Once => place == fault.after,
            Lasting::ForGood => place >= fault.after,
        };
        if !hit {
            return Fate::Done;
        }
        self.injected += 1;
        self.hit.get_or_insert(operation);
        let error = match fault.failure {
            Failure::Io => io::Error::other(format!("injected: {call:?} of {name} at {offset}")),
            Failure::Full => io::Error::new(
                io::ErrorKind::StorageFull,
                format!("injected: {call:?} of {name}"),
            ),
            Failure::ShortRead => {
                io::Error::new(io::ErrorKind::UnexpectedEof, "injected: a short read")
            }
            Failure::PowerLoss => {
                self.is_powerless = true;
                io::Error::other("injected: the power goes")
            }
            Failure::Lie(_) => return Fate::Lied,
        };
        Fate::Failed(fault.failure, error)
    }
}

impl FaultyStorage {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty folder on a system that has no way to tell one start of the machine from another.
    pub fn without_boot_id() -> Self {
        let world = World {
            has_no_boot_id: true,
            ..World::default()
        };
        Self::of(world)
    }

    /// A folder of durable files.
    pub fn from_files(files: &Files) -> Self {
        let world = World {
            disk: Disk::from_files(files),
            ..World::default()
        };
        Self::of(world)
    }

    fn of(world: World) -> Self {
        Self {
            world: Arc::new(Mutex::new(world)),
            gate: Arc::default(),
            process: None,
        }
    }

    /// From now on files take so many bytes at most, and a write that needs more fails half way; `None` takes the limit
    /// away.
    pub fn limit_room(&self, bytes: impl Into<Option<u64>>) {
        self.world().room = bytes.into();
    }

    /// From now on the device has room for so many bytes more, and for what is given back.
    pub fn leave_room(&self, bytes: u64) {
        let mut world = self.world();
        world.room = Some(world.disk.taken() + bytes);
    }

    /// Operations of this kind on files wait from now on, until [`FaultyStorage::release`].
    pub fn hold(&self, call: Call) {
        self.gate.state().held = Some(call);
    }

    /// Blocks until an operation waits.
    pub fn wait_held(&self) {
        let mut state = self.gate.state();
        while state.waiting == 0 {
            state = self
                .gate
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets operations go on.
    pub fn release(&self) {
        self.gate.state().held = None;
        self.gate.changed.notify_all();
    }

    /// The files as every handle sees them.
    pub fn files(&self) -> Files {
        self.world().disk.files()
    }

    /// Arms a fault, counting from now; `None` takes it away.
    pub fn arm(&self, fault: impl Into<Option<Fault>>) {
        let mut world = self.world();
        world.fault = fault.into();
        world.met = 0;
        world.injected = 0;
        world.hit = None;
    }

    /// The first operation that failed since a fault was armed.
    pub fn hit(&self) -> Option<Operation> {
        self.world().hit.clone()
    }

    /// Does something on a storage that is well meanwhile: no fault hits it, and none counts it.
    pub fn unharmed<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.world().is_paused, true);
        let result = work();
        self.world().is_paused = before;
        result
    }

    /// How many operations failed since a fault was armed.
    pub fn injected(&self) -> u64 {
        self.world().injected
    }

    /// What was done since the last call.
    pub fn take_trace(&self) -> Vec<Operation> {
        std::mem::take(&mut self.world().trace)
    }

    /// Takes the power away: every operation fails from now on.
    pub fn cut_power(&self) {
        self.world().is_powerless = true;
    }

    /// Whether the power is gone.
    pub fn is_powerless(&self) -> bool {
        self.world().is_powerless
    }

    /// The folder as a crash now may leave it, after the next start; one of many possible, by the seed. The
    /// folder at hand is not changed.
    #[must_use]
    pub fn crashed(&self, seed: u64) -> Self {
        let world = self.world();
        let next = World {
            disk: world.disk.crashed(seed),
            life: world.life + 1,
            boot: world.boot.wrapping_add(1),
            has_no_boot_id: world.has_no_boot_id,
            ..World::default()
        };
        Self::of(next)
    }

    /// How many changes nothing has flushed.
    pub fn unflushed(&self) -> usize {
        self.world().disk.unflushed()
    }

    /// The folder as a process has it that may be killed: then it can do nothing there any more.
    #[must_use]
    pub fn as_process(&self) -> Self {
        Self {
            process: Some(self.world().life),
            ..self.clone()
        }
    }

    /// The processes that used the folder are gone; what they wrote is as it was, flushed or not. Their handles are dead,
    /// and what was armed stays so.
    pub fn kill(&self) {
        let mut world = self.world();
        world.life += 1;
        world.locked.clear();
        world.disk.all_closed();
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.world();
        if self.process.is_some_and(|life| life != world.life) {
            return Err(io::Error::other(
                "the process that had this folder open is gone",
            ));
        }
        Ok(world)
    }

    /// A copy of the folder, unflushed writes included, that shares nothing with it.
    #[must_use]
    pub fn copy(&self) -> Self {
        let world = self.world();
        let mut disk = world.disk.clone();
        disk.all_closed();
        let copy = World {
            disk,
            life: world.life + 1,
            boot: world.boot,
            has_no_boot_id: world.has_no_boot_id,
            ..World::default()
        };
        Self::of(copy)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, world: &mut World, name: &str, id: FileId) -> Arc<dyn File> {
        world.disk.opened(id);
        let (world_of_all, gate) = (self.world.clone(), self.gate.clone());
        Arc::new(FaultyFile {
            world: world_of_all,
            gate,
            life: world.life,
            name: name.to_owned(),
            id,
        })
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"))
}

/// Ends an operation that failed; what it was to change stays unflushed.
fn ended(fate: Fate) -> io::Result<()> {
    match fate {
        Fate::Done | Fate::Lied => Ok(()),
        Fate::Failed(_, error) => Err(error),
    }
}

/// Whether an operation on names happens: it does not if it failed, unless the power went just then.
fn happens(fate: &Fate) -> bool {
    !matches!(
        fate,
        Fate::Failed(Failure::Io | Failure::Full | Failure::ShortRead, _)
    )
}

impl Storage for FaultyStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut world = self.alive()?;
        let fate = world.meet(Call::Create, name, 0, 0);
        if !happens(&fate) {
            ended(fate)?;
            return Err(missing(name));
        }
        let id = world.disk.create(name);
        ended(fate)?;
        Ok(self.handle(&mut world, name, id))
    }

    fn open(&self, name: &str, _: Access) -> io::Result<Arc<dyn File>> {
        let mut world = self.alive()?;
        ended(world.meet(Call::Open, name, 0, 0))?;
        let id = world.disk.find(name).ok_or_else(|| missing(name))?;
        Ok(self.handle(&mut world, name, id))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut world = self.alive()?;
        ended(world.meet(Call::List, "", 0, 0))?;
        Ok(world.disk.names())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.alive()?;
        let fate = world.meet(Call::Rename, to, 0, 0);
        if happens(&fate) && !world.disk.rename(from, to) {
            return Err(missing(from));
        }
        ended(fate)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.alive()?;
        let fate = world.meet(Call::Remove, name, 0, 0);
        if happens(&fate) && !world.disk.remove(name) {
            return Err(missing(name));
        }
        ended(fate)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut world = self.alive()?;
        let fate = world.meet(Call::SyncDir, "", 0, 0);
        if matches!(fate, Fate::Done) {
            world.disk.sync_names();
        }
        ended(fate)
    }

    fn create_dir(&self) -> io::Result<()> {
        let fate = self.alive()?.meet(Call::CreateDir, "", 0, 0);
        ended(fate)
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        let mut world = self.alive().map_err(Err)?;
        ended(world.meet(Call::Lock, name, 0, 0)).map_err(Err)?;
        if let Some(other) = world.locked.get(name) {
            return Err(Ok(other.clone()));
        }
        world.locked.insert(name.to_owned(), holder.to_owned());
        Ok(Box::new(Unlock {
            world: self.world.clone(),
            life: world.life,
            name: name.to_owned(),
        }))
    }

    fn describe(&self) -> String {
        "faulty".to_owned()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        let world = self.world();
        (!world.has_no_boot_id).then_some([world.boot; 16])
    }
}

struct Unlock {
    world: Arc<Mutex<World>>,
    life: u64,
    name: String,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if world.life == self.life {
            world.locked.remove(&self.name);
        }
    }
}

struct FaultyFile {
    world: Arc<Mutex<World>>,
    gate: Arc<Gate>,
    life: u64,
    name: String,
    id: FileId,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if world.life == self.life {
            world.disk.closed(self.id);
        }
    }
}

impl FaultyFile {
    /// The world, and what becomes of an operation in it.
    fn meet(
        &self,
        call: Call,
        offset: u64,
        bytes: usize,
    ) -> io::Result<(MutexGuard<'_, World>, Fate)> {
        self.gate.pass(call);
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if world.life != self.life {
            return Err(io::Error::other(
                "the process that had this file open is gone",
            ));
        }
        let fate = world.meet(call, &self.name, offset, bytes as u64);
        Ok((world, fate))
    }
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (world, fate) = self.meet(Call::ReadAt, offset, bytes.len())?;
        ended(fate)?;
        let found = world
            .disk
            .read(self.id, offset, bytes.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut world, fate) = self.meet(Call::WriteAt, offset, bytes.len())?;
        let part = written_part(&world, &fate, bytes);
        let fitting = world.fitting(self.id, offset, part);
        world.disk.write(self.id, offset, fitting);
        ended(fate)?;
        full_unless(fitting.len() == part.len())
    }

    fn sync(&self) -> io::Result<()> {
        let (mut world, fate) = self.meet(Call::Sync, 0, 0)?;
        match fate {
            Fate::Done => world.disk.sync(self.id),
            Fate::Failed(Failure::Io | Failure::Full, _) if !world.is_powerless => {
                world.disk.forget(self.id)
            }
            _ => {}
        }
        ended(fate)
    }

    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut world, fate) = self.meet(Call::WriteDurableAt, offset, bytes.len())?;
        let part = written_part(&world, &fate, bytes);
        let fitting = world.fitting(self.id, offset, part);
        if fitting.len() < part.len() {
            // The device is full before it comes to the flush.
            world.disk.write(self.id, offset, fitting);
            ended(fate)?;
            return full_unless(false);
        }
        match fate {
            Fate::Done => world.disk.write_durable(self.id, offset, bytes),
            Fate::Failed(Failure::Io | Failure::Full, _) if !world.is_powerless => {
                world.disk.write_forgotten(self.id, offset, part);
            }
            _ => world.disk.write(self.id, offset, part),
        }
        ended(fate)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let (mut world, fate) = self.meet(Call::SetLen, bytes, 0)?;
        if happens(&fate) {
            world.disk.set_len(self.id, bytes);
        }
        ended(fate)
    }

    fn len(&self) -> io::Result<u64> {
        let (world, fate) = self.meet(Call::Len, 0, 0)?;
        ended(fate)?;
        Ok(world.disk.len(self.id))
    }

    fn allocate(&self, from: u64, to: u64, allocation: Allocation) -> io::Result<()> {
        let (mut world, fate) = self.meet(
            Call::Allocate,
            from,
            usize::try_from(to - from).unwrap_or(usize::MAX),
        )?;
        // One that fails may have made some of the room.
        let part = if happens(&fate) {
            to
        } else {
            from + (to - from) / 2
        };
        let fitting = world.room.map_or(part - from, |room| {
            world.disk.fitting(self.id, from, part - from, room)
        });
        let end = from + fitting;
        if !world.is_powerless || happens(&fate) {
            world.disk.set_len(self.id, end);
            world.disk.take(self.id, end);
        }
        if end < part {
            ended(fate)?;
            return full_unless(false);
        }
        // Filling up with zeros ends in a flush of the whole file, which may be what fails: then it forgets as any does.
        match fate {
            _ if allocation == Allocation::Reserve => {}
            Fate::Done => world.disk.sync(self.id),
            Fate::Failed(Failure::Io | Failure::Full, _) if !world.is_powerless => {
                world.disk.forget(self.id)
            }
            _ => {}
        }
        ended(fate)
    }
}

fn full_unless(fits: bool) -> io::Result<()> {
    if fits {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::StorageFull,
            "no room is left on the device",
        ))
    }
}

/// How much of a write is done: of one that fails nothing, a part or all, in turns.
fn written_part<'a>(world: &World, fate: &Fate, bytes: &'a [u8]) -> &'a [u8] {
    match fate {
        Fate::Failed(Failure::PowerLoss, _) | Fate::Done | Fate::Lied => bytes,
        Fate::Failed(..) if world.is_powerless => &[],
        Fate::Failed(..) => &bytes[..bytes.len() * (world.trace.len() % 3) / 2],
    }
}
