//! Lines of a stream, bounded in length: a longer one is reported and dropped, not held in memory.

use std::io::{self, BufRead};

/// The longest line that is read: 64 MiB, the limit of an event.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

/// How much of a file is read at a time.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A line, without its line feed.
    Whole(Vec<u8>),
    /// The rest after the last line feed of the stream.
    Partial(Vec<u8>),
    /// A line that was too long, with its length in bytes.
    TooLong(u64),
}

/// Reads lines.
pub(crate) struct Lines<R> {
    from: R,
    bytes_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// The lines of a stream, none longer than `bytes_max`.
    pub(crate) fn new(from: R, bytes_max: usize) -> Self {
        Self { from, bytes_max }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let mut length = 0_u64;
        loop {
            let piece = match self.from.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let is_end = piece.is_empty();
            let newline = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..newline.unwrap_or(piece.len())];
            length += part.len() as u64;
            if length <= self.bytes_max as u64 {
                line.extend_from_slice(part);
            } else {
                line = Vec::new();
            }
            let used = part.len() + usize::from(newline.is_some());
            self.from.consume(used);
            let is_too_long = length > self.bytes_max as u64;
            match (newline, is_end) {
                (Some(_), _) if is_too_long => return Ok(Some(Line::TooLong(length))),
                (Some(_), _) => return Ok(Some(Line::Whole(line))),
                (None, true) if length == 0 => return Ok(None),
                (None, true) if is_too_long => return Ok(Some(Line::TooLong(length))),
                (None, true) => return Ok(Some(Line::Partial(line))),
                (None, false) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, bytes_max: usize, buffer: usize) -> Vec<Line> {
        let from = io::BufReader::with_capacity(buffer, text.as_bytes());
        let mut lines = Lines::new(from, bytes_max);
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    #[test]
    fn lines_are_split_and_bounded_whatever_the_buffer() {
        for buffer in [1, 2, 3, 100] {
            let whole = |text: &str| Line::Whole(text.into());
            assert_eq!(
                lines("ab\n\ncd", 4, buffer),
                [whole("ab"), whole(""), Line::Partial("cd".into())]
            );
            assert_eq!(
                lines("abcd\nabcde\nx\n", 4, buffer),
                [whole("abcd"), Line::TooLong(5), whole("x")]
            );
            assert_eq!(lines("abcdefgh", 4, buffer), [Line::TooLong(8)]);
            assert_eq!(lines("", 4, buffer), []);
        }
    }
}
