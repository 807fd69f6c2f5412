//! [`Label`]: the key of the index by which records are found.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// An index key of records, independent of their stream: a 64-bit hash of a name and a value.
///
/// A record has up to [`LABELS_MAX`](crate::limits::LABELS_MAX) of them, given when it is appended
/// ([`NewRecord::labels`](crate::NewRecord::labels)), and [`Backend::find`](crate::Backend::find) returns the records
/// that have one. Hashes may collide, if rarely, so a caller that searches for a value compares it in the records
/// found. Labels are an index only: they are not part of a record as read, so a caller that copies records to another
/// log computes them again from the records' contents.
///
/// ```
/// use runlog_log::Label;
///
/// assert_eq!(Label::of("message", "m-17"), Label::of("message", "m-17"));
/// assert_ne!(Label::of("message", "m-17"), Label::of("run", "m-17"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label(pub u64);

impl Label {
    /// The label of a value under a name. The function never changes, because labels are stored in files.
    ///
    /// It is SipHash-2-4, with a key of 16 zero bytes, of the name's length as 4 bytes (little-endian), the name, and the value.
    pub fn of(name: &str, value: impl AsRef<[u8]>) -> Self {
        let mut hasher = SipHasher24::new_with_keys(0, 0);
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        hasher.write(&length.to_le_bytes());
        hasher.write(name.as_bytes());
        hasher.write(value.as_ref());
        Self(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_of_a_name_and_a_value_never_changes() {
        assert_eq!(Label::of("", ""), Label(8_932_149_140_933_809_816));
        assert_eq!(
            Label::of("message", "m-17"),
            Label(16_570_342_423_924_031_011)
        );
        assert_ne!(Label::of("ab", "c"), Label::of("a", "bc"));
    }
}
