//! Bytes and values: the only encoder and decoder of each layout. Pure: no I/O, no clock.
//!
//! `docs/format-v1.md` is the normative text; a change here changes it too.

pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod segment;

/// The version of the format that this build writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// Everything in a segment starts at a multiple of so many bytes.
pub(crate) const ALIGNMENT: usize = 8;

/// `length` rounded up to the alignment.
pub(crate) const fn aligned(length: usize) -> usize {
    (length + ALIGNMENT - 1) & !(ALIGNMENT - 1)
}

/// `offset` in units of the alignment, as it is stored in 4 bytes. Segments are at most 1 GiB.
pub(crate) fn offset_to_units(offset: u64) -> u32 {
    debug_assert!(offset.is_multiple_of(ALIGNMENT as u64));
    u32::try_from(offset / ALIGNMENT as u64).expect("a segment is smaller than 32 GiB")
}

/// The offset that is stored as `units`.
pub(crate) const fn units_to_offset(units: u32) -> u64 {
    units as u64 * ALIGNMENT as u64
}

/// Reads fixed-width little-endian fields out of bytes whose length was checked before.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }
}
