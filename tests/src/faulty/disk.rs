//! What the device has, what the handles see, and what stands between the two.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{checker::Files, random::Random};

const SECTOR_BYTES: u64 = 512;

/// A file, whatever its name.
pub(super) type FileId = usize;

/// The files and names of one folder.
#[derive(Clone, Default)]
pub(super) struct Disk {
    files: Vec<Contents>,
    names: BTreeMap<String, FileId>,
    durable_names: BTreeMap<String, FileId>,
    pending_names: Vec<NameChange>,
}

#[derive(Clone, Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Up to here the file takes room on the device; what is beyond it was made by a change of length only.
    taken: u64,
    /// How many handles there are: a file that is removed gives its room back with the last of them.
    handles: usize,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// A change of names; each can be durable without those before it.
#[derive(Clone)]
enum NameChange {
    Create {
        name: String,
        id: FileId,
    },
    Rename {
        from: String,
        to: String,
        id: FileId,
    },
    Remove {
        name: String,
    },
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("files in memory are small")
}

fn write(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let range = index(offset)..index(offset) + new.len();
    if bytes.len() < range.end {
        bytes.resize(range.end, 0);
    }
    bytes[range].copy_from_slice(new);
}

impl Disk {
    pub(super) fn from_files(files: &Files) -> Self {
        let mut disk = Self::default();
        for (name, bytes) in files {
            disk.names.insert(name.clone(), disk.files.len());
            disk.files.push(Contents::durable(bytes.clone()));
        }
        disk.durable_names = disk.names.clone();
        disk
    }

    pub(super) fn files(&self) -> Files {
        self.names
            .iter()
            .map(|(name, id)| (name.clone(), self.files[*id].seen.clone()))
            .collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    pub(super) fn create(&mut self, name: &str) -> FileId {
        // A file of the name is emptied, as it is where a real one is opened to be made anew.
        if let Some(id) = self.find(name) {
            self.set_len(id, 0);
            return id;
        }
        let id = self.files.len();
        self.files.push(Contents::default());
        self.names.insert(name.to_owned(), id);
        self.pending_names.push(NameChange::Create {
            name: name.to_owned(),
            id,
        });
        id
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(id) = self.names.remove(from) else {
            return false;
        };
        self.names.insert(to.to_owned(), id);
        self.pending_names.push(NameChange::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            id,
        });
        true
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.pending_names.push(NameChange::Remove {
            name: name.to_owned(),
        });
        self.names.remove(name).is_some()
    }

    pub(super) fn sync_names(&mut self) {
        self.durable_names = self.names.clone();
        self.pending_names.clear();
    }

    pub(super) fn read(&self, id: FileId, offset: u64, count: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.files[id].seen.get(start..start.checked_add(count)?)
    }

    pub(super) fn len(&self, id: FileId) -> u64 {
        self.files[id].seen.len() as u64
    }

    pub(super) fn write(&mut self, id: FileId, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let file = &mut self.files[id];
        file.write_seen(offset, bytes);
        file.pending.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    /// Takes the room up to an end.
    pub(super) fn take(&mut self, id: FileId, end: u64) {
        let file = &mut self.files[id];
        file.taken = file.taken.max(end);
    }

    /// How much room all files take.
    pub(super) fn taken(&self) -> u64 {
        let named: BTreeSet<&FileId> = self.names.values().collect();
        let is_there = |id: &FileId| self.files[*id].handles > 0 || named.contains(id);
        let ids = (0..self.files.len()).filter(is_there);
        ids.map(|id| self.files[id].taken).sum()
    }

    pub(super) fn opened(&mut self, id: FileId) {
        self.files[id].handles += 1;
    }

    /// The processes that had handles are gone.
    pub(super) fn all_closed(&mut self) {
        for file in &mut self.files {
            file.handles = 0;
        }
    }

    pub(super) fn closed(&mut self, id: FileId) {
        self.files[id].handles -= 1;
    }

    /// How many bytes from `offset` on a file may grow to, of those it asks for, when the device has so much room.
    pub(super) fn fitting(&self, id: FileId, offset: u64, bytes: u64, room: u64) -> u64 {
        let free = room.saturating_sub(self.taken());
        (self.files[id].taken + free)
            .saturating_sub(offset)
            .min(bytes)
    }

    pub(super) fn set_len(&mut self, id: FileId, bytes: u64) {
        let file = &mut self.files[id];
        file.seen.resize(index(bytes), 0);
        file.taken = file.taken.min(bytes);
        file.pending.push(Change::SetLen(bytes));
    }

    pub(super) fn sync(&mut self, id: FileId) {
        let file = &mut self.files[id];
        for change in std::mem::take(&mut file.pending) {
            change.apply(&mut file.durable);
        }
    }

    /// The bytes that a failed flush was to make durable will never be, though the handles see them. A change of
    /// length is in the file system's journal and still comes.
    pub(super) fn forget(&mut self, id: FileId) {
        self.files[id]
            .pending
            .retain(|change| matches!(change, Change::SetLen(_)));
    }

    pub(super) fn write_forgotten(&mut self, id: FileId, offset: u64, bytes: &[u8]) {
        self.files[id].write_seen(offset, bytes);
    }

    /// Makes these bytes durable, and the length, which the file system needs to find them; no other bytes.
    pub(super) fn write_durable(&mut self, id: FileId, offset: u64, bytes: &[u8]) {
        let file = &mut self.files[id];
        file.write_seen(offset, bytes);
        let range = offset..offset + bytes.len() as u64;
        let mut pending = Vec::new();
        for change in std::mem::take(&mut file.pending) {
            match change {
                Change::SetLen(length) => {
                    file.durable.resize(index(length), 0);
                    pending = pending
                        .iter()
                        .flat_map(|change: &Change| change.without(length..u64::MAX))
                        .collect();
                }
                change => pending.push(change),
            }
        }
        file.pending = pending
            .iter()
            .flat_map(|change| change.without(range.clone()))
            .collect();
        write(&mut file.durable, offset, bytes);
    }

    pub(super) fn unflushed(&self) -> usize {
        // What is never meant to be flushed tells nothing.
        let files = self.names.iter().filter(|(name, _)| *name != "WATERMARK");
        self.pending_names.len()
            + files
                .map(|(_, id)| self.files[*id].pending.len())
                .sum::<usize>()
    }

    /// What a crash leaves.
    pub(super) fn crashed(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Sometimes a crash takes all or nothing; else each change for itself.
        let mercy = [
            Mercy::All,
            Mercy::None,
            Mercy::Some,
            Mercy::Some,
            Mercy::Some,
            Mercy::Some,
        ][random.place(6)];
        let mut names = self.durable_names.clone();
        for change in &self.pending_names {
            if mercy.spares(&mut random) {
                change.apply(&mut names);
            }
        }
        let mut disk = Self::default();
        for (name, id) in names {
            let bytes = self.files[id].crashed(mercy, &mut random);
            disk.names.insert(name, disk.files.len());
            disk.files.push(Contents::durable(bytes));
        }
        disk.durable_names = disk.names.clone();
        disk
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mercy {
    All,
    None,
    Some,
}

impl Mercy {
    fn spares(self, random: &mut Random) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Some => random.one_in(2),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Self::Create { name, id } => {
                names.insert(name.clone(), *id);
            }
            Self::Rename { from, to, id } => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Contents {
    fn durable(bytes: Vec<u8>) -> Self {
        Self {
            taken: bytes.len() as u64,
            seen: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
            handles: 0,
        }
    }

    fn write_seen(&mut self, offset: u64, bytes: &[u8]) {
        write(&mut self.seen, offset, bytes);
        self.taken = self.taken.max(offset + bytes.len() as u64);
    }

    fn crashed(&self, mercy: Mercy, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match (mercy, change) {
                (Mercy::All, change) => change.apply(&mut bytes),
                (Mercy::None, _) => {}
                (Mercy::Some, Change::SetLen(_)) if random.one_in(2) => {}
                (Mercy::Some, Change::SetLen(_)) => change.apply(&mut bytes),
                (Mercy::Some, Change::Write { offset, bytes: new }) => {
                    tear(&mut bytes, *offset, new, random)
                }
            }
        }
        bytes
    }
}

/// What a write that nothing flushed leaves: nothing, all, its beginning, or some of its sectors; and of one that
/// made the file longer, the length with or without the bytes.
fn tear(bytes: &mut Vec<u8>, offset: u64, new: &[u8], random: &mut Random) {
    if random.one_in(4) {
        let end = index(offset) + new.len();
        bytes.resize(bytes.len().max(end), 0);
    }
    match random.below(4) {
        0 => {}
        1 => write(bytes, offset, new),
        2 => write(bytes, offset, &new[..random.place(new.len() + 1)]),
        _ => {
            let mut from = offset;
            let end = offset + new.len() as u64;
            while from < end {
                let to = end.min((from / SECTOR_BYTES + 1) * SECTOR_BYTES);
                if random.one_in(2) {
                    write(bytes, from, &new[index(from - offset)..index(to - offset)]);
                }
                from = to;
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes: new } => write(bytes, *offset, new),
            Self::SetLen(length) => bytes.resize(index(*length), 0),
        }
    }

    /// The parts of a write outside a range.
    fn without(&self, range: Range<u64>) -> Vec<Self> {
        let Self::Write { offset, bytes } = self else {
            return vec![self.clone()];
        };
        let (start, end) = (*offset, offset + bytes.len() as u64);
        let parts = [start..end.min(range.start), start.max(range.end)..end];
        let parts = parts.into_iter().filter(|part| part.start < part.end);
        parts
            .map(|part| {
                let bytes = bytes[index(part.start - start)..index(part.end - start)].to_vec();
                Self::Write {
                    offset: part.start,
                    bytes,
                }
            })
            .collect()
    }
}
