//! [`Contents`]: contents that are passed byte for byte, separate from their JSON heads.
//!
//! ```text
//! 0  length of the heads, u32
//! 4  the heads: JSON text, which says the length of each content
//!    the contents, as the elements of a JSON array: `[` content `,` content … `]`
//! ```

use serde::Serialize;

use crate::{Failure, Result, answers::Packed, written::to_javascript};

/// Contents that are being packed.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    array: Vec<u8>,
}

impl Contents {
    pub(crate) fn new() -> Self {
        Self { array: Vec::new() }
    }

    /// Adds a content, and returns its length.
    pub(crate) fn add(&mut self, content: &[u8]) -> usize {
        self.array
            .push(if self.array.is_empty() { b'[' } else { b',' });
        self.array.extend_from_slice(content);
        content.len()
    }

    /// Only the contents, as one JSON array.
    pub(crate) fn into_array(mut self) -> Vec<u8> {
        if self.array.is_empty() {
            self.array.push(b'[');
        }
        self.array.push(b']');
        self.array
    }

    /// As [`pack`](Self::pack), as an answer.
    pub(crate) fn packed<Heads: Serialize>(self, heads: &Heads) -> Result<Packed<Heads>> {
        Ok(Packed::new(self.pack(heads)?))
    }

    /// The heads, then the contents.
    pub(crate) fn pack(self, heads: &impl Serialize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(to_javascript(heads)?.as_bytes());
        let length = u32::try_from(bytes.len() - 4)
            .map_err(|_| Failure::invalid("a page of heads is over 4 GiB"))?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes.append(&mut self.into_array());
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_first_and_contents_are_an_array() {
        let mut contents = Contents::new();
        let lengths = [contents.add(b"{ }"), contents.add(b"1.0")];
        assert_eq!(
            contents.pack(&lengths).unwrap(),
            b"\x05\0\0\0[3,3][{ },1.0]"
        );
        assert_eq!(Contents::new().into_array(), b"[]");
    }
}
