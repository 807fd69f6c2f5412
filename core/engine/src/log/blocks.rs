//! The index blocks of sealed segments: read and checked on first use, then cached.

use bytes::Bytes;

use super::segment::{Indexed, Segment};
use crate::{
    Error, ErrorKind, Result,
    bounded::Bounded,
    format::index::{Block, LabelIndex, TRAILER_BYTES, Table, Trailer},
    sync::Arc,
};

/// The size of the process-wide cache of index blocks; others are read and checked again on use. A block is copied from
/// the file, because lookups rely on bytes that were checked once.
const BLOCK_BYTES_MAX: usize = 128 << 20;
/// The size of the cache of their labels.
const LABEL_BYTES_MAX: usize = 64 << 20;

/// The readahead for a block that may have labels, before the offset of the labels is known.
const AHEAD_BYTES: u64 = 1 << 20;

static BLOCKS: Bounded<Block> = Bounded::new(BLOCK_BYTES_MAX);
static LABELS: Bounded<LabelIndex> = Bounded::new(LABEL_BYTES_MAX);

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

    /// Prefetches the index block, without its labels. Advice only.
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
        if trailer.may_have_labels() {
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
    fn read_table(&self, trailer: &Trailer) -> Result<(Table, Bytes)> {
        let start = trailer.table_offset();
        let end = trailer.data_end + trailer.index_bytes;
        let bytes = self.bytes_at(start, end - start)?;
        let table = Table::decode(&bytes, trailer, self.seed, &self.name)?;
        Ok((table, bytes))
    }

    /// The labels of a sealed segment, and its index block, in which they name records; `None` for a segment that isn't sealed or has
    /// no labels.
    pub(crate) fn labels(&self) -> Result<Option<Labels>> {
        let Some(sealed) = &self.sealed else {
            return Ok(None);
        };
        let slot = match &sealed.block {
            Indexed::Made(block) => {
                return Ok(block
                    .labels()
                    .is_some()
                    .then(|| Labels::Made(block.clone())));
            }
            Indexed::Unreadable(why) => return Err(unreadable(why)),
            Indexed::InFile(_, slot) => slot,
        };
        if !sealed.trailer.may_have_labels() {
            return Ok(None);
        }
        let labels = LABELS.get(slot, || {
            let (table, _) = self.read_table(&sealed.trailer)?;
            let start = table.labels_offset(&sealed.trailer);
            let length = sealed.trailer.table_offset() - start;
            let bytes = self.bytes_at(start, length)?;
            let labels = LabelIndex::of(&table, &bytes, start, self.seed, &self.name)?;
            let weight = labels.weight();
            Ok::<_, Error>((labels, weight))
        })?;
        Ok(Some(Labels::Read(labels)))
    }
}

fn unreadable(why: &str) -> Error {
    Error::new(ErrorKind::Damaged, why.to_owned())
}

/// The labels of a segment, pinned in the cache.
pub(crate) enum Labels {
    Read(Arc<LabelIndex>),
    Made(Arc<Block>),
}

impl Labels {
    /// The labels; none of a block without.
    pub(crate) fn index(&self) -> Option<&LabelIndex> {
        match self {
            Self::Read(labels) => Some(labels),
            Self::Made(block) => block.labels(),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How often an index block was looked into.
    pub(crate) static BLOCK_LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
