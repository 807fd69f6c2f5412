//! [`Paged`]: one page of a list.

use serde::Serialize;

use crate::{Error, Result};

/// One page of a list, and where the next begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Paged<T> {
    /// What there is on the page.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` when this is the last. It stays right while more is recorded, and
    /// fits the same list with the same filters only.
    pub next: Option<String>,
}

pub(crate) fn check_limit(limit: usize) -> Result<()> {
    match limit {
        0 => Err(Error::invalid(
            "a page of 0 lists nothing; give a limit of at least 1",
        )),
        _ => Ok(()),
    }
}
