//! [`Label`]: what records are found by.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// What a record may be found by, beside its stream: a 64-bit number that stands for a name and a value.
///
/// A record has up to [`LABELS_MAX`](crate::limits::LABELS_MAX) of them, given when it is appended
/// ([`NewRecord::labels`](crate::NewRecord::labels)), and [`Backend::find`](crate::Backend::find) gives the records that have
/// one. Two names and values may have one number, though hardly ever do: whoever looks for a value compares it in the records
/// that are found. Labels are an index and nothing else: they are not part of what is read, so whoever copies records to
/// another log gives them again, from what the records hold.
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
    /// The label of a value under a name. It never changes: it is in files.
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
