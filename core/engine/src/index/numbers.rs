//! Lists of numbers in a checkpoint, each with as many bytes as its largest one needs.

use bytes::BufMut;

/// The least width of a list's numbers: 1 byte for a list of unbounded length, so that its count is bounded by the
/// bytes that follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrowest {
    Nothing = 0,
    Byte = 1,
}

/// Numbers as they are stored: each one's difference to the smallest.
#[derive(Clone, Copy, Default)]
pub(crate) struct Numbers<'a> {
    least: u32,
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Numbers<'a> {
    /// Takes `count` numbers from the front of `bytes`; `None` if there are fewer.
    pub(crate) fn take(bytes: &mut &'a [u8], count: usize, narrowest: Narrowest) -> Option<Self> {
        let (least, rest) = bytes.split_first_chunk()?;
        let (width, rest) = rest.split_first()?;
        let width = usize::from(*width);
        if ![0, 1, 2, 4].contains(&width) || width < narrowest as usize {
            return None;
        }
        let (taken, rest) = rest.split_at_checked(count.checked_mul(width)?)?;
        *bytes = rest;
        Some(Self {
            least: u32::from_le_bytes(*least),
            width,
            bytes: taken,
        })
    }

    /// The number at a valid place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> u32 {
        let more = match self.width {
            0 => 0,
            1 => u32::from(self.bytes[place]),
            2 => u32::from(u16::from_le_bytes(self.chunk(place))),
            _ => u32::from_le_bytes(self.chunk(place)),
        };
        self.least.wrapping_add(more)
    }

    fn chunk<const N: usize>(&self, place: usize) -> [u8; N] {
        self.bytes.as_chunks().0[place]
    }

    /// Whether all are 0.
    pub(crate) fn are_zero(&self) -> bool {
        self.least == 0 && self.bytes.iter().all(|byte| *byte == 0)
    }
}

/// Stores numbers.
pub(crate) fn put(bytes: &mut Vec<u8>, numbers: &[u32], narrowest: Narrowest) {
    let least = numbers.iter().copied().min().unwrap_or(0);
    let most = numbers.iter().copied().max().unwrap_or(0) - least;
    let width = match most {
        0 => narrowest as u8,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    };
    bytes.put_u32_le(least);
    bytes.put_u8(width);
    for number in numbers {
        bytes.put_slice(&(number - least).to_le_bytes()[..usize::from(width)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_from_as_few_bytes_as_they_need() {
        for (numbers, narrowest, length) in [
            (&[][..], Narrowest::Byte, 5),
            (&[7, 7], Narrowest::Nothing, 5),
            (&[7, 7], Narrowest::Byte, 7),
            (&[u32::MAX, u32::MAX - 255], Narrowest::Nothing, 7),
            (&[1000, 1256], Narrowest::Nothing, 9),
            (&[0, 65_536, u32::MAX], Narrowest::Nothing, 17),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, numbers, narrowest);
            assert_eq!(bytes.len(), length, "{numbers:?}");
            for cut in 0..length {
                assert!(Numbers::take(&mut &bytes[..cut], numbers.len(), narrowest).is_none());
            }
            let mut rest = &bytes[..];
            let found = Numbers::take(&mut rest, numbers.len(), narrowest).unwrap();
            assert!(rest.is_empty());
            let found: Vec<u32> = (0..numbers.len()).map(|place| found.at(place)).collect();
            assert_eq!(found, numbers);
        }
    }

    #[test]
    fn claims_without_bytes_are_refused() {
        let nothing_each = [1, 0, 0, 0, 0];
        assert!(Numbers::take(&mut &nothing_each[..], 1 << 30, Narrowest::Byte).is_none());
        for width in [3, 5, 8, 255] {
            let mut bytes = [0; 1000];
            bytes[4] = width;
            assert!(Numbers::take(&mut &bytes[..], 1, Narrowest::Nothing).is_none());
        }
    }
}
