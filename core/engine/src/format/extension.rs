//! Extension fields, which precede the other parts of a body. The only one so far holds the labels.

use crate::{Label, limits};

/// The length of all fields, before them.
const LENGTH_BYTES: usize = 2;
/// Type, flags and length of a field.
const FIELD_BYTES: usize = 4;
/// The most bytes that the fields of a record take together.
const FIELDS_BYTES_MAX: usize = 4096;
/// The most bytes that precede the other parts.
pub(crate) const EXTENSION_BYTES_MAX: usize = LENGTH_BYTES + FIELDS_BYTES_MAX;
/// The type of the field that has the labels.
const LABELS: u8 = 1;
/// The flag of a field that must be understood.
const CRITICAL: u8 = 1;

/// The labels of a record as they are written: ascending and distinct.
#[derive(Clone, Copy)]
pub(crate) struct LabelSet {
    labels: [Label; limits::LABELS_MAX],
    count: usize,
}

impl LabelSet {
    /// `None` for none, and for more than a record can have.
    pub(crate) fn of_some(labels: &[Label]) -> Option<Self> {
        if labels.is_empty() {
            return None;
        }
        Self::of(labels)
    }

    /// `None` for more than a record can have.
    fn of(labels: &[Label]) -> Option<Self> {
        let mut set = Self {
            labels: [Label(0); limits::LABELS_MAX],
            count: 0,
        };
        for label in labels {
            if let Err(place) = set.as_slice().binary_search(label) {
                if set.count == limits::LABELS_MAX {
                    return None;
                }
                set.labels.copy_within(place..set.count, place + 1);
                set.labels[place] = *label;
                set.count += 1;
            }
        }
        Some(set)
    }

    pub(crate) fn as_slice(&self) -> &[Label] {
        &self.labels[..self.count]
    }
}

/// The size of the extension fields for this many labels: 0 without labels.
pub(crate) const fn encoded_bytes(labels: usize) -> usize {
    if labels == 0 {
        0
    } else {
        LENGTH_BYTES + FIELD_BYTES + labels * 8
    }
}

/// Calls `visit` with the encoded extension fields of these labels, at most as many as a record can have.
pub(crate) fn encode(labels: &[Label], visit: impl FnOnce(&[u8])) {
    let mut bytes = [0; encoded_bytes(limits::LABELS_MAX)];
    let length = encoded_bytes(labels.len());
    let short = |length: usize| u8::try_from(length).expect("the labels were counted");
    bytes[0] = short(length - LENGTH_BYTES);
    bytes[2] = LABELS;
    bytes[4] = short(labels.len() * 8);
    for (label, place) in labels.iter().zip(bytes[6..length].chunks_exact_mut(8)) {
        place.copy_from_slice(&label.0.to_le_bytes());
    }
    visit(&bytes[..length]);
}

/// What is wrong with extension fields.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A field that a newer build wrote.
    Unknown(String),
    /// Bytes that no build writes.
    Impossible,
}

/// The offset in a body at which its extension fields end; `None` if the fields are longer than they can be.
pub(crate) fn end(body: &[u8]) -> Option<usize> {
    let length = usize::from(u16::from_le_bytes(*body.first_chunk()?));
    let end = LENGTH_BYTES + length;
    (length <= FIELDS_BYTES_MAX && end <= body.len()).then_some(end)
}

/// Checks the extension fields of a body whose CRC is right.
pub(crate) fn check(body: &[u8]) -> Result<(), Fault> {
    let mut rest = &body[..end(body).ok_or(Fault::Impossible)?][LENGTH_BYTES..];
    let mut last = None;
    while !rest.is_empty() {
        let (kind, flags, value, after) = field(rest).ok_or(Fault::Impossible)?;
        if flags & !CRITICAL != 0 {
            let what =
                format!("a record with an extension field of type {kind} with flags {flags}");
            return Err(Fault::Unknown(what));
        }
        if kind != LABELS && flags & CRITICAL != 0 {
            let what = format!(
                "a record with an extension field of type {kind}, which must be understood"
            );
            return Err(Fault::Unknown(what));
        }
        let is_label_list = || {
            let labels = value.as_chunks::<8>();
            (1..=limits::LABELS_MAX).contains(&labels.0.len())
                && labels.1.is_empty()
                && labels_in(value).is_sorted_by(|one, next| one < next)
        };
        if last >= Some(kind) || kind == LABELS && !is_label_list() {
            return Err(Fault::Impossible);
        }
        (last, rest) = (Some(kind), after);
    }
    Ok(())
}

/// Type, flags and value of the first field, and the bytes after it.
fn field(bytes: &[u8]) -> Option<(u8, u8, &[u8], &[u8])> {
    let ([kind, flags, low, high], rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    let (value, after) = rest.split_at_checked(length)?;
    Some((*kind, *flags, value, after))
}

/// The labels of a body that has extension fields, which were checked.
pub(crate) fn labels(body: &[u8]) -> impl Iterator<Item = Label> + '_ {
    let fields = end(body).map_or(&[][..], |end| &body[LENGTH_BYTES..end]);
    // Types ascend, and no known type is lower than this one.
    let value = field(fields).filter(|(kind, ..)| *kind == LABELS);
    labels_in(value.map_or(&[], |(_, _, value, _)| value))
}

fn labels_in(value: &[u8]) -> impl Iterator<Item = Label> + '_ {
    let words = value.as_chunks::<8>().0.iter();
    words.map(|word| Label(u64::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(labels: &[Label]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(labels, |part| bytes.extend_from_slice(part));
        bytes
    }

    #[test]
    fn labels_are_sorted_and_read_back_once_each() {
        let set = LabelSet::of(&[Label(9), Label(2), Label(9), Label(u64::MAX)]).unwrap();
        assert_eq!(set.as_slice(), [Label(2), Label(9), Label(u64::MAX)]);
        let mut bytes = encoded(set.as_slice());
        assert_eq!(bytes.len(), encoded_bytes(3));
        bytes.extend(b"payload");
        assert_eq!(check(&bytes), Ok(()));
        assert_eq!(end(&bytes), Some(encoded_bytes(3)));
        assert!(labels(&bytes).eq(set.as_slice().iter().copied()));
        let many: Vec<Label> = (0..9).map(Label).collect();
        assert!(LabelSet::of(&many).is_none());
        assert_eq!(LabelSet::of(&many[1..]).unwrap().as_slice(), &many[1..]);
    }

    #[test]
    fn unknown_fields_are_passed_over_unless_they_must_be_understood() {
        let with = |field: &[u8]| {
            let mut bytes = encoded(&[Label(3)]);
            bytes.extend(field);
            bytes[0] += u8::try_from(field.len()).unwrap();
            bytes
        };
        let passed = with(&[200, 0, 3, 0, 1, 2, 3]);
        assert_eq!(check(&passed), Ok(()));
        assert!(labels(&passed).eq([Label(3)]));
        for field in [&[200, 1, 0, 0][..], &[200, 2, 0, 0]] {
            assert!(matches!(check(&with(field)), Err(Fault::Unknown(_))));
        }
        for field in [
            &[200, 0, 9, 0][..],
            &[200, 0],
            &[1, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(check(&with(field)), Err(Fault::Impossible));
        }
    }

    #[test]
    fn impossible_fields_are_refused() {
        let word = |label: u8| [label, 0, 0, 0, 0, 0, 0, 0];
        let cases = [
            vec![],
            vec![1],
            vec![9, 0, 1],
            vec![0xff, 0xff],
            vec![4, 0, 1, 0, 0, 0],
            [&[20, 0, 1, 0, 16, 0][..], &word(2), &word(2)].concat(),
            [&[20, 0, 1, 0, 16, 0][..], &word(3), &word(2)].concat(),
            [&[8, 0, 1, 0, 4, 0][..], &[1, 2, 3, 4]].concat(),
        ];
        for bytes in cases {
            assert_eq!(check(&bytes), Err(Fault::Impossible), "{bytes:?}");
        }
    }
}
