//! [`Report`]: the problems that are found, so many of them one by one.

use crate::{Problem, Verification, store::verify::PROBLEMS_MAX};

/// What is told in the end.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) found: Verification,
}

impl Report {
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
        self.found.problems_count += 1;
        if self.found.problems.len() < PROBLEMS_MAX {
            self.found.problems.push(problem);
        }
    }
}
