//! Bytes and values: the only encoder and decoder of each layout. Pure: no I/O, no clock.
//!
//! `docs/format-v1.md` is the normative text; a change here changes it too.

use bytes::BufMut;

use crate::{Error, ErrorKind, Result, SegmentId, checksum};

/// Appends values, one after the other.
macro_rules! put {
    ($bytes:expr, $($value:expr),* $(,)?) => {{
        $($crate::format::Field::put(&$value, $bytes);)*
    }};
}

/// Declares a struct together with its encoder and decoder: its fields stand in the bytes one after the other, in the order
/// they are declared in. `as units` stores an offset in units of the alignment, in 4 bytes.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub(crate) struct $name:ident {
            $($(#[$doc:meta])* pub(crate) $field:ident: $type:ty $(as $coding:ident)?,)*
        }
    ) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: $type,)*
        }

        impl $crate::format::Field for $name {
            fn put(&self, bytes: &mut impl bytes::BufMut) {
                $(layout!(@put self.$field, bytes $(, $coding)?);)*
            }

            fn get(fields: &mut $crate::format::Fields<'_>) -> Self {
                Self { $($field: layout!(@get fields $(, $coding)?),)* }
            }
        }
    };
    (@put $value:expr, $bytes:expr) => { $crate::format::Field::put(&$value, $bytes) };
    (@put $value:expr, $bytes:expr, units) => {
        $crate::format::Field::put(&$crate::format::offset_to_units($value), $bytes)
    };
    (@get $fields:expr) => { $fields.get() };
    (@get $fields:expr, units) => { $crate::format::units_to_offset($fields.get()) };
}

pub(crate) mod extension;
pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod pack;
pub(crate) mod receipt;
pub(crate) mod record;
pub(crate) mod segment;

/// The version of the format that this build writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// The version of this build, recorded in the files it writes, so that files of a faulty build can be found. No
/// decision depends on it.
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

/// Everything in a segment starts at a multiple of this.
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

layout! {
    /// Sets of feature bits. A bit that this build doesn't know limits what it may do with the file.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct Features {
        /// One that is unknown means: don't read.
        pub(crate) incompatible: u64,
        /// One that is unknown means: read, but don't write.
        pub(crate) read_only_compatible: u64,
        /// One that is unknown means nothing.
        pub(crate) compatible: u64,
    }
}

impl Features {
    /// Labels: a read-only compatible feature, because a writer that doesn't know them would seal segments without an
    /// index of them.
    pub(crate) const LABELS: u64 = 1;
    /// A dictionary, in the header of a pack: an incompatible feature.
    pub(crate) const DICTIONARY: u64 = 1 << 4;

    /// An error that names the first incompatible bit. This build knows none but in the header of a pack.
    pub(crate) fn check_readable(&self, name: &str) -> Result<()> {
        Self::check_incompatible(self.incompatible, name)
    }

    /// As [`check_readable`](Self::check_readable), for the header of a pack.
    pub(crate) fn check_readable_in_pack(&self, name: &str) -> Result<()> {
        Self::check_incompatible(self.incompatible & !Self::DICTIONARY, name)
    }

    fn check_incompatible(unknown: u64, name: &str) -> Result<()> {
        match unknown {
            0 => Ok(()),
            bits => Err(newer(
                name,
                &format!("incompatible feature bit {}", bits.trailing_zeros()),
            )),
        }
    }

    /// An error that names the first read-only compatible bit that this build doesn't know.
    pub(crate) fn check_writable(&self, name: &str) -> Result<()> {
        match self.read_only_compatible & !Self::LABELS {
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

/// The error for bytes whose CRC is right but which a newer build wrote.
pub(crate) fn newer(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::UnsupportedVersion,
        format!(
            "{name}: {what}, which this build doesn't know; it was written by a newer one: use that"
        ),
    )
}

/// Bytes of a fixed size: what `write` writes, zeros, and a CRC of both at the end.
pub(crate) fn fixed<const N: usize>(write: impl FnOnce(&mut &mut [u8])) -> [u8; N] {
    let mut bytes = [0; N];
    write(&mut &mut bytes[..N - 4]);
    let crc = checksum::crc(&bytes[..N - 4]);
    bytes[N - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks what every structure of a fixed size begins and ends with: magic, CRC, then version. In this order, because a
/// version field can be trusted only once the CRC is right.
pub(crate) fn checked<const N: usize>(bytes: &[u8; N], magic: &[u8; 8], name: &str) -> Result<()> {
    let damaged = |what: String| Err(Error::damaged(format!("{name}: {what}")));
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

    pub(crate) fn get<T: Field>(&mut self) -> T {
        T::get(self)
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.get()
    }
}

/// What has a fixed width in the bytes; numbers are little-endian.
pub(crate) trait Field: Sized {
    fn put(&self, bytes: &mut impl BufMut);

    fn get(fields: &mut Fields<'_>) -> Self;
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, bytes: &mut impl BufMut) {
        bytes.put_slice(self);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        fields.take()
    }
}

macro_rules! fields {
    ($($type:ty: |$value:ident| $put:expr, |$raw:ident: $stored:ty| $get:expr;)*) => {$(
        impl Field for $type {
            fn put(&self, bytes: &mut impl BufMut) {
                let $value = self;
                bytes.put_slice(&$put);
            }

            fn get(fields: &mut Fields<'_>) -> Self {
                let $raw: $stored = fields.take();
                $get
            }
        }
    )*};
}

fields! {
    u8: |value| [*value], |raw: [u8; 1]| raw[0];
    u16: |value| value.to_le_bytes(), |raw: [u8; 2]| Self::from_le_bytes(raw);
    u32: |value| value.to_le_bytes(), |raw: [u8; 4]| Self::from_le_bytes(raw);
    u64: |value| value.to_le_bytes(), |raw: [u8; 8]| Self::from_le_bytes(raw);
    SegmentId: |value| value.0.to_le_bytes(), |raw: [u8; 4]| Self(u32::from_le_bytes(raw));
}
