//! [`Verification`]: the problems that were found in a store.

/// At most so many problems are told one by one; the rest are counted.
pub(crate) const PROBLEMS_MAX: usize = 1000;

/// What [`verify`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// How many segments there are.
    pub segments: u64,
    /// How many records were read and found whole.
    pub records: u64,
    /// How many records are lost: they had a position, and can't be read.
    pub lost: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// Bytes after the last whole batch that a crash cut off, never acknowledged: no damage.
    pub torn_bytes: u64,
    /// Each problem, at most 1,000 of them.
    pub problems: Vec<Problem>,
    /// How many problems there are.
    pub problems_count: u64,
}

/// Something that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What was expected and what was found, and which records are lost by it.
    pub message: String,
    /// Whether it tells of records that can't be read: only a copy brings them back, no repair does.
    pub is_loss: bool,
}

impl Verification {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.problems_count == 0
    }

    /// Something is not as it should be.
    pub(crate) fn damaged(&mut self, file: &str, offset: u64, message: impl Into<String>) {
        self.add(Problem {
            file: file.to_owned(),
            offset,
            message: message.into(),
            is_loss: false,
        });
    }

    /// Something can't be read, and no repair brings it back.
    pub(crate) fn lost(&mut self, file: &str, offset: u64, message: impl Into<String>) {
        self.add(Problem {
            file: file.to_owned(),
            offset,
            message: message.into(),
            is_loss: true,
        });
    }

    fn add(&mut self, problem: Problem) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}
