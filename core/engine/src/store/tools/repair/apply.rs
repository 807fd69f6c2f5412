//! Executes a [`Plan`], in the order that [`repair`](super) describes.

use super::plan::{Made, Plan, Save, Seal, SmallFile};
use crate::{
    Error, Repair, Result, SegmentId,
    format::{
        files::{self, WATERMARK_BYTES},
        index::TRAILER_BYTES,
        segment::{COPY_BYTES, DATA_START, Header},
    },
    log::segment::Segment,
    storage::{Access, Storage},
    store::{files::small, tools::examine::survey::last_nonzero},
};

/// Bytes are copied in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

impl Plan {
    /// Executes the plan, durably, step by step.
    pub(super) fn apply(self, storage: &dyn Storage, done: &mut Repair) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        for save in &self.saves {
            done.saved.extend(save.apply(storage)?);
        }
        for (file, why) in &self.asides {
            let (name, aside) = (file.name(), free_name(storage, file.first, 0)?);
            storage
                .rename(&name, &aside)
                .map_err(|error| failed(storage, error, &name))?;
            done.actions.push(match file.generation {
                0 => format!("{name}: is no segment of this log ({why}); it is kept as {aside}"),
                _ => format!("{name}: can't be used ({why}); it is kept as {aside}"),
            });
            done.saved.push(aside);
        }
        sync_dir(storage)?;
        for copies in &self.headers {
            write_copies(storage, &copies.segment, &copies.header, &copies.offsets)?;
            done.actions
                .push(format!("{}: wrote its header again", copies.segment.name));
        }
        for (segment, copies) in &self.dictionaries {
            write_dictionaries(storage, segment, copies)?;
            let action = format!("{}: wrote its dictionary again", segment.name);
            done.actions.push(action);
        }
        for segment in &self.tables {
            write_table(storage, segment)?;
            let action = format!("{}: wrote the table of its blocks again", segment.name);
            done.actions.push(action);
        }
        for segment in &self.indexes {
            write_index(storage, segment)?;
            let action = format!("{}: wrote its index again, from its records", segment.name);
            done.actions.push(action);
        }
        for made in &self.made {
            make(storage, made)?;
            let name = files::segment_name(made.header.segment);
            done.actions.push(format!(
                "{name}: made an empty one in the place of the one that is lost"
            ));
        }
        if let Some(next) = &self.next {
            make(
                storage,
                &Made {
                    header: *next,
                    data_end: 0,
                    index: Vec::new(),
                },
            )?;
            done.actions.push(format!(
                "{}: the log goes on here, with position {}",
                files::segment_name(next.segment),
                next.base_position
            ));
        }
        for seal in &self.seals {
            seal.apply(storage)?;
            let what = if seal.has_holes {
                "with a hole where records are lost"
            } else {
                "from its records"
            };
            done.actions.push(format!(
                "{}: made its index block again, {what}",
                seal.segment.name
            ));
        }
        for (segment, length) in &self.shortened {
            let file = storage
                .open(&segment.name, Access::Write)
                .map_err(|error| failed(storage, error, &segment.name))?;
            file.set_len(*length)
                .and_then(|()| file.sync())
                .map_err(|error| failed(storage, error, &segment.name))?;
            done.actions.push(format!(
                "{}: cut off what lies behind the length that a segment can have",
                segment.name
            ));
        }
        self.small_files(storage, done)
    }

    fn small_files(self, storage: &dyn Storage, done: &mut Repair) -> Result<()> {
        if self.removes_checkpoint || !matches!(self.end, SmallFile::Stays) {
            for segment in &self.unproven {
                prove_index(storage, segment)?;
            }
        }
        match self.end {
            SmallFile::Stays => {}
            SmallFile::Removed => {
                if remove(storage, files::END)? {
                    done.actions.push(format!(
                        "{}: removed; the next close writes it again",
                        files::END
                    ));
                }
            }
            SmallFile::Replaced(end) => small::replace(storage, files::END, &end.encode())?,
        }
        if self.removes_checkpoint && remove(storage, files::CHECKPOINT)? {
            done.actions.push(format!(
                "{}: removed; it is made again by itself",
                files::CHECKPOINT
            ));
        }
        if self.clears_watermark {
            clear_watermark(storage)?;
        }
        if let Some(identity) = self.identity {
            small::replace(storage, files::IDENTITY, &identity.encode())?;
            done.actions.push(format!(
                "{}: made it again from the segments",
                files::IDENTITY
            ));
        }
        Ok(())
    }
}

fn failed(storage: &dyn Storage, error: std::io::Error, name: &str) -> Error {
    Error::from_io(error, format!("{}: repairing {name}", storage.describe()))
}

/// Writes an index block once more that a repair made. If that failed or was killed, the block may never have got to the device:
/// until the power is lost it is read back as if it was there, and a flush that failed once isn't done again for what it
/// concerned. What the block was made from may only go once it is durable.
fn prove_index(storage: &dyn Storage, segment: &Segment) -> Result<()> {
    let Some(trailer) = segment.trailer() else {
        return Ok(());
    };
    let from = trailer.data_end;
    let bytes = segment.bytes_at(from, segment.file_bytes()?.saturating_sub(from))?;
    storage
        .open(&segment.name, Access::Write)
        .and_then(|file| file.write_at(from, &bytes).and_then(|()| file.sync()))
        .map_err(|error| failed(storage, error, &segment.name))
}

fn sync_dir(storage: &dyn Storage) -> Result<()> {
    storage
        .sync_dir()
        .map_err(|error| failed(storage, error, "the folder"))
}

/// Removes a file durably; whether it was there.
fn remove(storage: &dyn Storage, name: &str) -> Result<bool> {
    match storage.remove(name) {
        Ok(()) => sync_dir(storage).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            sync_dir(storage).map(|()| false)
        }
        Err(error) => Err(failed(storage, error, name)),
    }
}

/// Clears the watermark.
fn clear_watermark(storage: &dyn Storage) -> Result<()> {
    let zeros = [0; WATERMARK_BYTES];
    match storage.open(files::WATERMARK, Access::Write) {
        Ok(file) => {
            let done = file.write_at(0, &zeros).and_then(|()| file.sync());
            done.map_err(|error| failed(storage, error, files::WATERMARK))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(storage, error, files::WATERMARK)),
    }
}

/// A name for bytes of a segment from an offset on that no file has.
fn free_name(storage: &dyn Storage, segment: SegmentId, offset: u64) -> Result<String> {
    let names = storage
        .list()
        .map_err(|error| failed(storage, error, "the folder"))?;
    let first = format!("cut-{:08}-{offset}.bin", segment.0);
    let others = (2_u64..).map(|nth| format!("cut-{:08}-{offset}-{nth}.bin", segment.0));
    let free = std::iter::once(first)
        .chain(others)
        .find(|name| !names.contains(name));
    Ok(free.unwrap_or_default())
}

impl Save {
    /// Saves the bytes, without the zeros at their end, unless they are saved already. The name of the file.
    fn apply(&self, storage: &dyn Storage) -> Result<Option<String>> {
        let segment = &self.segment;
        let length = segment
            .file
            .len()
            .map_err(|error| failed(storage, error, &segment.name))?;
        let (from, to) = (self.from, self.to.min(length));
        let to = if from < to {
            last_nonzero(&**segment, from, to)?
        } else {
            from
        };
        if to <= from {
            return Ok(None);
        }
        let usual = format!("cut-{:08}-{from}.bin", segment.id().0);
        if self.is_saved(storage, &usual, to)? {
            return Ok(Some(usual));
        }
        let name = free_name(storage, segment.id(), from)?;
        let unfinished = format!("{name}{}", files::UNFINISHED);
        let file = storage
            .create(&unfinished)
            .map_err(|error| failed(storage, error, &name))?;
        let mut at = from;
        while at < to {
            let bytes = segment.bytes_at(at, PIECE_BYTES.min(to - at))?;
            file.write_at(at - from, &bytes)
                .map_err(|error| failed(storage, error, &name))?;
            at += bytes.len() as u64;
        }
        let named = file
            .sync()
            .and_then(|()| storage.rename(&unfinished, &name))
            .and_then(|()| storage.sync_dir());
        named.map_err(|error| failed(storage, error, &name))?;
        Ok(Some(name))
    }

    /// Whether a repair that was cut off has saved them.
    fn is_saved(&self, storage: &dyn Storage, name: &str, to: u64) -> Result<bool> {
        let file = match storage.open(name, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(storage, error, name)),
        };
        let length = file.len().map_err(|error| failed(storage, error, name))?;
        if length != to - self.from {
            return Ok(false);
        }
        let mut at = self.from;
        while at < to {
            let bytes = self.segment.bytes_at(at, PIECE_BYTES.min(to - at))?;
            let mut saved = vec![0; bytes.len()];
            file.read_at(at - self.from, &mut saved)
                .map_err(|error| failed(storage, error, name))?;
            if saved != bytes {
                return Ok(false);
            }
            at += bytes.len() as u64;
        }
        // Its name may not be durable yet.
        sync_dir(storage).map(|()| true)
    }
}

/// Writes copies of a header, each durable before the next.
fn write_copies(
    storage: &dyn Storage,
    segment: &Segment,
    header: &Header,
    offsets: &[usize],
) -> Result<()> {
    let failed = |error| failed(storage, error, &segment.name);
    let file = storage.open(&segment.name, Access::Write).map_err(failed)?;
    let copy: [u8; COPY_BYTES] = header.encode();
    for offset in offsets {
        file.write_at(*offset as u64, &copy)
            .and_then(|()| file.sync())
            .map_err(failed)?;
    }
    if file.len().map_err(failed)? < DATA_START {
        file.set_len(DATA_START)
            .and_then(|()| file.sync())
            .map_err(failed)?;
    }
    Ok(())
}

/// Writes copies of the dictionary of a pack again, each durable before the next.
fn write_dictionaries(storage: &dyn Storage, segment: &Segment, copies: &[usize]) -> Result<()> {
    let failed = |error| failed(storage, error, &segment.name);
    let Some(image) = segment.image() else {
        return Ok(());
    };
    let file = storage.open(&segment.name, Access::Write).map_err(failed)?;
    for copy in copies {
        let (offset, bytes) = image.made_dictionary(*copy)?;
        file.write_at(offset, &bytes)
            .and_then(|()| file.sync())
            .map_err(failed)?;
    }
    Ok(())
}

/// Writes the table of the blocks of a pack again, and the footer.
fn write_table(storage: &dyn Storage, segment: &Segment) -> Result<()> {
    let failed = |error| failed(storage, error, &segment.name);
    let Some(table) = segment.image().and_then(|image| image.damaged_table()) else {
        return Ok(());
    };
    let file = storage.open(&segment.name, Access::Write).map_err(failed)?;
    file.write_at(table.offset, &table.bytes)
        .and_then(|()| file.sync())
        .map_err(failed)
}

/// Writes the blocks of a pack's index that were made again.
fn write_index(storage: &dyn Storage, segment: &Segment) -> Result<()> {
    let failed = |error| failed(storage, error, &segment.name);
    let file = storage.open(&segment.name, Access::Write).map_err(failed)?;
    for made in segment.image().into_iter().flat_map(|image| image.made()) {
        file.write_at(made.offset, &made.bytes).map_err(failed)?;
    }
    file.sync().map_err(failed)
}

/// Makes a segment, under its name once it is durable.
fn make(storage: &dyn Storage, made: &Made) -> Result<()> {
    let name = files::segment_name(made.header.segment);
    let unfinished = format!("{name}{}", files::UNFINISHED);
    let write = || {
        let file = storage.create(&unfinished)?;
        file.write_at(0, &made.header.encode_both())?;
        if !made.index.is_empty() {
            file.write_at(made.data_end, &made.index)?;
        }
        file.sync()?;
        storage.rename(&unfinished, &name)?;
        storage.sync_dir()
    };
    write().map_err(|error| failed(storage, error, &name))
}

impl Seal {
    /// Writes the index block behind the records: without its trailer first, so that there is none over half of a block.
    fn apply(&self, storage: &dyn Storage) -> Result<()> {
        let name = &self.segment.name;
        let failed = |error| failed(storage, error, name);
        let file = storage.open(name, Access::Write).map_err(failed)?;
        let (block, trailer) = self
            .index
            .split_at(self.index.len().saturating_sub(TRAILER_BYTES));
        let (block_end, end) = (
            self.data_end + block.len() as u64,
            self.data_end + self.index.len() as u64,
        );
        if self.segment.trailer().is_some() {
            let length = file.len().map_err(failed)?;
            let old = length
                .saturating_sub(TRAILER_BYTES as u64)
                .max(self.data_end);
            file.write_at(old, &[0; TRAILER_BYTES])
                .and_then(|()| file.sync())
                .map_err(failed)?;
        }
        file.write_at(self.data_end, block).map_err(failed)?;
        file.write_at(block_end, &[0; TRAILER_BYTES])
            .map_err(failed)?;
        file.set_len(end)
            .and_then(|()| file.sync())
            .map_err(failed)?;
        file.write_at(block_end, trailer)
            .and_then(|()| file.sync())
            .map_err(failed)?;
        let sealed = Segment::open(
            storage,
            self.header.segment,
            Access::Read,
            &self.header.store,
        )?;
        match sealed.trailer() {
            Some(_) => Ok(()),
            None => Err(sealed.damaged(
                self.data_end,
                "the index block just written does not read back",
            )),
        }
    }
}
