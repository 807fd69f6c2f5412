//! The index blocks of sealed segments: read and checked on first use, then cached.

use std::sync::OnceLock;

use bytes::Bytes;

use super::segment::{Indexed, LabelSlot, Segment};
use crate::{
    Error, Label, Result,
    bounded::Bounded,
    format::index::{
        Block, InPlace, LabelIndex, LabelPostings, ReadAt, StreamRow, TRAILER_BYTES, Table,
        Trailer, check_section,
    },
    storage::Map,
    sync::Arc,
};

/// The size of the process-wide cache of index blocks; others are read and checked again on use. A block is copied from
/// the file, because lookups rely on bytes that were checked once.
const BLOCK_BYTES_MAX: usize = 128 << 20;
/// The size of the cache of their labels.
const LABEL_BYTES_MAX: usize = 64 << 20;

/// The readahead for a block that may have labels, before the offset of the labels is known.
const AHEAD_BYTES: u64 = 1 << 20;

/// The readahead for the stream rows of a pack, whose number isn't known before its table is read.
const ROWS_AHEAD_BYTES: u64 = 64 << 10;

pub(super) static BLOCKS: Bounded<Block> = Bounded::new(BLOCK_BYTES_MAX);
pub(super) static LABELS: Bounded<LabelIndex> = Bounded::new(LABEL_BYTES_MAX);

impl Segment {
    /// The index block of a sealed segment, without its labels.
    pub(crate) fn block(&self) -> Result<Option<Arc<Block>>> {
        let Some(sealed) = &self.sealed else {
            return Ok(None);
        };
        #[cfg(test)]
        BLOCK_LOOKS.set(BLOCK_LOOKS.get() + 1);
        let slot = match &sealed.block {
            Indexed::Made(block) => return Ok(Some(block.clone())),
            Indexed::Unreadable(why) => return Err(unreadable(why)),
            Indexed::InFile(slot, _) => slot,
        };
        let block = BLOCKS.get(slot, || {
            let block = self.read_block(sealed.trailer)?;
            let weight = block.weight();
            Ok::<_, Error>((block, weight))
        })?;
        Ok(Some(block))
    }

    /// Prefetches the index block, without its labels; of a pack, the rows and postings of streams, and its dictionary. Advice
    /// only.
    pub(crate) fn will_need_block(&self) {
        let Some(sealed) = &self.sealed else { return };
        let Indexed::InFile(slot, _) = &sealed.block else {
            return;
        };
        if slot.is_loaded() {
            return;
        }
        let trailer = &sealed.trailer;
        let (start, table) = (trailer.data_end, trailer.table_offset());
        if let Some(image) = self.image() {
            // The first read of rows finds the table, and so whether these were prefetched before.
            if sealed.rows.get().is_none() {
                let postings = u64::from(trailer.records) * 4 + ROWS_AHEAD_BYTES;
                self.file.will_read(start, postings.min(table - start));
                self.file.will_read(table, TRAILER_BYTES as u64);
                image.will_need_dictionary();
            }
        } else if trailer.may_have_labels() {
            self.file.will_read(start, (table - start).min(AHEAD_BYTES));
            self.file.will_read(table, TRAILER_BYTES as u64);
        } else {
            self.file.will_read(start, trailer.block_bytes());
        }
    }

    fn read_block(&self, trailer: Trailer) -> Result<Block> {
        if !trailer.may_have_labels() {
            return self.read_whole_block(trailer);
        }
        let (table, bytes) = self.read_table(&trailer)?;
        let length = table.labels_offset(&trailer) - trailer.data_end;
        self.file.will_read(trailer.data_end, length);
        let rest = self.bytes_at(trailer.data_end, length)?;
        Block::check_without_labels(rest, &table, bytes, trailer, self.seed, &self.name)
    }

    fn read_whole_block(&self, trailer: Trailer) -> Result<Block> {
        let length = trailer.block_bytes() - TRAILER_BYTES as u64;
        self.file.will_read(trailer.data_end, length);
        let bytes = self.bytes_at(trailer.data_end, length)?;
        Block::check(bytes, trailer, self.seed, &self.name)
    }

    /// The index block with its labels, which is not kept.
    pub(crate) fn whole_block(&self) -> Result<Option<Arc<Block>>> {
        match &self.sealed {
            None => Ok(None),
            Some(sealed) => match &sealed.block {
                Indexed::Made(block) => Ok(Some(block.clone())),
                Indexed::Unreadable(why) => Err(unreadable(why)),
                Indexed::InFile(..) => self
                    .read_whole_block(sealed.trailer)
                    .map(|block| Some(Arc::new(block))),
            },
        }
    }

    /// The table of sections, and its bytes.
    pub(super) fn read_table(&self, trailer: &Trailer) -> Result<(Table, Bytes)> {
        let start = trailer.table_offset();
        let end = trailer.data_end + trailer.index_bytes;
        let bytes = self.bytes_at(start, end - start)?;
        let table = Table::decode(&bytes, trailer, self.seed, &self.name)?;
        Ok((table, bytes))
    }

    /// What a search by label looks into; `None` for a segment that isn't sealed or has no labels.
    ///
    /// The labels of a segment are kept in memory as long as the cache has room for them. Beyond that, single rows are read:
    /// labels that evict each other would have to be read again, as a whole, for each search.
    pub(crate) fn label_lookup(self: &Arc<Self>) -> Result<Option<LabelLookup>> {
        let Some(sealed) = &self.sealed else {
            return Ok(None);
        };
        let slot = match &sealed.block {
            Indexed::Made(block) => {
                let block = block.labels().is_some().then(|| block.clone());
                return Ok(block.map(LabelLookup::Made));
            }
            Indexed::Unreadable(why) => return Err(unreadable(why)),
            Indexed::InFile(_, slot) => slot,
        };
        if !sealed.trailer.may_have_labels() {
            return Ok(None);
        }
        let weight = usize::try_from(sealed.trailer.index_bytes).unwrap_or(usize::MAX);
        if !slot.kept.is_loaded() && !has_room(weight) {
            return self.lookup_in_place(sealed.trailer, slot);
        }
        let labels = LABELS.get(&slot.kept, || {
            let (table, _) = self.read_table(&sealed.trailer)?;
            let start = table.labels_offset(&sealed.trailer);
            let length = sealed.trailer.table_offset() - start;
            let bytes = self.bytes_at(start, length)?;
            let labels = LabelIndex::of(&table, &bytes, start, self.seed, &self.name)?;
            let weight = labels.weight();
            Ok::<_, Error>((labels, weight))
        })?;
        Ok(Some(LabelLookup::Kept(
            self.clone(),
            labels,
            OnceLock::new(),
        )))
    }

    fn lookup_in_place(
        self: &Arc<Self>,
        trailer: Trailer,
        slot: &LabelSlot,
    ) -> Result<Option<LabelLookup>> {
        let rows = match slot.in_place.get() {
            Some(rows) => rows,
            None => {
                let (table, _) = self.read_table(&trailer)?;
                let Some(rows) = InPlace::of(&table) else {
                    return Ok(None);
                };
                slot.in_place.get_or_init(|| Arc::new(rows))
            }
        };
        if let Some((section, range)) = rows.filter_to_check() {
            let bytes = self.bytes_at(range.start, range.end - range.start)?;
            check_section(section, &bytes, self.seed, &self.name)?;
            rows.filter_is_right();
        }
        Ok(Some(LabelLookup::InPlace {
            map: self.map(),
            segment: self.clone(),
            rows: rows.clone(),
        }))
    }
}

fn has_room(weight: usize) -> bool {
    #[cfg(test)]
    if IN_PLACE.get() {
        return false;
    }
    LABELS.has_room(weight)
}

fn unreadable(why: &str) -> Error {
    Error::damaged(why.to_owned())
}

/// The labels of a sealed segment, and the records that they name.
pub(crate) enum LabelLookup {
    /// In memory, and so is the index block from when a label is found on.
    Kept(Arc<Segment>, Arc<LabelIndex>, OnceLock<Arc<Block>>),
    /// Of a block that isn't in the file.
    Made(Arc<Block>),
    /// In the file, of which single rows are read: copied out of the map, if there is one.
    InPlace {
        segment: Arc<Segment>,
        rows: Arc<InPlace>,
        map: Option<Arc<dyn Map>>,
    },
}

impl LabelLookup {
    /// The postings of a label, by rising position.
    pub(crate) fn find(&self, label: Label) -> Result<LabelPostings> {
        match self {
            Self::Kept(_, labels, _) => Ok(labels.find(label)),
            Self::Made(block) => Ok(block
                .labels()
                .map_or_else(LabelPostings::none, |labels| labels.find(label))),
            Self::InPlace { segment, rows, .. } => {
                if !self.read(|read| rows.may_have(label, read))? {
                    return Ok(LabelPostings::none());
                }
                if rows.is_to_check() {
                    // Checks every section; what is looked up from now on was right once.
                    segment.whole_block()?;
                    rows.all_is_right();
                }
                self.read(|read| rows.find(label, read))
            }
        }
    }

    /// The offset of the record at a place among the postings.
    pub(crate) fn offset_at(&self, place: u32) -> Result<Option<u64>> {
        match self {
            Self::InPlace { rows, .. } => self.read(|read| rows.streams.offset_at(place, read)),
            _ => Ok(self.block()?.and_then(|block| block.offset_at(place))),
        }
    }

    /// The stream and the ordinal of the record at a place among the postings.
    pub(crate) fn ordinal_at(&self, place: u32) -> Result<Option<(u32, u32)>> {
        match self {
            Self::InPlace { rows, .. } => self.read(|read| rows.streams.ordinal_at(place, read)),
            _ => Ok(self.block()?.and_then(|block| block.ordinal_at(place))),
        }
    }

    /// The row of a stream, if the segment holds data of it.
    pub(crate) fn find_stream(&self, stream: u32) -> Result<Option<StreamRow>> {
        match self {
            Self::InPlace { rows, .. } => self.read(|read| rows.streams.find_stream(stream, read)),
            _ => Ok(self.block()?.and_then(|block| block.find_stream(stream))),
        }
    }

    fn block(&self) -> Result<Option<&Arc<Block>>> {
        match self {
            Self::Kept(segment, _, block) => {
                if block.get().is_none()
                    && let Some(read) = segment.block()?
                {
                    return Ok(Some(block.get_or_init(|| read)));
                }
                Ok(block.get())
            }
            Self::Made(block) => Ok(Some(block)),
            Self::InPlace { .. } => Ok(None),
        }
    }

    fn read<T>(&self, look: impl FnOnce(&ReadAt<'_>) -> Result<T>) -> Result<T> {
        let Self::InPlace { segment, map, .. } = self else {
            return Err(Error::damaged("no rows are read in place"));
        };
        look(&|offset, bytes| {
            if map.as_ref().is_some_and(|map| map.copy(offset, bytes)) {
                return Ok(());
            }
            bytes.copy_from_slice(&segment.bytes_at(offset, bytes.len() as u64)?);
            Ok(())
        })
    }
}

#[cfg(test)]
thread_local! {
    /// How often an index block was looked into.
    pub(crate) static BLOCK_LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// Whether labels are looked up as if the cache had no room.
    pub(crate) static IN_PLACE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
