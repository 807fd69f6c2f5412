//! Little-endian integers out of bytes that may be anything.

use super::Problem;

/// Reads a structure from its front.
pub(super) struct Cursor<'a> {
    file: &'a str,
    base: u64,
    bytes: &'a [u8],
    place: usize,
}

impl<'a> Cursor<'a> {
    /// `base` is where `bytes` begin in the file.
    pub(super) fn new(file: &'a str, base: u64, bytes: &'a [u8]) -> Self {
        Self {
            file,
            base,
            bytes,
            place: 0,
        }
    }

    /// A structure that begins with its magic and ends with the CRC of all before. Both are looked at before anything
    /// in it is: only then can something unknown in it be a newer build's.
    pub(super) fn of_checked(
        file: &'a str,
        base: u64,
        bytes: &'a [u8],
        magic: &[u8; 8],
    ) -> Result<Self, Problem> {
        let mut cursor = Self::new(file, base, bytes);
        cursor.expect(magic, "magic")?;
        let (covered, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| Problem::new(file, base, "too short for a CRC"))?;
        let expected = crc32fast::hash(covered);
        if u32::from_le_bytes(*crc) != expected {
            let message = format!(
                "crc: expected {expected:08x}, found {:08x}",
                u32::from_le_bytes(*crc)
            );
            return Err(Problem::new(file, base + covered.len() as u64, message));
        }
        cursor.bytes = covered;
        Ok(cursor)
    }

    pub(super) fn offset(&self) -> u64 {
        self.base + self.place as u64
    }

    pub(super) fn rest(&self) -> usize {
        self.bytes.len() - self.place
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.file, self.offset(), message)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        if self.rest() < count {
            return Err(self.problem(format!("expected {count} bytes, found {}", self.rest())));
        }
        let taken = &self.bytes[self.place..self.place + count];
        self.place += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Problem> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32, Problem> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Problem> {
        self.array().map(u64::from_le_bytes)
    }

    /// The number of elements of a sequence, each of which takes at least `size` bytes of what is left.
    pub(super) fn count(&mut self, size: usize) -> Result<usize, Problem> {
        let at = self.offset();
        let count = self.u64()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest() / size => Ok(count),
            _ => Err(Problem::new(
                self.file,
                at,
                format!("{count} elements do not fit"),
            )),
        }
    }

    /// What must be so, else the bytes are damaged.
    pub(super) fn expect(&mut self, expected: &[u8], what: &str) -> Result<(), Problem> {
        let at = self.offset();
        let found = self.take(expected.len())?;
        if found == expected {
            return Ok(());
        }
        Err(Problem::new(
            self.file,
            at,
            format!("{what}: expected {expected:02x?}, found {found:02x?}"),
        ))
    }

    /// What is so in this version, and may be otherwise in a newer one.
    pub(super) fn known(&mut self, expected: &[u8], what: &str) -> Result<(), Problem> {
        self.expect(expected, what).map_err(Problem::of_newer_build)
    }

    /// Three sets of feature bits. A reader minds the incompatible ones only, and gets those of them that may be there.
    pub(super) fn features(&mut self, known: u64) -> Result<u64, Problem> {
        let problem = self.problem("incompatible features");
        let incompatible = self.u64()?;
        self.take(16)?;
        if incompatible & !known == 0 {
            return Ok(incompatible);
        }
        Err(Problem {
            message: format!("incompatible features {incompatible:#x}"),
            ..problem
        }
        .of_newer_build())
    }

    /// A time, in ms.
    pub(super) fn time(&mut self) -> Result<u64, Problem> {
        let problem = self.problem("a time of 2^63 ms or more");
        let time = self.u64()?;
        if time < 1 << 63 {
            Ok(time)
        } else {
            Err(problem)
        }
    }

    /// Reserved bytes, of which one that is not 0 is a newer build's.
    pub(super) fn zeros(&mut self, count: usize) -> Result<(), Problem> {
        let at = self.offset();
        match self.take(count)?.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(place) => {
                Err(
                    Problem::new(self.file, at + place as u64, "a reserved byte is not zero")
                        .of_newer_build(),
                )
            }
        }
    }

    pub(super) fn end(&self) -> Result<(), Problem> {
        if self.rest() == 0 {
            Ok(())
        } else {
            Err(self.problem(format!("{} bytes too many", self.rest())))
        }
    }
}

/// `crc_from(s, x)` of the page.
pub(super) fn crc_from(before: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// The next multiple of 8.
pub(super) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}
