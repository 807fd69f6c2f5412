//! Bytes and values: the only encoder and decoder of each layout. Pure: no I/O, no clock.
//!
//! `docs/format-v1.md` is the normative text; a change here changes it too.

use crate::{Error, ErrorKind, Result, checksum};

pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod segment;

/// The version of the format that this build writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// The version of this build, as it is written beside what it writes: people can then tell which files a faulty build
/// wrote. It decides nothing.
pub(crate) const WRITER_VERSION: u32 = {
    version_number(env!("CARGO_PKG_VERSION_MAJOR")) << 24
        | version_number(env!("CARGO_PKG_VERSION_MINOR")) << 16
        | version_number(env!("CARGO_PKG_VERSION_PATCH"))
};

const fn version_number(text: &str) -> u32 {
    let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0') as u32;
        at += 1;
    }
    value
}

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

/// Sets of feature bits. What this build doesn't know of them decides what it may do with the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Features {
    /// One that is unknown means: don't read.
    pub(crate) incompatible: u64,
    /// One that is unknown means: read, but don't write.
    pub(crate) read_only_compatible: u64,
    /// One that is unknown means nothing.
    pub(crate) compatible: u64,
}

impl Features {
    fn encode_into(&self, bytes: &mut Vec<u8>) {
        for set in [
            self.incompatible,
            self.read_only_compatible,
            self.compatible,
        ] {
            bytes.extend_from_slice(&set.to_le_bytes());
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Self {
        Self {
            incompatible: fields.u64(),
            read_only_compatible: fields.u64(),
            compatible: fields.u64(),
        }
    }

    /// An error that names the first incompatible bit. This build knows none.
    pub(crate) fn check_readable(&self, name: &str) -> Result<()> {
        match self.incompatible {
            0 => Ok(()),
            bits => Err(newer(
                name,
                &format!("incompatible feature bit {}", bits.trailing_zeros()),
            )),
        }
    }

    /// An error that names the first bit for which this build must not write. It knows none.
    pub(crate) fn check_writable(&self, name: &str) -> Result<()> {
        self.check_readable(name)?;
        match self.read_only_compatible {
            0 => Ok(()),
            bits => Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "{name}: read-only compatible feature bit {}, which this build doesn't know: it can read the store, \
                     but not write to it; use a newer build, or open it for reading only",
                    bits.trailing_zeros()
                ),
            )),
        }
    }
}

/// The error for what checks but was written by a build that knows more than this one.
pub(crate) fn newer(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::UnsupportedVersion,
        format!(
            "{name}: {what}, which this build doesn't know; it was written by a newer one: use that"
        ),
    )
}

/// Fills `bytes` up with zeros, and ends them in their CRC.
pub(crate) fn finish<const N: usize>(mut bytes: Vec<u8>) -> [u8; N] {
    debug_assert!(bytes.len() <= N - 4, "the fields fit");
    bytes.resize(N - 4, 0);
    let crc = checksum::crc(&bytes);
    let mut finished = [0; N];
    finished[..N - 4].copy_from_slice(&bytes);
    finished[N - 4..].copy_from_slice(&crc.to_le_bytes());
    finished
}

/// Checks what every structure of a fixed size begins and ends with: magic, CRC, then version. In this order, because only
/// what checks can say that it is of a version this build doesn't know.
pub(crate) fn checked<const N: usize>(bytes: &[u8; N], magic: &[u8; 8], name: &str) -> Result<()> {
    let damaged = |what: String| Err(Error::new(ErrorKind::Damaged, format!("{name}: {what}")));
    if bytes[..8] != *magic {
        return damaged(format!(
            "expected the magic {magic:02x?}, found {:02x?}",
            &bytes[..8]
        ));
    }
    let (expected, found) = (
        checksum::crc(&bytes[..N - 4]),
        Fields::new(&bytes[N - 4..]).u32(),
    );
    if expected != found {
        return damaged(format!("its CRC is {found:08x}, expected {expected:08x}"));
    }
    let version = Fields::new(&bytes[8..]).u32();
    if version != VERSION {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "{name}: format version {version}, but this build reads version {VERSION} only; use a build that knows it"
            ),
        ));
    }
    Ok(())
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
